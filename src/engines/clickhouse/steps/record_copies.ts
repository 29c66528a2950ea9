// Copies of records from one server to another, which lacks them: it was away, disabled, or is new. Only what differs is read, by hashes.
import type { ClickHouseServer } from '../connection/server.ts';

/** A table of records. */
export interface RecordTable {
  /** Its quoted name. */
  readonly name: string;
  /** Those that make a record, besides `catalog` and `step`. */
  readonly columns: readonly string[];
  /** Those that are copied besides, by name; the text is an expression. */
  readonly content: Readonly<Record<string, string>>;
}

interface CopyOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Younger than after which the servers delete records, each by its own clock. */
const copiedDays = 29;
/** By which records are compared: few enough for one answer, and so many that those that are equal are not listed because of others. */
const bucketCount = 16_384;
const bucketsPerQuery = 500;
const recordsPerCopy = 500;
const bytesPerCopy = 16_000_000;

const isCopied = `at >= now('UTC') - INTERVAL ${copiedDays} DAY`;
const bucket = `cityHash64(catalog, step) % ${bucketCount}`;
const hashOf = ({ columns }: RecordTable): string => `cityHash64(${['catalog', 'step', ...columns].join(', ')})`;

/** @returns the number of records that `to` did not have. */
export async function copyRecords(
  from: ClickHouseServer,
  to: ClickHouseServer,
  table: RecordTable,
  options: CopyOptions,
): Promise<number> {
  const [theirs, own] = await Promise.all([from, to].map((server) => digests(server, table, options)));
  const differing = [...(theirs ?? [])].filter(([one, digest]) => own?.get(one) !== digest).map(([one]) => one);
  let copied = 0;
  for (let at = 0; at < differing.length; at += bucketsPerQuery) {
    const buckets = differing.slice(at, at + bucketsPerQuery);
    const [listed = [], present = []] = await Promise.all(
      [from, to].map((server) => recordsOf(server, table, buckets, options)),
    );
    const known = new Set(present.map(({ hash }) => hash));
    const missing = listed.filter(({ hash }) => !known.has(hash));
    for (const hashes of partsOf(missing)) await copy(from, to, table, { ...options, buckets, hashes });
    copied += missing.length;
  }
  return copied;
}

/** Of the records of each bucket, however often they were recorded. */
async function digests(
  server: ClickHouseServer,
  table: RecordTable,
  options: CopyOptions,
): Promise<ReadonlyMap<string, string>> {
  const records = `SELECT DISTINCT ${bucket} AS bucket, ${hashOf(table)} AS hash FROM ${table.name} WHERE ${isCopied}`;
  const sql = `SELECT toString(bucket) AS bucket, toString(groupBitXor(hash)) AS digest FROM (${records}) GROUP BY bucket`;
  const rows = await server.rows<{ bucket: string; digest: string }>({ ...options, sql });
  return new Map(rows.map((row) => [row.bucket, row.digest]));
}

interface ListedRecord {
  readonly hash: string;
  readonly bytes: string;
}

async function recordsOf(
  server: ClickHouseServer,
  table: RecordTable,
  buckets: readonly string[],
  options: CopyOptions,
): Promise<readonly ListedRecord[]> {
  const lengths = Object.values(table.content).map((content) => `length(toString(${content}))`);
  const sql =
    `SELECT toString(${hashOf(table)}) AS hash, toString(max(${lengths.join(' + ')})) AS bytes FROM ${table.name} AS records ` +
    `WHERE ${isCopied} AND ${bucket} IN (${buckets.join(', ')}) GROUP BY hash`;
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
  {
    buckets,
    hashes,
    ...options
  }: CopyOptions & { readonly buckets: readonly string[]; readonly hashes: readonly string[] },
): Promise<void> {
  const contents = Object.entries(table.content);
  const names = ['catalog', 'step', ...table.columns, ...contents.map(([name]) => name)].join(', ');
  const hash = hashOf(table);
  const values = ['catalog', 'step', ...table.columns, ...contents.map(([, content]) => content)].join(', ');
  const data = await from.text({
    ...options,
    sql:
      `SELECT ${values} FROM ${table.name} AS records WHERE ${isCopied} AND ${bucket} IN (${buckets.join(', ')}) ` +
      `AND ${hash} IN (${hashes.join(', ')}) ORDER BY at LIMIT 1 BY ${hash} FORMAT TabSeparated`,
  });
  await to.text({ ...options, sql: `INSERT INTO ${table.name} (${names}) FORMAT TabSeparated`, data, gzip: true });
}
