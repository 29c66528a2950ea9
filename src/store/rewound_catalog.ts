// Rewinds the rows of a catalog to those of an older store, when the file of the catalog is replaced by an older one, so that both are of
// the same instant. Grants on objects in both stores are retained; objects that were deleted since return without grants.
import { type RawBuilder, sql, type Transaction } from 'kysely';
import { rootPrincipal } from '../model/principal.ts';
import type { ObjectState, ObjectsTable, Schema } from './schema.ts';
import type { Store } from './store.ts';

/** Tables with rows that belong to the objects of a catalog, with the column that refers to them. They are copied from the older store. */
export const dependentTables = [
  ['intents', 'object_id'],
  ['dropped_objects', 'object_id'],
  ['view_sources', 'view_id'],
  ['table_statistics', 'object_id'],
  ['load_labels', 'table_id'],
  ['spent_steps', 'catalog_id'],
] as const satisfies readonly (readonly [keyof Schema, string])[];

/** Maximum number of values bound in one statement. */
const valuesPerStatementMax = 200;
/** States in which no change of the catalog itself is in progress. */
const settledStates: ReadonlySet<ObjectState> = new Set<ObjectState>(['ready', 'blocked']);

type Db = Store['db'];
type Row = Readonly<Record<string, unknown>>;

