// Copies of records between servers, one of which lacks them: it was away, disabled, or is new. What both have is found by digests, day by day,
// and not read again.
import type { ClickHouseServer } from '../connection/server.ts';
import { internalDatabase } from '../names.ts';
import { qualifiedName } from '../sql/identifiers.ts';

/** The quoted name of the table with the records of steps. */
export const stepsTable = qualifiedName({ database: internalDatabase, table: 'steps' });

/** A table of records. */
export interface RecordTable {
  /** Its quoted name. */
  readonly name: string;
  /** Those that make a record, besides `catalog` and `step`. */
  readonly columns: readonly string[];
  /** Those that are copied besides, and `at`. */
  readonly content: readonly string[];
}

interface CopyOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Younger than after which the servers delete records, each by its own clock. */
const copiedDays = 29;
/** In which the records of a day are compared. */
const bucketCount = 1024;
const bucketsPerQuery = 64;
const recordsPerCopy = 10_000;
const bytesPerCopy = 16_000_000;
/** Servers record a record at different times. */
const clockHours = 1;

const bucket = `cityHash64(catalog, step) % ${bucketCount}`;
const hashOf = ({ columns }: RecordTable): string => `cityHash64(${['catalog', 'step', ...columns].join(', ')})`;
const isOfDay = (day: string, hours = 0): string =>
  `at >= toDateTime('${day} 00:00:00', 'UTC') - INTERVAL ${hours} HOUR AND at < toDateTime('${day} 00:00:00', 'UTC') + INTERVAL ${24 + hours} HOUR`;

/** The days of which the records may differ. Where one server has recorded a record twice, or about midnight, they need not. */
export async function differingDays(
  one: ClickHouseServer,
  two: ClickHouseServer,
  table: RecordTable,
  options: CopyOptions,
): Promise<readonly string[]> {
  const sql =
    `SELECT toString(toDate(at)) AS key, concat(toString(count()), ' ', toString(sum(${hashOf(table)}))) AS digest FROM ${table.name} ` +
    `WHERE at >= now('UTC') - INTERVAL ${copiedDays} DAY GROUP BY key`;
  const [ofOne, ofTwo] = await Promise.all([one, two].map((server) => digests(server, sql, options)));
  return differing(ofOne, ofTwo);
}

type Digests = ReadonlyMap<string, string>;

async function digests(server: ClickHouseServer, sql: string, options: CopyOptions): Promise<Digests> {
  const rows = await server.rows<{ key: string; digest: string }>({ ...options, sql });
  return new Map(rows.map(({ key, digest }) => [key, digest]));
}

const differing = (one: Digests = new Map(), two: Digests = new Map()): readonly string[] =>
  [...new Set([...one.keys(), ...two.keys()])].filter((key) => one.get(key) !== two.get(key));

/** Copies the records of a day that `to` lacks. */
export async function copyDay(
  from: ClickHouseServer,
  to: ClickHouseServer,
  table: RecordTable,
  { day, ...options }: CopyOptions & { readonly day: string },
): Promise<void> {
  const records = `SELECT DISTINCT ${bucket} AS bucket, ${hashOf(table)} AS hash FROM ${table.name} WHERE ${isOfDay(day)}`;
  const sql = `SELECT toString(bucket) AS key, toString(groupBitXor(hash)) AS digest FROM (${records}) GROUP BY bucket`;
  const [ofFrom, ofTo] = await Promise.all([from, to].map((server) => digests(server, sql, options)));
  const buckets = differing(ofFrom, ofTo);
  for (let at = 0; at < buckets.length; at += bucketsPerQuery) {
    const inBuckets = `${bucket} IN (${buckets.slice(at, at + bucketsPerQuery).join(', ')})`;
    const known = await recordsOf(to, table, `${isOfDay(day, clockHours)} AND ${inBuckets}`, options);
    const hashes = new Set(known.map(({ hash }) => hash));
    const listed = await recordsOf(from, table, `${isOfDay(day)} AND ${inBuckets}`, options);
    const missing = listed.filter(({ hash }) => !hashes.has(hash));
    for (const part of partsOf(missing)) await copy(from, to, table, { ...options, day, hashes: part });
  }
}

interface ListedRecord {
  readonly hash: string;
  readonly bytes: string;
}

async function recordsOf(
  server: ClickHouseServer,
  table: RecordTable,
  where: string,
  options: CopyOptions,
): Promise<readonly ListedRecord[]> {
  const lengths = ['0', ...table.content.map((column) => `max(length(${column}))`)].join(' + ');
  const sql = `SELECT toString(${hashOf(table)}) AS hash, toString(${lengths}) AS bytes FROM ${table.name} WHERE ${where} GROUP BY hash`;
  return server.rows<ListedRecord>({ ...options, sql });
}

/** Each as large as a body may be, or one record that is larger. */
function partsOf(records: readonly ListedRecord[]): readonly (readonly string[])[] {
  const parts: string[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const record of records) {
    bytes += Number(record.bytes);
    if (bytes > bytesPerCopy || parts.at(-1)?.length === recordsPerCopy) {
      parts.push([]);
      bytes = Number(record.bytes);
    }
    parts.at(-1)?.push(record.hash);
  }
  return parts;
}

async function copy(
  from: ClickHouseServer,
  to: ClickHouseServer,
  table: RecordTable,
  { day, hashes, ...options }: CopyOptions & { readonly day: string; readonly hashes: readonly string[] },
): Promise<void> {
  const columns = ['catalog', 'step', ...table.columns, ...table.content].join(', ');
  const hash = hashOf(table);
  const data = await from.text({
    ...options,
    sql:
      `SELECT ${columns}, toUnixTimestamp(at) FROM ${table.name} WHERE ${isOfDay(day)} AND ${hash} IN (${hashes.join(', ')}) ` +
      `ORDER BY at LIMIT 1 BY ${hash} FORMAT TabSeparated`,
  });
  await to.text({
    ...options,
    sql: `INSERT INTO ${table.name} (${columns}, at) FORMAT TabSeparated`,
    data,
    gzip: true,
  });
}
