// The tables of the metadata store as `store migrate` copies them: the columns that identify a row, pages of rows, and checksums that do not
// depend on the database or the order.
import { createHash } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import { OperatorError } from '../../operator/operator_error.ts';
import type { Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';

type Db = Store['db'];
export type Row = Readonly<Record<string, unknown>>;
export type TableName = keyof Schema;

/** The primary key of each table. None of these columns is null. */
const keys = {
  servers: ['id'],
  changes: ['position'],
  failed_logins: ['key'],
  rate_charges: ['key'],
  running_queries: ['server_id', 'principal_id'],
  result_sources: ['task_id'],
  objects: ['id'],
  intents: ['id'],
  catalog_moves: ['task_id'],
  move_reports: ['task_id', 'server_id'],
  dropped_objects: ['object_id'],
  view_sources: ['view_id', 'source_id'],
  spent_steps: ['step'],
  load_labels: ['table_id', 'label'],
  tasks: ['task_id'],
  task_waits: ['after_id', 'task_id'],
  task_ends: ['task_id'],
  schedule_times: ['object_id'],
  object_versions: ['object_id', 'version'],
  queries: ['query_id'],
  table_statistics: ['object_id'],
  catalog_files: ['catalog_id'],
  settings: ['key'],
  role_members: ['role_id', 'user_id'],
  grants: ['grantee_id', 'grant_id'],
  tokens: ['token_id'],
  audit_events: ['server_id', 'sequence'],
  audit_chains: ['server_id'],
  secrets: ['name'],
  idempotency_keys: ['owner', 'key'],
  files: ['file_id'],
} as const satisfies { readonly [T in TableName]: readonly (keyof Schema[T])[] };

export const tableNames = Object.keys(keys) as TableName[];

/** Limits the memory and the number of values in one statement. */
const rowsPerPage = 200;

/** All rows of a table, in the order of its key. */
export async function* pagesOf(db: Db, table: TableName): AsyncGenerator<readonly Row[]> {
  const columns = sql.join((keys[table] as readonly string[]).map((column) => sql.ref(column)));
  let after: RawBuilder<unknown> = sql``;
  for (;;) {
    const { rows } = await sql<Row>`
      select * from ${sql.table(table)} ${after} order by ${columns} limit ${sql.lit(rowsPerPage)}`.execute(db);
    if (rows.length > 0) yield rows;
    if (rows.length < rowsPerPage) return;
    const last = rows.at(-1) as Row;
    after = sql`where (${columns}) > (${sql.join((keys[table] as readonly string[]).map((column) => last[column]))})`;
  }
}

/** `changes.position` is assigned by PostgreSQL unless the statement says otherwise. */
export async function insertRows(db: Db, table: TableName, rows: readonly Row[], isPostgresql: boolean): Promise<void> {
  const [first] = rows;
  if (!first) return;
  const columns = Object.keys(first);
  const values = sql.join(rows.map((row) => sql`(${sql.join(columns.map((column) => storable(table, column, row)))})`));
  const overriding = isPostgresql ? sql`overriding system value` : sql``;
  const names = sql.join(columns.map((column) => sql.ref(column)));
  await sql`insert into ${sql.table(table)} (${names}) ${overriding} values ${values}`.execute(db);
}

function storable(table: TableName, column: string, row: Row): unknown {
  const value = row[column];
  if (typeof value !== 'string' || !value.includes('\0')) return value;
  const key = (keys[table] as readonly string[]).map((name) => String(row[name])).join('/');
  throw new OperatorError(
    `the column ${column} of the row ${key} of the table ${table} contains a character U+0000, which PostgreSQL cannot store: delete what it describes, then repeat the command`,
  );
}

export interface TableSum {
  readonly table: TableName;
  readonly rows: number;
  /** The sum of the digests of all rows, in hexadecimal. */
  readonly checksum: string;
}

const digestBits = 128;

/** Adds rows in any order; the columns are taken in the order of their names, because databases have them in different orders. */
export class TableSummer {
  readonly #table: TableName;
  #rows = 0;
  #sum = 0n;

  constructor(table: TableName) {
    this.#table = table;
  }

  add(row: Row): void {
    const values = Object.keys(row)
      .sort()
      .map((column) => [column, row[column]]);
    const digest = createHash('sha256').update(JSON.stringify(values)).digest('hex');
    this.#sum = BigInt.asUintN(digestBits, this.#sum + BigInt(`0x${digest.slice(0, digestBits / 4)}`));
    this.#rows++;
  }

  sum(): TableSum {
    const checksum = this.#sum.toString(16).padStart(digestBits / 4, '0');
    return { table: this.#table, rows: this.#rows, checksum };
  }
}
