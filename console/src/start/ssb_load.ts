// Loads the Star Schema Benchmark through the REST API, from the page. The rows follow from their numbers and are sent in order, so that a
// load that ended early continues after the last row that the server has; nothing that exists is changed or deleted.
import { ssbTables } from '../../../src/demo/ssb_data.ts';
import { client } from '../app/session.ts';
import { findDatabase } from './find_database.ts';

export const database = 'ssb';
/** 60,000 order lines: some seconds, and the least for which every query of the benchmark finds rows. */
const scale = 0.01;
/** A request of about half a megabyte, which is made without the page noticing. */
const batchRows = 5000;
/** The property of a database that was made here; without it, it is somebody else's, such as that of `--demo`. */
const stateProperty = 'ssbLoad';

type Texts = Readonly<Record<string, string>>;
const textsIn = (modules: Texts): Texts =>
  Object.fromEntries(Object.entries(modules).map(([path, text]) => [path.replace(/^.*\/|\.sql$/g, ''), text]));

const tableTexts = textsIn(
  import.meta.glob<string>('../../../demo/ssb/tables/*.sql', { query: '?raw', import: 'default', eager: true }),
);
const queryTexts = textsIn(
  import.meta.glob<string>('../../../demo/ssb/queries/*.sql', { query: '?raw', import: 'default', eager: true }),
);

/** In the order of the benchmark. */
export const ssbQueries: readonly { readonly name: string; readonly sql: string }[] = Object.entries(queryTexts)
  .map(([name, sql]) => ({ name: name.toUpperCase(), sql: sql.trim() }))
  .sort((a, b) => (a.name < b.name ? -1 : 1));

const tables = ssbTables.map((table) => ({ table, rowCount: table.rowCount(scale) }));
export const rowsTotal = tables.reduce((sum, { rowCount }) => sum + rowCount, 0);
export const lineCount = tables.find(({ table }) => table.name === 'lineorder')?.rowCount ?? 0;

/** `other`: the database has the name, but not the tables. */
export type SsbState = 'missing' | 'incomplete' | 'complete' | 'other';

export async function ssbState(signal: AbortSignal): Promise<SsbState> {
  const ssb = await findDatabase(database, signal);
  if (!ssb) return 'missing';
  const state = ssb.properties[stateProperty];
  if (state === undefined) return ssb.tableCount >= tables.length ? 'complete' : 'other';
  return state === 'complete' ? 'complete' : 'incomplete';
}

export interface SsbProgress {
  readonly table: string;
  /** Of all tables. */
  readonly rows: number;
}

/** Ends between two batches when the signal is aborted, with its reason. */
export async function loadSsb(onProgress: (progress: SsbProgress) => void, signal: AbortSignal): Promise<void> {
  const ssb = client.databases(database);
  const comment = `Star Schema Benchmark, scale ${scale}`;
  await client.databases.create(
    { name: database, comment, properties: { [stateProperty]: 'running' } },
    { ifExists: 'return' },
  );
  const created = new Map<string, string>();
  for (const { table } of tables) {
    signal.throwIfAborted();
    const made = await ssb.tables.create({ sql: tableTexts[table.name] ?? '' }, { ifExists: 'return' });
    if (!('createdAt' in made)) throw new Error(`the server did not create the table ${table.name}`);
    created.set(table.name, made.createdAt);
  }
  const counts = await countRows();
  let rows = counts.reduce((sum, count) => sum + count, 0);
  for (const [i, { table, rowCount }] of tables.entries()) {
    for (let from = counts[i] ?? 0; from < rowCount; from += batchRows) {
      signal.throwIfAborted();
      onProgress({ table: table.name, rows });
      const batch = table.batch(scale, from, batchRows);
      // The same rows have the same key: those of a page that was closed, or of another page, are not inserted twice.
      const idempotencyKey = `ssb-${created.get(table.name)}-${table.name}-${from}`;
      await ssb.tables(table.name).rows.create({ rows: batch }, { idempotencyKey });
      rows += batch.length;
    }
  }
  const loaded = await countRows();
  const wrong = tables.find(({ rowCount }, i) => loaded[i] !== rowCount);
  if (wrong)
    throw new Error(
      `The table ${database}.${wrong.table.name} has not the ${wrong.rowCount} rows of the benchmark. Drop the database to load it again.`,
    );
  await ssb.update({ properties: { [stateProperty]: 'complete' } });
}

/** Of the tables, in their order. */
async function countRows(): Promise<readonly number[]> {
  const counts = tables.map(({ table: { name } }) => `(SELECT count(*) FROM ${name}) AS ${name}`).join(', ');
  const [row = {}] = await client.query(`SELECT ${counts}`, { database }).all();
  return tables.map(({ table: { name } }) => Number(row[name]));
}
