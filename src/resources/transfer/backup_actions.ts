// The actions `backup` of a catalog and a database, and `restore`, which makes one from a backup. Both are tasks; what they do is
// backups/.

import { engineCodes } from '../../api/fields.ts';
import { taskFields, taskCodes as usualCodes } from '../../api/task_fields.ts';
import { From, To } from '../../api/transfer/backup_places.ts';
import type { BackupRequest } from '../../backups/backups.ts';
import { type RestoreRequest, restoreTask } from '../../backups/restores.ts';
import type { TargetRequest } from '../../backups/targets/backup_targets.ts';
import type { CatalogObject, ObjectPath } from '../../catalog/object.ts';
import type { CatalogRef, Change } from '../../engines/engine.ts';
import type { CatalogSpec } from '../../model/records.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { type Static, Type } from '../../standard/type.ts';
import { invalid } from '../records/fields.ts';
import { accepted, action, type Context, requirePrivilege, requireTask, segment } from '../records/handler_context.ts';
import { taskOptions } from '../records/task_fields.ts';
import { storeFolderOf } from './object_store_fields.ts';

/** It reads, or writes, all of a place. */
const cost = 20;

/** What the request of a task may show, and what not. */
export function placeOf({ path, s3 }: Static<typeof To>): {
  readonly asked: TargetRequest;
  readonly credentials: ObjectStoreCredentials | undefined;
} {
  if (!s3) return { asked: { kind: 'directory', path: path as string }, credentials: undefined };
  const { place, credentials } = storeFolderOf(s3);
  return { asked: { kind: 's3', ...place }, credentials };
}

const taskCodes = ['OBJECT_NOT_FOUND', ...usualCodes, ...engineCodes] as const;
const directory = { path: '/backups/tabularium' };

export const backupAction = (what: string, pathOf: (path: PathParameters) => readonly Segment[]) =>
  action('backup', {
    on: 'object',
    summary: `Backs a ${what} up, as it is at one instant, while it is in use.`,
    description:
      'Always a task (202), whose id is that of the backup. Its result has `backupId`, `takenAt`, `since` (the backup that it builds on, or null), `databases`, `tables`, `rows`, `files`, `bytes`, and of them `filesSent` and `bytesSent`. A task that fails or is cancelled leaves nothing. Grants and owners are not in a backup.',
    permission: { privilege: 'read', on: 'object' },
    codes: taskCodes,
    body: Type.Object({ to: To, ...taskFields }, { additionalProperties: false }),
    bodyRequired: true,
    result: Type.Object({}),
    mayAccept: true,
    cost,
    example: { body: { to: directory } },
    handle: async ({ path, body }, context) => {
      const segments = pathOf(path);
      const chain = (await context.catalog.require(segments)) as [CatalogObject<CatalogSpec>, ...CatalogObject[]];
      await requirePrivilege('use', [segment('warehouses', chain[0].spec.warehouse)], context);
      const { asked, credentials } = placeOf(body.to);
      const { principal, actor, version } = context.call;
      const request: BackupRequest = { objectId: (chain.at(-1) as CatalogObject).id, to: asked };
      const target = uriOf(version, segments);
      const task = { principal, guard: actor.guard, target, request, ...(await taskOptions(body, context)) };
      return accepted(await context.backups.submit(task, actor, credentials), context);
    },
  });

const common = {
  name: Type.String({ description: 'The name that it gets.' }),
  from: From,
  backupId: Type.Optional(
    Type.String({
      pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
      description: 'Which backup; by default the newest that fits.',
    }),
  ),
  ...taskFields,
};
const CatalogBody = Type.Object(
  { ...common, warehouse: Type.Optional(Type.String({ description: 'The warehouse that will keep its data.' })) },
  { additionalProperties: false },
);
const DatabaseBody = Type.Object(
  {
    ...common,
    database: Type.Optional(
      Type.String({ description: 'Which of those in the backup; for the backup of a catalog it has to be said.' }),
    ),
  },
  { additionalProperties: false },
);
type Common = Omit<Static<typeof CatalogBody>, 'warehouse'>;

