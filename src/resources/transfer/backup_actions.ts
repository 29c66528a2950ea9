// The handlers of `backup` and `restore`. Both submit tasks; what these do is in backups/.
import assert from 'node:assert/strict';
import type { BodyOf, SharedHandlers } from '../../api/handlers.ts';
import type { backupApi, restoreCatalogApi, restoreDatabaseApi } from '../../api/transfer/backup_actions.ts';
import type { To } from '../../api/transfer/backup_locations.ts';
import type { BackupRequest } from '../../backups/backups.ts';
import { type RestoreRequest, restoreTask } from '../../backups/restores.ts';
import type { TargetRequest } from '../../backups/targets/backup_targets.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { Change } from '../../engines/port/changes.ts';
import type { CatalogRef } from '../../engines/port/refs.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import { type Segment, segment, uriOf } from '../../standard/paths.ts';
import type { Static } from '../../standard/type.ts';
import type { Context } from '../records/handler_context.ts';
import { requireUnreserved, requireUse, requireWarehouse } from '../records/permissions.ts';
import { taskOptions } from '../records/task_fields.ts';
import { accepted, acceptedTask } from '../records/task_record.ts';
import { storeFolderOf } from './object_store_fields.ts';

/** Separates the part of the request that the task may show from its secrets. */
export function targetOf({ path, s3 }: Static<typeof To>): {
  readonly target: TargetRequest;
  readonly credentials: ObjectStoreCredentials | undefined;
} {
  if (s3) {
    const { location, credentials } = storeFolderOf(s3);
    return { target: { kind: 's3', ...location }, credentials };
  }
  assert(path !== undefined, 'the schema requires one of them');
  return { target: { kind: 'directory', path }, credentials: undefined };
}

type InCatalog = readonly [Segment<'catalogs'>, ...Segment[]];

export const backupHandlers: SharedHandlers<ReturnType<typeof backupApi>, Context, InCatalog> = {
  backup: async ({ segments, body }, context) => {
    const chain = await context.catalog.require(segments);
    const [root] = chain;
    const { id: objectId } = chain.at(-1) ?? root;
    await requireUse(root.spec.warehouse, context);
    const { target: destination, credentials } = targetOf(body.to);
    const { principal, actor, version } = context.call;
    const request: BackupRequest = { objectId, to: destination };
    const target = uriOf(version, segments);
    const task = { principal, guard: actor.guard, target, request, ...(await taskOptions(body, context)) };
    return accepted(await context.backups.submit(task, actor, credentials), context);
  },
};

/** `defaultWarehouse`: of catalogs for which the request names none. */
export const restoreCatalog = (
  defaultWarehouse: string,
): SharedHandlers<typeof restoreCatalogApi, Context, readonly []> => ({
  restore: async ({ body }, context) => {
    const { name, warehouse = defaultWarehouse } = body;
    await requireWarehouse(warehouse, context);
    const sourceOf = (id: string) => ({ catalog: { id, name } });
    return submitRestore(body, context, {
      category: 'catalogs',
      parents: [],
      parent: null,
      warehouse,
      spec: { warehouse },
      change: (id) => ({ kind: 'createCatalog', ...sourceOf(id) }),
      undo: (id) => ({ kind: 'dropCatalog', ...sourceOf(id) }),
    });
  },
});

export const restoreDatabase: SharedHandlers<typeof restoreDatabaseApi, Context, readonly [Segment<'catalogs'>]> = {
  restore: async ({ segments, body }, context) => {
    const [root] = await context.catalog.require(segments);
    const { warehouse } = root.spec;
    await requireUse(warehouse, context);
    const catalog = { id: root.id, name: root.name };
    const database = { catalog, database: body.name };
    return submitRestore(body, context, {
      category: 'databases',
      parents: segments,
      parent: root,
      warehouse,
      spec: {},
      change: () => ({ kind: 'createDatabase', database }),
      undo: () => ({ kind: 'dropDatabase', database }),
      catalog,
      database: body.database,
    });
  },
};

type Body = Omit<BodyOf<(typeof restoreCatalogApi)['restore']>, 'warehouse'>;

/** The object that a restore creates. */
interface Restored {
  readonly category: RestoreRequest['category'];
  readonly parents: readonly Segment[];
  readonly parent: CatalogObject | null;
  readonly warehouse: string;
  readonly spec: object;
  readonly change: (id: string) => Change;
  readonly undo: (id: string) => Change;
  readonly catalog?: CatalogRef;
  readonly database?: string | undefined;
}

async function submitRestore(body: Body, context: Context, restored: Restored) {
  const { name, from, backupId } = body;
  const { category, parents, parent, warehouse, spec, change, undo, catalog, database } = restored;
  await requireUnreserved(category, name, warehouse, context);
  const { target: source, credentials } = targetOf(from);
  const { targets, secrets } = context.restores;
  await targets.check(source, 'from');
  const options = await taskOptions(body, context);
  const request: RestoreRequest = { category, name, from: source, backupId, database, warehouse, catalog };
  const { principal, actor, version } = context.call;
  const { taskId } = await context.catalog.createLater({
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
      target: uriOf(version, [...parents, segment(category, name)]),
      request,
      principal,
      ...options,
      inTransaction: (tx, taskId) => secrets.put(taskId, { credentials }, tx),
    },
  });
  assert(taskId !== undefined, 'a creation that fails if the object exists submits a task');
  return acceptedTask(taskId, restoreTask, context);
}
