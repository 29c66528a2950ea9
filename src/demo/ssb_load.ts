// Loads the Star Schema Benchmark into a server through its REST API: the database, five tables, rows in batches. Reports progress as
// events, which demo.ts prints and benchmarks ignore. See ssb_data.ts for the rows.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type RestAnswer, type RestCall, RestFailure, type RestServer, sendRest } from '../client/rest_call.ts';
import { type SsbTable, ssbTables } from './ssb_data.ts';

/** Rows in one request: about 1 MB of JSON. */
const batchRowsDefault = 10_000;
const requestsInFlight = 4;
/** Beyond this total, bodies are not written to files, so that a large scale does not occupy the disk twice. */
const bodyFilesBytesMax = 256 * 1024 * 1024;

export const databasePath = '/api/v2/catalogs/default/databases/ssb';

export type LoadEvent =
  | { readonly kind: 'table'; readonly table: string; readonly rowsTotal: number }
  | { readonly kind: 'call'; readonly call: RestCall }
  | { readonly kind: 'answer'; readonly answer: RestAnswer }
  | { readonly kind: 'note'; readonly text: string }
  | { readonly kind: 'progress'; readonly table: string; readonly rows: number; readonly rowsTotal: number }
  | { readonly kind: 'loaded'; readonly table: string; readonly rows: number; readonly elapsedMs: number };