const restored = {
  on: 'collection' as const,
  description:
    'Always a task (202). Nobody sees what it makes before it is whole, and a task that fails or is cancelled leaves nothing; its result has `name`, `backupId`, `takenAt`, `databases`, `tables`, `views`, `rows`, and `viewsLeft`: views that would not be valid where they came to, or read what the caller may not. All of it is its maker’s, and nothing is granted on it. From a directory only what the caller may `read` can be restored; what is gone, by who may `read` all catalogs.',
  permission: { privilege: 'create', on: 'parent' } as const,
  codes: [...taskCodes, 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'] as const,
  bodyRequired: true,
  result: Type.Object({}),
  mayAccept: true,
  cost,
};

export const restoreCatalog = (defaultWarehouse: string) =>
  action('restore', {
    ...restored,
    summary: 'Makes a catalog, with all that is in it, from a backup.',
    body: CatalogBody,
    example: { body: { name: 'lake_of_monday', from: directory } },
    handle: async ({ body }, context) => {
      const { name, warehouse = defaultWarehouse } = body;
      await requirePrivilege('use', [segment('warehouses', warehouse)], context);
      if (!(await context.catalog.find([segment('warehouses', warehouse)])))
        throw invalid('/warehouse', 'exists', `names no warehouse: ${JSON.stringify(warehouse)}`);
      const of = (id: string) => ({ catalog: { id, name } });
      return submitted(body, context, {
        path: [segment('catalogs', name)],
        parent: null,
        warehouse,
        spec: { warehouse },
        change: (id) => ({ kind: 'createCatalog', ...of(id) }),
        undo: (id) => ({ kind: 'dropCatalog', ...of(id) }),
      });
    },
  });

export const restoreDatabase = (parentOf: (path: PathParameters) => readonly Segment[]) =>
  action('restore', {
    ...restored,
    summary:
      'Makes a database, with all that is in it, from a backup: of a database, or one of those in the backup of a catalog.',
    body: DatabaseBody,
    example: { body: { name: 'ssb_of_monday', from: directory, database: 'ssb' } },
    handle: async ({ path, body }, context) => {
      const at = parentOf(path);
      const [root] = (await context.catalog.require(at)) as [CatalogObject<CatalogSpec>];
      const { warehouse } = root.spec;
      await requirePrivilege('use', [segment('warehouses', warehouse)], context);
      const catalog = { id: root.id, name: root.name };
      const database = { catalog, database: body.name };
      return submitted(body, context, {
        path: [...at, segment('databases', body.name)],
        parent: root,
        warehouse,
        spec: {},
        change: () => ({ kind: 'createDatabase', database }),
        undo: () => ({ kind: 'dropDatabase', database }),
        catalog,
        database: body.database,
      });
    },
  });

interface ToMake {
  readonly path: ObjectPath;
  readonly parent: CatalogObject | null;
  readonly warehouse: string;
  readonly spec: object;
  readonly change: (id: string) => Change;
  readonly undo: (id: string) => Change;
  readonly catalog?: CatalogRef;
  readonly database?: string | undefined;
}

async function submitted(body: Common, context: Context, make: ToMake) {
  const { name, from, backupId } = body;
  const { path, parent, warehouse, spec, change, undo } = make;
  const { category } = path.at(-1) as Segment;
  const fault = (await context.warehouses.engineOf(warehouse)).reservedName(category as 'catalogs', name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
  const { asked, credentials } = placeOf(from);
  const { places, notes } = context.restores;
  await places.check(asked, 'from');
  const options = await taskOptions(body, context);
  const request: RestoreRequest = {
    category: category as RestoreRequest['category'],
    name,
    from: asked,
    backupId,
    database: make.database,
    warehouse,
    catalog: make.catalog,
  };
  const { principal, actor, version } = context.call;
  const outcome = await context.catalog.createLater({
    parent,
    category,
    name,
    spec,
    principal: actor,
    ifExists: 'fail',
    warehouse,
    change,
    undo,
    task: {
      type: restoreTask,
      target: uriOf(version, path as Segment[]),
      request,
      principal,
      ...options,
      inTransaction: (tx, taskId) => notes.put(taskId, { credentials }, tx),
    },
  });
  return accepted(await requireTask(outcome.taskId as string, context), context);
}
