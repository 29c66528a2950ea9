// Loads the Star Schema Benchmark into a server through its REST API: the database, five tables, rows in batches. Reports progress as
// events, which demo.ts prints and benchmarks ignore. See ssb_data.ts for the rows.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type Client, errors } from '../client/index.ts';
import { type SsbTable, ssbTables } from './ssb_data.ts';
import { clientOf, type DemoServer, type ReceivedAnswer, type SentRequest, tracedClient } from './traced_client.ts';

/** Rows in one request: about 1 MB of JSON. */
const batchRowsDefault = 10_000;
const requestsInFlight = 4;

export const database = 'ssb';

export type LoadEvent =
  | { readonly kind: 'table'; readonly table: string; readonly rowsTotal: number }
  | { readonly kind: 'request'; readonly request: SentRequest }
  | { readonly kind: 'answer'; readonly answer: ReceivedAnswer }
  | { readonly kind: 'note'; readonly text: string }
  | { readonly kind: 'progress'; readonly table: string; readonly rows: number; readonly rowsTotal: number }
  | { readonly kind: 'loaded'; readonly table: string; readonly rows: number; readonly elapsedMs: number };

export interface LoadSsbOptions extends DemoServer {
  readonly scale: number;
  /** In which the database is created; the default is `default`. */
  readonly catalog?: string | undefined;
  readonly batchRows?: number;
  /** A directory for request bodies that `curl` lines can send; without it no files are written. */
  readonly filesDir?: string;
  readonly onEvent?: (event: LoadEvent) => void;
}

export interface LoadedTable {
  readonly table: string;
  readonly rows: number;
  /** False if the rows already existed. */
  readonly loaded: boolean;
  readonly elapsedMs: number;
}

interface Loading {
  readonly server: DemoServer;
  readonly catalog: string;
  readonly scale: number;
  readonly batchRows: number;
  readonly filesDir: string | undefined;
  readonly emit: (event: LoadEvent) => void;
  /** Part of the idempotency keys, so that responses of an earlier load are not replayed. */
  readonly loadId: string;
}

/** The directory of the `.sql` files, in a checkout and in the installed package. */
function ssbDirectory(): string {
  for (let dir = import.meta.dirname; dirname(dir) !== dir; dir = dirname(dir)) {
    const candidate = join(dir, 'demo', 'ssb');
    if (existsSync(join(candidate, 'tables'))) return candidate;
  }
  throw new Error(
    `demo/ssb does not exist in any parent directory of ${import.meta.dirname}: the installation is incomplete`,
  );
}

export const ssbTableFile = (table: string): string => join(ssbDirectory(), 'tables', `${table}.sql`);

export interface SsbQuery {
  /** `q1.1` to `q4.3`. */
  readonly name: string;
  readonly sql: string;
}

/** The 13 queries, in the order of the benchmark. */
export async function ssbQueries(): Promise<SsbQuery[]> {
  const dir = join(ssbDirectory(), 'queries');
  const files = (await readdir(dir)).filter((file) => file.endsWith('.sql')).sort();
  return Promise.all(
    files.map(async (file) => ({ name: file.slice(0, -'.sql'.length), sql: await readFile(join(dir, file), 'utf8') })),
  );
}

/** A client whose requests are reported. `file`: the name of a file for the body of a request. */
function reportedClient({ server, filesDir, emit }: Loading, file?: string): Client {
  return tracedClient(server, {
    sent: (request) => emit({ kind: 'request', request }),
    received: (answer) => emit({ kind: 'answer', answer }),
    bodyFile: filesDir === undefined || file === undefined ? undefined : join(filesDir, file),
  });
}

const ssbOf = (client: Client, catalog: string) => client.catalogs(catalog).databases(database);
type SsbDatabase = ReturnType<typeof ssbOf>;

const reportedDatabase = (loading: Loading, file?: string): SsbDatabase =>
  ssbOf(reportedClient(loading, file), loading.catalog);

/** The queries need no key: where the engine enforces none, the tables are created without. */
async function createTable(loading: Loading, table: SsbTable): Promise<boolean> {
  const sql = await readFile(ssbTableFile(table.name), 'utf8');
  try {
    return await createTableOf(loading, table, sql);
  } catch (error) {
    if (!(error instanceof errors.NOT_SUPPORTED_BY_ENGINE) || error.result.capability !== 'enforcedKeys') throw error;
    loading.emit({ kind: 'note', text: 'this engine enforces no keys: the table is created without' });
    return createTableOf(loading, table, sql.replaceAll(' PRIMARY KEY', ''));
  }
}

/** @returns whether the table existed already. */
async function createTableOf(loading: Loading, table: SsbTable, sql: string): Promise<boolean> {
  const { signal } = loading.server;
  const { tables } = reportedDatabase(loading, `${table.name}.json`);
  try {
    await tables.create({ sql }, { signal });
    return false;
  } catch (error) {
    if (!(error instanceof errors.OBJECT_ALREADY_EXISTS)) throw error;
    loading.emit({ kind: 'note', text: 'POST fails for an existing object, PUT does not' });
    await tables.create({ sql }, { ifExists: 'return', signal });
    return true;
  }
}

