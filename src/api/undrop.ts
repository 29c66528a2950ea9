// Objects that can be restored after a drop: their DELETE, the action `undrop`, and the record of a search for restorable objects.
import type { Code } from '../standard/codes.ts';
import { type TObject, type TProperties, Type } from '../standard/type.ts';
import { action, remove } from './declare.ts';
import { engineCodes } from './fields.ts';
import { taskCodes, taskFields } from './task_fields.ts';
import type { TaskType } from './tasks/task_types.ts';

const Timestamp = Type.String({ format: 'date-time' });

/** The record in a search result. */
export const searchResultOf = <F extends TProperties>(record: TObject<F>) =>
  Type.Object({
    ...record.properties,
    id: Type.Optional(Type.String({ description: 'Of one that was dropped: what tells those of one name apart.' })),
    droppedAt: Type.Optional(Timestamp),
    droppedBy: Type.Optional(Type.String()),
    undropUntil: Type.Optional(Timestamp),
  });

const Purge = Type.Optional(
  Type.Boolean({ default: false, description: 'It cannot come back; its data goes at once.' }),
);

interface Dropping {
  readonly summary: string;
  readonly codes: readonly Code[];
}

const dropped = (declared: Dropping) =>
  ({
    ...declared,
    description:
      'It can come back by `undrop` for as long as the setting `undropSeconds` says; with `purge=true` it is gone for good.',
    permission: { privilege: 'drop', on: 'object' },
  }) as const;

/** The DELETE of a restorable object. */
export const drop = (declared: Dropping) =>
  remove({ ...dropped(declared), query: Type.Object({ purge: Purge }, { additionalProperties: false }) });

/** The same for an object with contents. */
export const dropCascading = (declared: Dropping) =>
  remove({
    ...dropped(declared),
    query: Type.Object(
      { cascade: Type.Optional(Type.Boolean({ default: false })), purge: Purge },
      { additionalProperties: false },
    ),
  });

interface Undropping<R extends TObject> {
  /** A noun with its article. */
  readonly title: string;
  readonly record: R;
  /** Codes of this category in addition to those of every `undrop`. */
  readonly codes?: readonly Code[];
}

const undropCodes = [
  'OBJECT_NOT_FOUND',
  'INVALID_NAME',
  'OBJECT_ALREADY_EXISTS',
  'CHANGE_IN_PROGRESS',
  ...engineCodes,
] as const;
const undropFields = {
  name: Type.Optional(Type.String({ description: 'What it was called.' })),
  id: Type.Optional(Type.String({ description: 'Instead of the name.' })),
  newName: Type.Optional(Type.String({ description: 'The name that it gets, where not the one that it had.' })),
};

const undropped = <R extends TObject>({ title, record, codes = [] }: Undropping<R>) =>
  ({
    summary: `Brings back ${title} that was dropped, with its data, its owner and what was granted on it.`,
    description:
      'By `name` it is the one that was dropped last; `search` with `dropped` shows what can come back. Where data has to be written again a task does it (202). The caller must own it, or have the privilege `drop` on what holds it.',
    permission: { privilege: 'create', on: 'parent' },
    codes: [...new Set<Code>([...undropCodes, ...codes])],
    bodyRequired: true,
    result: record,
    example: { body: { name: 'orders', newName: 'orders_restored' } },
  }) as const;

export const undrop = <R extends TObject>(declared: Undropping<R>) =>
  action('collection', {
    ...undropped(declared),
    body: Type.Object(undropFields, { title: 'UndropRequest', additionalProperties: false }),
  });

/** The same for categories whose data may have to be rewritten, by a task. */
export const undropByTask = <R extends TObject, const T extends TaskType>(task: T, declared: Undropping<R>) =>
  action('collection', {
    ...undropped({ ...declared, codes: [...taskCodes, ...(declared.codes ?? [])] }),
    body: Type.Object(
      { ...undropFields, ...taskFields },
      { title: 'UndropByTaskRequest', additionalProperties: false },
    ),
    task,
  });