/** The ids of the catalog and all its descendants, in any state; parents before children. */
export async function subtreeIds(db: Db, catalogId: string): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with recursive within (id, depth) as (
      select id, 0 from objects where id = ${catalogId}
      union all select objects.id, depth + 1 from objects join within on objects.parent_id = within.id)
    select id from within order by depth`.execute(db);
  return rows.map(({ id }) => id);
}

/** The reason why the catalog cannot be rewound to `older`; undefined if it can. */
export async function findRewindObstacle(db: Db, older: Db, catalogId: string): Promise<string | undefined> {
  const olderRow = await catalogRow(older, catalogId);
  if (!olderRow) return 'its metadata store does not have the catalog';
  if (!settledStates.has(olderRow.state)) return 'the catalog itself was being changed at the instant of the backup';
  const other = await db
    .selectFrom('objects')
    .select('name')
    .where('category', '=', 'catalogs')
    .where('folded_name', '=', olderRow.folded_name)
    .where('id', '<>', catalogId)
    .executeTakeFirst();
  if (!other) return undefined;
  return `the catalog was called ${JSON.stringify(olderRow.name)} at that time, which is now the name of another catalog`;
}

const catalogRow = (db: Db, catalogId: string) =>
  db
    .selectFrom('objects')
    .selectAll()
    .where('id', '=', catalogId)
    .where('category', '=', 'catalogs')
    .executeTakeFirst();

/** `instant`: milliseconds since 1970; idempotency keys of later requests are deleted, so that these requests can be repeated. */
export async function rewindCatalog(
  tx: Transaction<Schema>,
  older: Db,
  catalogId: string,
  instant: number,
): Promise<void> {
  const [currentIds, olderIds] = [await subtreeIds(tx, catalogId), await subtreeIds(older, catalogId)];
  await deleteLaterKeys(tx, currentIds, catalogId, instant);
  await removeReservation(tx, catalogId);
  for (const [table, column] of dependentTables) await deleteWhere(tx, table, column, currentIds);
  const retained = new Set(olderIds);
  await deleteWhere(
    tx,
    'objects',
    'id',
    currentIds.filter((id) => !retained.has(id)),
  );
  const current = new Map((await rowsWhere(tx, 'objects', 'id', currentIds)).map((row) => [String(row.id), row]));
  // Names may have been swapped since: every name is freed before it is assigned.
  for (const id of current.keys())
    await tx.updateTable('objects').set({ folded_name: id }).where('id', '=', id).execute();
  const rows = new Map((await rowsWhere(older, 'objects', 'id', olderIds)).map((row) => [String(row.id), row]));
  const owners = await userIds(tx);
  for (const id of olderIds) await upsertObject(tx, rows.get(id) as Row, current, catalogId, owners);
  for (const [table, column] of dependentTables) {
    const ids = table === 'spent_steps' ? [catalogId] : olderIds;
    const copied = await rowsWhere(older, table, column, ids);
    await insertRows(tx, table, table === 'view_sources' ? await withExistingSource(tx, copied) : copied);
  }
}

/** The version is newer than both, so that no earlier ETag matches. The catalog keeps its warehouse and its owner. */
async function upsertObject(
  tx: Transaction<Schema>,
  row: Row,
  current: ReadonlyMap<string, Row>,
  catalogId: string,
  owners: ReadonlySet<string>,
): Promise<void> {
  const id = String(row.id);
  const [existing, root] = [current.get(id), current.get(catalogId) as Row];
  const version = Math.max(Number(row.version), Number(existing?.version ?? 0)) + 1;
  const owner = id === catalogId || !owners.has(String(row.owner)) ? root.owner : row.owner;
  const updated = { ...row, version, owner, ...(id === catalogId ? { spec: specInCurrentWarehouse(row, root) } : {}) };
  if (existing)
    await tx
      .updateTable('objects')
      .set(updated as Partial<ObjectsTable>)
      .where('id', '=', id)
      .execute();
  else await insertRows(tx, 'objects', [updated]);
}

function specInCurrentWarehouse(older: Row, current: Row): string {
  const { warehouse } = JSON.parse(String(current.spec)) as { warehouse: string };
  return JSON.stringify({ ...JSON.parse(String(older.spec)), warehouse });
}

async function userIds(tx: Transaction<Schema>): Promise<ReadonlySet<string>> {
  const users = await tx.selectFrom('objects').select('id').where('category', '=', 'users').execute();
  return new Set([rootPrincipal.id, ...users.map(({ id }) => id)]);
}

/** Omits sources that no longer exist: a view can read from other catalogs. */
async function withExistingSource(tx: Transaction<Schema>, sources: readonly Row[]): Promise<Row[]> {
  const ids = sources.map(({ source_id }) => String(source_id));
  const existing = new Set((await rowsWhere(tx, 'objects', 'id', ids)).map(({ id }) => String(id)));
  return sources.filter(({ source_id }) => existing.has(String(source_id)));
}

/** `granted`, which records what a request was authorized for, contains the ids of all ancestors of the object. */
async function deleteLaterKeys(tx: Transaction<Schema>, ids: readonly string[], catalogId: string, instant: number) {
  const later = tx.deleteFrom('idempotency_keys').where('created_at', '>', instant);
  await later.where('granted', 'like', `%"${catalogId}"%`).execute();
  for (const chunk of chunks(ids)) await later.where('object_id', 'in', chunk).execute();
}

/** Deletes the row that reserves the new name of an open rename of the catalog. */
async function removeReservation(tx: Transaction<Schema>, catalogId: string): Promise<void> {
  const open = await tx.selectFrom('intents').select('next').where('object_id', '=', catalogId).executeTakeFirst();
  const { reservationId } = JSON.parse(open?.next ?? '{}') as { reservationId?: string };
  if (reservationId !== undefined) await tx.deleteFrom('objects').where('id', '=', reservationId).execute();
}

const columnIn = (column: string, ids: readonly string[]): RawBuilder<boolean> =>
  sql<boolean>`${sql.ref(column)} in (${sql.join(ids)})`;

async function rowsWhere(db: Db, table: keyof Schema, column: string, ids: readonly string[]): Promise<Row[]> {
  const all: Row[] = [];
  for (const chunk of chunks(ids))
    all.push(...(await sql<Row>`select * from ${sql.table(table)} where ${columnIn(column, chunk)}`.execute(db)).rows);
  return all;
}

async function deleteWhere(tx: Transaction<Schema>, table: keyof Schema, column: string, ids: readonly string[]) {
  for (const chunk of chunks(ids))
    await sql`delete from ${sql.table(table)} where ${columnIn(column, chunk)}`.execute(tx);
}

/** Both stores have been migrated to this release, so the columns are the same. */
async function insertRows(tx: Transaction<Schema>, table: keyof Schema, rows: readonly Row[]): Promise<void> {
  for (const row of rows) {
    const columns = sql.join(Object.keys(row).map((column) => sql.ref(column)));
    await sql`insert into ${sql.table(table)} (${columns}) values (${sql.join(Object.values(row))})`.execute(tx);
  }
}

function chunks<T>(all: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let i = 0; i < all.length; i += valuesPerStatementMax) parts.push(all.slice(i, i + valuesPerStatementMax));
  return parts;
}