export interface LoadSsbOptions extends RestServer {
  readonly scale: number;
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
  readonly server: RestServer;
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

async function sendAndReport(loading: Loading, call: RestCall): Promise<RestAnswer> {
  loading.emit({ kind: 'call', call });
  const answer = await sendRest(loading.server, call);
  loading.emit({ kind: 'answer', answer });
  return answer;
}

/** @returns whether the table existed already. */
async function createTable(loading: Loading, table: SsbTable): Promise<boolean> {
  const bodyFile = ssbTableFile(table.name);
  const body = await readFile(bodyFile, 'utf8');
  const path = `${databasePath}/tables/create`;
  const call = { path, mediaType: 'application/sql', body, bodyFile } as const;
  try {
    await sendAndReport(loading, { method: 'POST', ...call });
    return false;
  } catch (error) {
    if (!(error instanceof RestFailure && error.code === 'OBJECT_ALREADY_EXISTS')) throw error;
    loading.emit({
      kind: 'note',
      text: `${error.status} ${error.code}: POST fails for an existing object, PUT does not`,
    });
    await sendAndReport(loading, { method: 'PUT', ...call });
    return true;
  }
}

async function countRows(loading: Loading, table: SsbTable): Promise<number> {
  const body = JSON.stringify({ sql: `SELECT count(*) AS row_count FROM ${table.name}` });
  const call: RestCall = { method: 'POST', path: `${databasePath}/query`, mediaType: 'application/json', body };
  const { result } = await sendAndReport(loading, call);
  const rows = result.rows as unknown[][] | undefined;
  return Number(rows?.[0]?.[0] ?? Number.NaN);
}

/** @returns whether the table has all its rows. A table with another number of rows is truncated. */
async function hasAllRows(loading: Loading, table: SsbTable, rowsTotal: number): Promise<boolean> {
  const rows = await countRows(loading, table);
  if (rows === rowsTotal) return true;
  if (rows !== 0) {
    loading.emit({ kind: 'note', text: `${rows} rows, not ${rowsTotal}: from another scale or an interrupted load` });
    const path = `${databasePath}/tables/${table.name}/truncate`;
    await sendAndReport(loading, { method: 'POST', path, mediaType: 'application/json', body: '{}' });
  }
  return false;
}

const bodyFileName = (table: SsbTable, batch: number): string =>
  `${table.name}-${String(batch + 1).padStart(5, '0')}.json`;

/** A run at a larger scale leaves more files than this one overwrites. */
async function removeBodyFiles(dir: string, table: SsbTable): Promise<void> {
  const files = (await readdir(dir)).filter((file) => /^(.*)-\d+\.json$/.exec(file)?.[1] === table.name);
  await Promise.all(files.map((file) => rm(join(dir, file), { force: true })));
}

/** Sends all rows of one table: the first batch alone and reported, the others concurrently. */
async function loadRows(loading: Loading, table: SsbTable, rowsTotal: number): Promise<void> {
  const { scale, batchRows, filesDir, emit } = loading;
  const batches = Math.ceil(rowsTotal / batchRows);
  let fileBytes = 0;
  let rowsDone = 0;
  if (filesDir !== undefined) await removeBodyFiles(filesDir, table);

  const request = async (batch: number): Promise<RestCall> => {
    const body = JSON.stringify({ rows: table.batch(scale, batch * batchRows, batchRows) });
    let bodyFile: string | undefined;
    if (filesDir !== undefined && fileBytes + body.length <= bodyFilesBytesMax) {
      fileBytes += body.length;
      bodyFile = join(filesDir, bodyFileName(table, batch));
      await writeFile(bodyFile, body);
    }
    const idempotencyKey = `ssb-${loading.loadId}-${table.name}-${batch + 1}`;
    const path = `${databasePath}/tables/${table.name}/rows`;
    return { method: 'POST', path, mediaType: 'application/json', body, bodyFile, idempotencyKey };
  };
  const settle = (call: RestCall, batch: number, { result }: RestAnswer): void => {
    const expected = Math.min(batchRows, rowsTotal - batch * batchRows);
    if (result.rowCount !== expected) {
      const message = `${expected} rows sent, ${String(result.rowCount)} acknowledged`;
      throw new RestFailure(call, 201, 'ROWS_MISSING', message, result, 'check the log of the server');
    }
    rowsDone += expected;
    emit({ kind: 'progress', table: table.name, rows: rowsDone, rowsTotal });
  };

  const first = await request(0);
  settle(first, 0, await sendAndReport(loading, first));
  if (batches === 1) return;
  const last = batches - 1;
  const requests = last === 1 ? '1 more request' : `${last} more requests`;
  const files = filesDir === undefined ? '' : `, up to body ${bodyFileName(table, last)}`;
  emit({ kind: 'note', text: `${requests} of the same form, ${requestsInFlight} at a time${files}` });

  const failed = new AbortController();
  const signals = loading.server.signal === undefined ? [failed.signal] : [loading.server.signal, failed.signal];
  const server = { ...loading.server, signal: AbortSignal.any(signals) };
  let next = 1;
  const worker = async (): Promise<void> => {
    while (next < batches && !server.signal.aborted) {
      const batch = next++;
      const call = await request(batch);
      settle(call, batch, await sendRest(server, call));
    }
  };
  // The first failure aborts the others and is the reason of the signal, so that all reject with the same error.
  const guarded = (): Promise<void> =>
    worker().catch((error: unknown) => {
      failed.abort(error);
      throw error;
    });
  await Promise.all(Array.from({ length: requestsInFlight }, guarded));
  server.signal.throwIfAborted();
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
 * @throws RestFailure if the server refuses a request; the reason of the signal when it is aborted.
 */
export async function loadSsb(options: LoadSsbOptions): Promise<LoadedTable[]> {
  const { url, token, signal, scale, batchRows = batchRowsDefault, filesDir, onEvent = () => {} } = options;
  if (!(Number.isFinite(scale) && scale > 0)) throw new RangeError(`scale must be a number above 0, not ${scale}`);
  if (!(Number.isInteger(batchRows) && batchRows > 0))
    throw new RangeError(`batchRows must be above 0, not ${batchRows}`);
  const loading: Loading = {
    server: { url, token, signal },
    scale,
    batchRows,
    filesDir: filesDir === undefined ? undefined : resolve(filesDir),
    emit: onEvent,
    loadId: randomUUID().slice(0, 8),
  };
  if (loading.filesDir !== undefined) await mkdir(loading.filesDir, { recursive: true });
  await sendAndReport(loading, { method: 'PUT', path: databasePath, mediaType: 'application/json', body: '{}' });
  const loaded: LoadedTable[] = [];
  for (const table of ssbTables) loaded.push(await loadTable(loading, table));
  return loaded;
}
