// Objects that can be restored after a drop: their DELETE, the action `undrop`, and the record of a search for restorable objects.
import type { Code } from '../standard/codes.ts';
import { exactlyOneOf } from '../standard/documented_limits.ts';
import { objectName } from '../standard/object_name.ts';
import { strictObject, type TObject, type TProperties, Type } from '../standard/type.ts';
import { action, remove } from './declare.ts';
import { engineCodes, Timestamp } from './fields.ts';
import { taskFields } from './task_fields.ts';
import type { TaskType } from './tasks/task_types.ts';

/** The record in a search result. */
export const searchResultOf = <F extends TProperties>(record: TObject<F>) =>
  Type.Object({
    ...record.properties,
    id: Type.Optional(Type.String({ description: 'The id of a dropped object.' })),
    droppedAt: Type.Optional(Timestamp),
    droppedBy: Type.Optional(Type.String()),
    undropUntil: Type.Optional(Timestamp),
  });

const Purge = Type.Optional(
  Type.Boolean({
    default: false,
    description: 'Whether the data is deleted immediately, so that the object cannot be restored.',
  }),
);

interface Dropping {
  readonly summary: string;
  readonly codes: readonly Code[];
}

const dropped = (declared: Dropping) =>
  ({
    ...declared,
    description:
      'The object can be restored with `undrop` within the time of the setting `undropSeconds`; with `purge=true` it is deleted permanently.',
    permission: { privilege: 'drop', on: 'object' },
  }) as const;

/** The DELETE of a restorable object. */
export const drop = (declared: Dropping) => remove({ ...dropped(declared), query: strictObject({ purge: Purge }) });

/** The same for an object with contents. */
export const dropCascading = (declared: Dropping) =>
  remove({
    ...dropped(declared),
    query: strictObject({ cascade: Type.Optional(Type.Boolean({ default: false })), purge: Purge }),
  });

interface Undropping<R extends TObject> {
  /** A noun with its article. */
  readonly title: string;
  readonly record: R;
  /** Codes of this category in addition to those of every `undrop`. */
  readonly codes?: readonly Code[];
}

const undropCodes = ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', ...engineCodes] as const;
const undropFields = {
  name: Type.Optional(objectName('The former name of the object.')),
  id: Type.Optional(Type.String({ description: 'The id of the dropped object, instead of its name.' })),
  newName: Type.Optional(objectName('The new name; by default the previous one.')),
};
const undropLimits = { additionalProperties: false, ...exactlyOneOf('name', 'id') } as const;

const undropped = <R extends TObject>({ title, record, codes = [] }: Undropping<R>) =>
  ({
    summary: `Restores ${title} that was dropped, with its data, its owner and its grants.`,
    description:
      '`name` selects the one that was dropped last; `search` with `dropped` lists restorable objects. If data has to be rewritten, a task restores the object (202). The caller must own the object, or have the privilege `drop` on its parent.',
    permission: { privilege: 'create', on: 'parent' },
    codes: [...undropCodes, ...codes],
    needs: [{ capability: 'undrop' }],
    bodyRequired: true,
    result: record,
    example: { body: { name: 'orders', newName: 'orders_restored' } },
  }) as const;

export const undrop = <R extends TObject>(declared: Undropping<R>) =>
  action('collection', {
    ...undropped(declared),
    body: Type.Object(undropFields, { title: 'UndropRequest', ...undropLimits }),
  });

/** The same for categories whose data may have to be rewritten, by a task. */
export const undropByTask = <R extends TObject, const T extends TaskType>(task: T, declared: Undropping<R>) =>
  action('collection', {
    ...undropped(declared),
    body: Type.Object({ ...undropFields, ...taskFields }, { title: 'UndropByTaskRequest', ...undropLimits }),
    task,
  });
