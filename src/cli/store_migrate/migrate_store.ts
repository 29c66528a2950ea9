// Moves the metadata of a server, or of several, to another store: copies all rows in one transaction of the target, compares what was
// written with what should be there, and only then takes the source out of use. Until then the source is unchanged and in force; the
// command can be repeated after it was interrupted at any point.
import { sql } from 'kysely';
import { auditKeyOf } from '../../access/assemble_access.ts';
import { serverIdSetting } from '../../access/audit/audit_log.ts';
import { type AuditVerdict, verifyAudit } from '../../access/audit/audit_reader.ts';
import { type KeyLocation, openSecrets, type Secrets } from '../../access/secrets/secrets.ts';
import { OperatorError, SettingsError } from '../../operator/operator_error.ts';
import { createDataDirectory } from '../../store/data_directory.ts';
import type { Store } from '../../store/store.ts';
import { type MovedRows, toOtherDatabase, toShared, toSingle } from './moved_rows.ts';
import { identityOf, type OpenedPlace, type StorePlace } from './store_places.ts';
import {
  insertRows,
  pagesOf,
  type Row,
  type TableName,
  type TableSum,
  TableSummer,
  tableNames,
} from './store_tables.ts';

type Db = Store['db'];

export interface MigrateOptions {
  readonly from: StorePlace;
  readonly to: StorePlace;
  readonly keys: Omit<KeyLocation, 'dataDirectory'>;
  /** Whether an engine keeps its data in the data directory. */
  readonly isLocalEngine: (engine: string) => boolean;
  /** Called before each step; tests end the process there. */
  readonly onStep?: (step: string) => void;
}

export interface Migration {
  /** False: an earlier run, which was interrupted, had copied everything. */
  readonly copied: boolean;
  /** As they are in the target. */
  readonly tables: readonly TableSum[];
  /** Undefined: the key of the secrets is not known here, so the audit trail was compared but not verified. */
  readonly audit: Pick<AuditVerdict, 'eventCount' | 'faults'> | undefined;
  readonly secrets: number;
}

