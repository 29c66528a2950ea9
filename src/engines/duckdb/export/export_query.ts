// The rows of a query written to files by the engine itself: COPY where it knows the format. JSON is written as it goes on the wire,
// which keeps every digit. Files get their names, digests and counts when they are whole.
import { createReadStream } from 'node:fs';
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import type { Digests } from '../../../files/digests.ts';
import type { StatementResult } from '../../engine.ts';
import { type ExportedFile, type ExportFormat, extensionOf, filesDirectory } from '../../export.ts';
import { inTransaction } from '../instance/applied_steps.ts';
import { preparedKey, type Session } from '../instance/connection_pool.ts';
import type { WireOptions, WireStatement } from '../process/protocol.ts';
import { type Described, describedBy, describedByRunning, preparedOnce, withPrepared } from '../query/results.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { withoutEnd } from '../sql/statement_checks.ts';
import { jsonExpression, resultTypeText } from '../types/type_mapping.ts';
import { parseEngineType } from '../types/type_parser.ts';
import { FileWatcher } from './file_watcher.ts';
import { isOrdered, orderedCopy } from './ordered_copy.ts';

const readBytes = 1024 * 1024;
const quote = 0x22;
const newline = 0x0a;

export interface ExportPlace {
  /** A directory that the engine may write to. */
  readonly own: string;
  readonly digests: Digests;
  /** Throws where the statement was cancelled, or might mean something else by now. */
  readonly current: () => void;
}

/** A file as it was written, before it has its name. `rows`: where the engine told. */
interface Written {
  readonly path: string;
  readonly rows: number | undefined;
}

/** All files or none. */
export async function exportQuery(
  session: Session,
  statement: WireStatement,
  options: WireOptions,
  place: ExportPlace,
): Promise<StatementResult> {
  const { into, resultPath, numbers } = options;
  if (!into) throw new Error('nothing says what the rows are to be written to');
  const final = filesDirectory(resultPath);
  const directory = join(place.own, basename(final));
  await mkdir(directory);
  const files = new FileWatcher(directory, place.digests, {
    bytesMax: into.bytesMax,
    stop: () => session.connection.interrupt(),
    current: place.current,
  });
  try {
    const columns = named(await describe(session, statement));
    const { format } = into;
    const write = () =>
      format.kind === 'arrow'
        ? arrow(session, statement, columns, directory, options, place)
        : copied(session, statement, copyOf(format, columns, numbers), directory, options);
    const { rowCount, written } = await files.during(write);
    const entries: ExportedFile[] = [];
    const extension = extensionOf(into.format);
    for (const [i, { path, rows }] of written.entries()) {
      const name = `part-${String(i).padStart(5, '0')}.${extension}`;
      await rename(path, join(directory, name));
      const known = rows ?? (written.length === 1 ? rowCount : undefined);
      const grown = await files.grown(join(directory, name));
      entries.push({ name, ...grown, rows: known ?? (await recordsOf(join(directory, name), into.format, place)) });
    }
    for (const left of await readdir(directory, { withFileTypes: true }))
      if (left.isDirectory()) await rmdir(join(directory, left.name));
    const counted = entries.reduce((sum, { rows }) => sum + rows, 0);
    if (counted !== rowCount) throw new Error(`${rowCount} rows were exported, and the files have ${counted}`);
    // A change that came in between may have given a name another meaning.
    place.current();
    await rename(directory, final);
    return {
      columns: columns.map(({ name, type }) => ({ name, type: resultTypeText(type) })),
      rowCount,
      rows: { kind: 'text', text: '' },
      truncated: false,
      files: { directory: final, entries },
    };
  } catch (error) {
    for (const path of [directory, final]) await rm(path, { recursive: true, force: true });
    throw error;
  } finally {
    files.close();
  }
}

async function describe(session: Session, statement: WireStatement): Promise<Described[]> {
  const prepared = await session.prepare(preparedKey(statement), statement.sql);
  return describedBy(prepared) ?? describedByRunning(session, statement);
}

