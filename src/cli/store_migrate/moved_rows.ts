// What a row of the metadata store becomes when the store is moved. In a store that servers share, warehouses, tasks and files in a data
// directory have the id of their server; in the store of a single server they have none. Leases are given up, because no server runs.
import { serverIdSetting } from '../../access/audit/audit_log.ts';
import type { CatalogSpec, WarehouseSpec } from '../../model/records.ts';
import { OperatorError } from '../../operator/operator_error.ts';
import { segmentsOfUri } from '../../standard/paths.ts';
import type { FilesTable, ObjectsTable, TasksTable } from '../../store/schema.ts';
import { interruptedStatement } from '../../store/servers.ts';
import { movedSetting, type Store } from '../../store/store.ts';
import { pagesOf, type Row, type TableName } from './store_tables.ts';

type Db = Store['db'];

/** Undefined: the row is left out. */
export type RowOfTarget = (table: TableName, row: Row) => Row | undefined;

export interface MovedRows {
  readonly rowOf: RowOfTarget;
  /** Rows of the target that the source does not have. */
  readonly added: readonly (readonly [TableName, Row])[];
}

const isMark = (table: TableName, row: Row) => table === 'settings' && row.key === movedSetting;
const withoutLease = (row: Row): Row => (row.lease_until && 'leased_by' in row ? { ...row, lease_until: 0 } : row);

/** Releases before wrote the folded form of a comment with a NUL, which PostgreSQL lacks, as it is (catalog/object_rows.ts). */
const withoutNul = (row: Row): Row =>
  typeof row.folded_comment === 'string'
    ? { ...row, folded_comment: row.folded_comment.replaceAll('\0', '\u0001') }
    : row;

/** Between two databases that servers share. */
export function toOtherDatabase(): MovedRows {
  return { added: [], rowOf: (table, row) => (isMark(table, row) ? undefined : withoutLease(row)) };
}

/** The single server becomes the first one of those that share a store. `isLocal`: whether an engine keeps its data in the data directory. */
export async function toShared(db: Db, serverId: string, isLocal: (engine: string) => boolean): Promise<MovedRows> {
  const localWarehouses = new Set<string>();
  const catalogs = new Map<string, string>();
  for await (const { category, name, spec } of rootObjects(db))
    if (category === 'warehouses' && isLocal((JSON.parse(spec) as WarehouseSpec).engine)) localWarehouses.add(name);
    else if (category === 'catalogs') catalogs.set(name, (JSON.parse(spec) as CatalogSpec).warehouse);
  const storedHere = await resultsInDataDirectory(db);
  /** As when the task is submitted or has left a result (tasks/task_server.ts). */
  const isOfServer = ({ task_id, target, request }: TasksTable): boolean => {
    const { catalog } = (JSON.parse(request) ?? {}) as { readonly catalog?: unknown };
    const [root] = segmentsOfUri(target);
    const name = typeof catalog === 'string' ? catalog : root?.category === 'catalogs' ? root.name : undefined;
    return storedHere.has(task_id) || (name !== undefined && localWarehouses.has(catalogs.get(name) ?? ''));
  };
  const convert = (table: TableName, row: Row): Row => {
    if (table === 'objects' && row.category === 'warehouses') {
      const spec = JSON.parse((row as unknown as ObjectsTable).spec) as WarehouseSpec;
      if (isLocal(spec.engine)) return withoutNul({ ...row, spec: JSON.stringify({ ...spec, serverId }) });
    }
    if (table === 'objects') return withoutNul(row);
    if (table === 'tasks') return { ...row, server_id: isOfServer(row as unknown as TasksTable) ? serverId : null };
    if (table === 'files') return { ...row, server_id: row.stored_as === null ? serverId : null };
    return row;
  };
  return {
    added: [],
    rowOf: (table, row) => (isMark(table, row) ? undefined : withoutLease(convert(table, row))),
  };
}

const ofRunningServers: ReadonlySet<TableName> = new Set(['servers', 'running_queries', 'rate_charges']);

/** The server with this id becomes the only one. Throws OperatorError if other servers have data. */
export async function toSingle(db: Db, serverId: string): Promise<MovedRows> {
  await requireNoOtherServers(db, serverId);
  const convert = (table: TableName, row: Row): Row => {
    if (table === 'objects' && row.category === 'warehouses') {
      const { serverId: _, ...spec } = JSON.parse((row as unknown as ObjectsTable).spec) as WarehouseSpec;
      return { ...row, spec: JSON.stringify(spec) };
    }
    if (table === 'queries' && row.server_id !== null)
      return { ...row, ...interruptedStatement, ended_at: row.started_at ?? row.submitted_at };
    return table === 'tasks' || table === 'files' ? { ...row, server_id: null } : row;
  };
  return {
    added: [['settings', { key: serverIdSetting, value: serverId }]],
    rowOf: (table, row) => {
      if (ofRunningServers.has(table) || isMark(table, row)) return undefined;
      if (table === 'settings' && row.key === serverIdSetting) return undefined;
      return withoutLease(convert(table, row));
    },
  };
}

async function requireNoOtherServers(db: Db, serverId: string): Promise<void> {
  const problems: string[] = [];
  const warehouses: string[] = [];
  for await (const { category, name, spec } of rootObjects(db)) {
    if (category !== 'warehouses') continue;
    const { serverId: owner = serverId } = JSON.parse(spec) as WarehouseSpec;
    if (owner !== serverId) warehouses.push(JSON.stringify(name));
  }
  if (warehouses.length > 0) problems.push(`the warehouses ${warehouses.join(', ')}`);
  const inDirectory = await resultsInDataDirectory(db);
  let results = 0;
  for await (const rows of pagesOf(db, 'tasks'))
    for (const { task_id, server_id } of rows as unknown as TasksTable[])
      if (inDirectory.has(task_id) && server_id !== null && server_id !== serverId) results++;
  if (results > 0) problems.push(`the results of ${results} tasks`);
  let files = 0;
  for await (const rows of pagesOf(db, 'files'))
    for (const { server_id } of rows as unknown as FilesTable[])
      if (server_id !== null && server_id !== serverId) files++;
  if (files > 0) problems.push(`${files} files`);
  if (problems.length === 0) return;
  throw new OperatorError(
    `other servers than ${serverId} have ${problems.join(', ')} in their data directories: move or delete them first`,
  );
}

async function* rootObjects(db: Db): AsyncGenerator<Pick<ObjectsTable, 'category' | 'name' | 'spec'>> {
  const categories = ['warehouses', 'catalogs'];
  const rows = db.selectFrom('objects').select(['category', 'name', 'spec']).where('category', 'in', categories);
  yield* await rows.execute();
}

async function resultsInDataDirectory(db: Db): Promise<ReadonlySet<string>> {
  const rows = await db.selectFrom('result_sources').select('task_id').where('stored_as', 'is', null).execute();
  return new Set(rows.map(({ task_id }) => task_id));
}