/** Throws OperatorError: the source is in force and unchanged, and the target is as before or contains an unused copy. */
export async function migrateStore(options: MigrateOptions): Promise<Migration> {
  const { from, to, onStep = () => {} } = options;
  if (!from.isPostgresql && !to.isPostgresql)
    throw new SettingsError(
      'one of --from and --to must be a database of PostgreSQL: a data directory is moved by copying it while its server is stopped',
    );
  if (from.name === to.name) throw new SettingsError('--from and --to are the same store');
  onStep('open the source');
  const source = await from.openSource();
  try {
    if (source.isEmpty) throw new OperatorError(`${from.name} is empty: no server has used it`);
    const secrets = await secretsOf(source.store, options);
    const before = secrets && (await verifyAudit(source.store, auditKeyOf(secrets)));
    const moved = await movedRows(source.store.db, options);
    onStep('open the target');
    const target = await to.openTarget();
    try {
      const { copied, tables } = await fill(source.store, target, moved, options);
      const audit = secrets && (await verifyAudit(target.store, auditKeyOf(secrets)));
      if (audit && before && !isSame(audit, before))
        throw new OperatorError('the audit trail of the copy is not that of the source: report this');
      onStep('close the target');
      await target.close();
      onStep('publish the target');
      await target.publish();
      onStep('retire the source');
      await source.retire(to.name);
      return { copied, tables, audit, secrets: tables.find(({ table }) => table === 'secrets')?.rows ?? 0 };
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

/** Also checks that the key opens every secret. Undefined if no key is at hand. */
async function secretsOf(store: Store, { from, to, keys }: MigrateOptions): Promise<Secrets | undefined> {
  const dataDirectory = from.dataDirectory ?? to.dataDirectory;
  if (dataDirectory === undefined && !keys.key && !keys.keyFile) return undefined;
  const secrets = await openSecrets({ store, ...keys, dataDirectory: dataDirectory ?? '.' });
  const rows = await store.db.selectFrom('secrets').select('name').execute();
  for (const { name } of rows) await secrets.get(name);
  return secrets;
}

async function movedRows(db: Db, { from, to, isLocalEngine }: MigrateOptions): Promise<MovedRows> {
  if (from.dataDirectory !== undefined) {
    const known = await db.selectFrom('settings').select('value').where('key', '=', serverIdSetting).executeTakeFirst();
    return toShared(db, identityOf(from.dataDirectory, known?.value), isLocalEngine);
  }
  if (to.dataDirectory === undefined) return toOtherDatabase();
  await createDataDirectory(to.dataDirectory);
  return toSingle(db, identityOf(to.dataDirectory));
}

async function fill(
  source: Store,
  target: OpenedPlace,
  moved: MovedRows,
  { from, to, onStep = () => {} }: MigrateOptions,
): Promise<Pick<Migration, 'copied' | 'tables'>> {
  if (!target.isEmpty) {
    const expected = await sumsOf(tableNames, (table) => movedPages(source.db, table, moved));
    const found = await sumsOf(tableNames, (table) => pagesOf(target.store.db, table));
    if (isSame(expected, found)) return { copied: false, tables: found };
    throw new OperatorError(
      `${to.name} is not empty, and not a copy of the source: create an empty database, or choose another place`,
    );
  }
  const tables = await target.store.transaction(async (tx) => {
    await deferReferences(tx, to.isPostgresql, true);
    for (const table of tableNames) await sql`delete from ${sql.table(table)}`.execute(tx);
    const expected: TableSum[] = [];
    for (const table of tableNames) {
      onStep(`copy ${table}`);
      expected.push(await copyTable(source.db, tx, table, moved, to.isPostgresql));
    }
    await continuePositions(await lastPosition(source.db, from.isPostgresql), tx, to.isPostgresql);
    onStep('compare');
    const found = await sumsOf(tableNames, (table) => pagesOf(tx, table));
    const differing = expected.filter((sum, i) => !isSame(sum, found[i])).map(({ table }) => table);
    if (differing.length > 0)
      throw new OperatorError(
        `the copy differs from the source in ${differing.join(', ')}; it was undone: report this`,
      );
    await deferReferences(tx, to.isPostgresql, false);
    onStep('commit');
    return found;
  });
  return { copied: true, tables };
}

async function copyTable(
  from: Db,
  to: Db,
  table: TableName,
  moved: MovedRows,
  isPostgresql: boolean,
): Promise<TableSum> {
  const summer = new TableSummer(table);
  for await (const rows of movedPages(from, table, moved)) {
    for (const row of rows) summer.add(row);
    await insertRows(to, table, rows, isPostgresql);
  }
  return summer.sum();
}

async function* movedPages(db: Db, table: TableName, { rowOf, added }: MovedRows): AsyncGenerator<readonly Row[]> {
  for await (const rows of pagesOf(db, table))
    yield rows.map((row) => rowOf(table, row)).filter((row) => row !== undefined);
  for (const [addedTo, row] of added) if (addedTo === table) yield [row];
}

async function sumsOf(
  tables: readonly TableName[],
  pages: (table: TableName) => AsyncGenerator<readonly Row[]>,
): Promise<TableSum[]> {
  const sums: TableSum[] = [];
  for (const table of tables) {
    const summer = new TableSummer(table);
    for await (const rows of pages(table)) for (const row of rows) summer.add(row);
    sums.push(summer.sum());
  }
  return sums;
}

/** Rows refer to others that are inserted later: references are checked when all are there. */
async function deferReferences(tx: Db, isPostgresql: boolean, isDeferred: boolean): Promise<void> {
  if (!isPostgresql) {
    if (isDeferred) await sql`pragma defer_foreign_keys = on`.execute(tx);
    return;
  }
  if (!isDeferred) await sql`set constraints all immediate`.execute(tx);
  const { rows } = await sql<{ table: string; name: string }>`
    select relname as "table", conname as name from pg_constraint join pg_class on pg_class.oid = conrelid
    where contype = 'f' and connamespace = current_schema()::regnamespace`.execute(tx);
  const mode = isDeferred ? sql`deferrable initially deferred` : sql`not deferrable`;
  for (const { table, name } of rows)
    await sql`alter table ${sql.table(table)} alter constraint ${sql.ref(name)} ${mode}`.execute(tx);
}

/** Positions of changes that clients have received stay below those of later changes. */
async function continuePositions(last: number, tx: Db, isPostgresql: boolean): Promise<void> {
  if (isPostgresql)
    await sql`select setval(pg_get_serial_sequence('changes', 'position'), ${Math.max(1, last)})`.execute(tx);
  else await sql`update sqlite_sequence set seq = max(seq, ${last}) where name = 'changes'`.execute(tx);
}

async function lastPosition(db: Db, isPostgresql: boolean): Promise<number> {
  const sequence = isPostgresql
    ? sql<{
        last: number | null;
      }>`select pg_sequence_last_value(pg_get_serial_sequence('changes', 'position')::regclass) as last`
    : sql<{ last: number | null }>`select seq as last from sqlite_sequence where name = 'changes'`;
  const { rows } = await sequence.execute(db);
  const newest = await db
    .selectFrom('changes')
    .select((e) => e.fn.max('position').as('last'))
    .executeTakeFirst();
  return Math.max(Number(rows[0]?.last ?? 0), Number(newest?.last ?? 0));
}

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