/** Formats with names for columns want each once: `a`, `a_1`, as the engine itself calls them in a subquery. */
function named(columns: readonly Described[]): Described[] {
  const taken = new Set<string>();
  return columns.map(({ name, type }) => {
    let free = name;
    for (let i = 1; taken.has(free.toLowerCase()); i++) free = `${name}_${i}`;
    taken.add(free.toLowerCase());
    return { name: free, type };
  });
}

interface Copy {
  /** The columns are c0, c1 and so on. */
  readonly select: string;
  readonly options: readonly string[];
  /** Whether it tells the rows of each file. */
  readonly isCounted: boolean;
}

function copyOf(
  format: Exclude<ExportFormat, { kind: 'arrow' }>,
  columns: readonly Described[],
  numbers: WireOptions['numbers'],
): Copy {
  const packed = `COMPRESSION ${quoteLiteral(format.compression === 'none' ? 'uncompressed' : format.compression)}`;
  switch (format.kind) {
    case 'parquet':
      return {
        select: columns
          .map(({ name, type }, i) => `${cast(type, storable(type), `c${i}`)} AS ${quoteIdentifier(name)}`)
          .join(', '),
        options: ['FORMAT parquet', 'RETURN_STATS true', packed],
        isCounted: true,
      };
    case 'csv': {
      const { delimiter, header, nullText } = format;
      const said = [`DELIMITER ${quoteLiteral(delimiter)}`, `HEADER ${header}`, `NULLSTR ${quoteLiteral(nullText)}`];
      const values = columns.map(
        ({ name, type }, i) => `${csvValue(type, `c${i}`, numbers)} AS ${quoteIdentifier(name)}`,
      );
      return {
        select: values.join(', '),
        options: ['FORMAT csv', `QUOTE '"'`, `ESCAPE '"'`, ...said, packed],
        isCounted: false,
      };
    }
    case 'ndjson': {
      const parts = columns.map(({ name, type }, i) => {
        const key = `${i === 0 ? '' : ','}${JSON.stringify(name)}:`;
        return `${quoteLiteral(key)}, ${jsonExpression(type, `c${i}`, numbers)}`;
      });
      const raw = [`QUOTE ''`, `ESCAPE ''`, `DELIMITER e'\\x01'`, 'HEADER false'];
      return {
        select: `concat('{', ${parts.join(', ')}, '}')`,
        options: ['FORMAT csv', ...raw, packed],
        isCounted: false,
      };
    }
  }
}

/** As a load takes it: base64 for bytes, JSON for what is nested. */
function csvValue(type: string, column: string, numbers: WireOptions['numbers']): string {
  if (type === 'BLOB') return `to_base64(${column})`;
  if (!nested.has(parseEngineType(type).kind)) return column;
  return `CASE WHEN ${column} IS NULL THEN NULL ELSE CAST(${jsonExpression(type, column, numbers)} AS VARCHAR) END`;
}

const nested: ReadonlySet<string> = new Set(['list', 'map', 'struct', 'union']);

const wideInteger = /"(?:[^"]|"")*"|\bU?HUGEINT\b/g;

/** Parquet has no integer of 128 bits: the engine would make a double of it. Names of fields are left as they are. */
const storable = (type: string): string =>
  type.replace(wideInteger, (found) => (found.startsWith('"') ? found : 'DECIMAL(38,0)'));

const cast = (from: string, to: string, column: string): string => (to === from ? column : `${column}::${to}`);

/** The query, with its columns under names of ours; one line above the caller's text. */
function rowsOf(statement: WireStatement, select: string, columns: number): string {
  const names = Array.from({ length: columns }, (_, i) => `c${i}`).join(', ');
  return `SELECT ${select} FROM (\n${withoutEnd(statement.sql)}\n) AS q(${names})`;
}