async function countRows(loading: Loading, table: SsbTable): Promise<number> {
  const sql = `SELECT count(*) AS row_count FROM ${table.name}`;
  const { catalog, server } = loading;
  const [row] = await reportedClient(loading).query(sql, { catalog, database, signal: server.signal }).all();
  return Number(row?.row_count);
}

/** @returns whether the table has all its rows. A table with another number of rows is truncated. */
async function hasAllRows(loading: Loading, table: SsbTable, rowsTotal: number): Promise<boolean> {
  const rows = await countRows(loading, table);
  if (rows === rowsTotal) return true;
  if (rows !== 0) {
    loading.emit({ kind: 'note', text: `${rows} rows, not ${rowsTotal}: from another scale or an interrupted load` });
    await reportedDatabase(loading).tables(table.name).truncate({}, { signal: loading.server.signal });
  }
  return false;
}

/** Sends all rows of one table: the first batch alone and reported, the others concurrently. */
async function loadRows(loading: Loading, table: SsbTable, rowsTotal: number): Promise<void> {
  const { scale, batchRows, emit, server } = loading;
  const batches = Math.ceil(rowsTotal / batchRows);
  let rowsDone = 0;
  const insert = async ({ tables }: SsbDatabase, batch: number, signal: AbortSignal | undefined): Promise<void> => {
    const rows = table.batch(scale, batch * batchRows, batchRows);
    const idempotencyKey = `ssb-${loading.loadId}-${table.name}-${batch + 1}`;
    const { rowCount } = await tables(table.name).rows.create({ rows }, { idempotencyKey, signal });
    if (rowCount !== rows.length) throw new Error(`${rows.length} rows sent, ${rowCount} acknowledged`);
    rowsDone += rows.length;
    emit({ kind: 'progress', table: table.name, rows: rowsDone, rowsTotal });
  };

  await insert(reportedDatabase(loading, `${table.name}-rows.json`), 0, server.signal);
  if (batches === 1) return;
  const requests = batches === 2 ? '1 more request' : `${batches - 1} more requests`;
  emit({ kind: 'note', text: `${requests} of the same form, ${requestsInFlight} at a time` });

  const failed = new AbortController();
  const signal = server.signal === undefined ? failed.signal : AbortSignal.any([failed.signal, server.signal]);
  const ssb = ssbOf(clientOf(server), loading.catalog);
  let next = 1;
  const worker = async (): Promise<void> => {
    while (next < batches && !signal.aborted) await insert(ssb, next++, signal);
  };
  // The first failure aborts the others and is the reason of the signal, so that all reject with the same error.
  const guarded = (): Promise<void> =>
    worker().catch((error: unknown) => {
      failed.abort(error);
      throw error;
    });
  await Promise.all(Array.from({ length: requestsInFlight }, guarded));
  signal.throwIfAborted();
}

async function loadTable(loading: Loading, table: SsbTable): Promise<LoadedTable> {
  const rowsTotal = table.rowCount(loading.scale);
  loading.emit({ kind: 'table', table: table.name, rowsTotal });
  const existed = await createTable(loading, table);
  if (existed && (await hasAllRows(loading, table, rowsTotal))) {
    loading.emit({ kind: 'note', text: `all ${rowsTotal} rows exist already, nothing to load` });
    return { table: table.name, rows: rowsTotal, loaded: false, elapsedMs: 0 };
  }
  const startedAt = performance.now();
  await loadRows(loading, table, rowsTotal);
  const elapsedMs = performance.now() - startedAt;
  loading.emit({ kind: 'loaded', table: table.name, rows: rowsTotal, elapsedMs });
  return { table: table.name, rows: rowsTotal, loaded: true, elapsedMs };
}

/**
 * Creates the database `ssb` with its five tables and loads them. Can be repeated: a table with the right number of rows is kept, one with
 * another number is truncated and loaded again.
 * @throws TabulariumError if the server refuses a request; the reason of the signal when it is aborted.
 */
export async function loadSsb(options: LoadSsbOptions): Promise<LoadedTable[]> {
  const { url, token, signal, scale, catalog = 'default', batchRows = batchRowsDefault, filesDir } = options;
  const { onEvent = () => {} } = options;
  if (!(Number.isFinite(scale) && scale > 0)) throw new RangeError(`scale must be a number above 0, not ${scale}`);
  if (!(Number.isInteger(batchRows) && batchRows > 0))
    throw new RangeError(`batchRows must be above 0, not ${batchRows}`);
  const loading: Loading = {
    server: { url, token, signal },
    catalog,
    scale,
    batchRows,
    filesDir: filesDir === undefined ? undefined : resolve(filesDir),
    emit: onEvent,
    loadId: randomUUID().slice(0, 8),
  };
  if (loading.filesDir !== undefined) await mkdir(loading.filesDir, { recursive: true });
  await reportedClient(loading).catalogs(catalog).databases.create({ name: database }, { ifExists: 'return', signal });
  const loaded: LoadedTable[] = [];
  for (const table of ssbTables) loaded.push(await loadTable(loading, table));
  return loaded;
}