async function copied(
  session: Session,
  statement: WireStatement,
  copy: Copy,
  directory: string,
  { into }: WireOptions,
): Promise<{ rowCount: number; written: Written[] }> {
  const split = into?.fileBytesMax;
  const path = join(directory, 'copy');
  const options = [...copy.options, ...(split === undefined ? [] : [`FILE_SIZE_BYTES ${split}`])];
  const columns = (await describe(session, statement)).length;
  const { connection } = session;
  if (split !== undefined && (await isOrdered(connection, statement.sql))) {
    const written = await orderedCopy(connection, path, split, {
      put: (table) => {
        const text = `CREATE TEMP TABLE ${table} AS ${rowsOf(statement, '*', columns)}`;
        return inTransaction(connection, () => withPrepared(connection, text, statement, (one) => one.run()));
      },
      copy: (rows, to) => `COPY (SELECT ${copy.select} FROM ${rows}) TO ${to} (${copy.options.join(', ')})`,
    });
    return { rowCount: written.reduce((sum, { rows }) => sum + rows, 0), written };
  }
  const text = `COPY (${rowsOf(statement, copy.select, columns)}) TO ${quoteLiteral(path)} (${options.join(', ')})`;
  const rows = await preparedOnce(session.connection, text, statement, async (prepared) =>
    (await prepared.runAndReadAll()).getRows(),
  );
  const told = new Map(copy.isCounted ? rows.map(([file, count]) => [basename(String(file)), Number(count)]) : []);
  const rowCount = copy.isCounted
    ? [...told.values()].reduce((sum, count) => sum + count, 0)
    : Number(rows[0]?.[0] ?? 0);
  if (split === undefined) return { rowCount, written: [{ path, rows: rowCount }] };
  const names = await readdir(path);
  const numberOf = (name: string) => Number(/\d+/.exec(name)?.[0] ?? 0);
  names.sort((a, b) => numberOf(a) - numberOf(b));
  return { rowCount, written: names.map((name) => ({ path: join(path, name), rows: told.get(name) })) };
}

async function arrow(
  session: Session,
  statement: WireStatement,
  columns: readonly Described[],
  directory: string,
  { into }: WireOptions,
  { current }: ExportPlace,
): Promise<{ rowCount: number; written: Written[] }> {
  if (into?.format.kind !== 'arrow') throw new Error('not a format of Arrow');
  // Arrow's library is for these exports alone.
  const [{ arrowable }, { writeArrow }] = await Promise.all([import('./arrow_types.ts'), import('./arrow_files.ts')]);
  const select = columns.map(({ type }, i) => cast(type, arrowable(type), `c${i}`)).join(', ');
  const rows = rowsOf(statement, select, columns.length);
  const { layout } = into.format;
  const target = { directory, layout, fileBytesMax: into.fileBytesMax, current };
  const names = columns.map(({ name }) => name);
  const { connection } = session;
  let isWhole = false;
  const written = await preparedOnce(connection, rows, statement, async (prepared) => {
    const files = await writeArrow(prepared, names, target);
    // An error ends a stream as its last row does, but also the transaction.
    isWhole = await connection.run('SELECT 1').then(
      () => true,
      () => false,
    );
    return files;
  });
  current();
  if (!isWhole) {
    // COPY tells what failed.
    const again = `COPY (${rows}) TO ${quoteLiteral(join(directory, 'again'))} (FORMAT parquet)`;
    await preparedOnce(connection, again, statement, (prepared) => prepared.run());
    throw new Error('the rows of a query ended early, and nothing tells why');
  }
  return { rowCount: written.reduce((sum, { rows }) => sum + rows, 0), written };
}

/** Nobody told them: records are counted as the file is read. */
async function recordsOf(path: string, format: ExportFormat, { current }: ExportPlace): Promise<number> {
  if (format.kind !== 'csv' && format.kind !== 'ndjson') throw new Error('the engine tells the rows of other formats');
  const raw = createReadStream(path, { highWaterMark: readBytes });
  const packed = { none: undefined, gzip: createGunzip, zstd: createZstdDecompress }[format.compression];
  const unpack = packed?.();
  if (unpack) raw.on('error', (error) => unpack.destroy(error));
  let records = format.kind === 'csv' && format.header ? -1 : 0;
  let isQuoted = false;
  for await (const chunk of unpack ? raw.pipe(unpack) : raw) {
    current();
    for (const byte of chunk as Buffer) {
      // A quote inside a quoted field is written twice: it opens the field again.
      if (byte === quote && format.kind === 'csv') isQuoted = !isQuoted;
      else if (byte === newline && !isQuoted) records++;
    }
  }
  return records;
}
