// Exports the rows of a query to files: by COPY for the formats that the engine supports. JSON has the form that the API returns, which
// preserves every digit. Files get their names, digests and row counts when they are complete.
import { createReadStream } from 'node:fs';
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import type { Digests } from '../../../files/digests.ts';
import { type ExportedFile, type ExportFormat, extensionOf, filesDirectory } from '../../port/export.ts';
import type { StatementResult } from '../../port/statements.ts';
import { inTransaction } from '../instance/applied_steps.ts';
import { preparedKey, type Session } from '../instance/connection_pool.ts';
import type { WireOptions, WireStatement } from '../process/protocol.ts';
import { preparedOnce, withPrepared } from '../query/prepared_once.ts';
import { type Described, describedBy, describedByRunning } from '../query/results.ts';
import { parallelBufferBytes, readStream } from '../query/streamed_rows.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { withoutSemicolon } from '../sql/statement_checks.ts';
import { jsonExpression, resultTypeText } from '../types/type_mapping.ts';
import { parseEngineType } from '../types/type_parser.ts';
import { FileWatcher } from './file_watcher.ts';
import { isOrdered, orderedCopy } from './ordered_copy.ts';

const readBytes = 1024 * 1024;
const quote = 0x22;
const newline = 0x0a;

export interface ExportContext {
  /** A directory that the engine may write to. */
  readonly workDirectory: string;
  readonly digests: Digests;
  /** Throws if the statement was cancelled, or if a definition that it uses changed. */
  readonly requireCurrent: () => void;
}

/** A file before it gets its final name. `rows`: undefined if the engine does not report the number. */
interface WrittenFile {
  readonly path: string;
  readonly rows: number | undefined;
}

/** Atomic: writes all files or none. */
export async function exportQuery(
  session: Session,
  statement: WireStatement,
  options: WireOptions,
  context: ExportContext,
): Promise<StatementResult> {
  const { into, resultPath, numbers } = options;
  if (!into) throw new Error('the export has no target');
  const final = filesDirectory(resultPath);
  const directory = join(context.workDirectory, basename(final));
  await mkdir(directory);
  const files = new FileWatcher(directory, context.digests, {
    bytesMax: into.bytesMax,
    flushes: into.isDurable ?? false,
    stop: () => session.connection.interrupt(),
    requireCurrent: context.requireCurrent,
  });
  try {
    const columns = uniquelyNamed(await describe(session, statement));
    const { format } = into;
    const write = () =>
      format.kind === 'arrow'
        ? exportArrow(session, statement, columns, directory, options, context)
        : exportByCopy(session, statement, copyOf(format, columns, numbers), directory, options);
    const { rowCount, written } = await files.during(write);
    const entries: ExportedFile[] = [];
    const extension = extensionOf(into.format);
    for (const [i, { path, rows }] of written.entries()) {
      const name = `part-${String(i).padStart(5, '0')}.${extension}`;
      await rename(path, join(directory, name));
      const reported = rows ?? (written.length === 1 ? rowCount : undefined);
      const digest = await files.digestOf(join(directory, name));
      const counted = reported ?? (await countRecords(join(directory, name), into.format, context));
      entries.push({ name, ...digest, rows: counted });
    }
    for (const entry of await readdir(directory, { withFileTypes: true }))
      if (entry.isDirectory()) await rmdir(join(directory, entry.name));
    const total = entries.reduce((sum, { rows }) => sum + rows, 0);
    if (total !== rowCount) throw new Error(`${rowCount} rows were exported, but the files have ${total}`);
    // A definition may have changed since the statement was bound.
    context.requireCurrent();
    await rename(directory, final);
    return {
      columns: columns.map(({ name, type }) => ({ name, type: resultTypeText(type) })),
      rowCount,
      rows: { kind: 'text', text: '' },
      truncated: await isTruncated(session, statement, rowCount, options),
      files: { format: format.kind, directory: final, entries },
    };
  } catch (error) {
    for (const path of [directory, final]) await rm(path, { recursive: true, force: true });
    throw error;
  } finally {
    files.close();
  }
}

/** Whether the statement has more rows than `rowsMax`: it is run again, without its columns, if it has that many. */
async function isTruncated(
  session: Session,
  statement: WireStatement,
  rowCount: number,
  { rowsMax }: WireOptions,
): Promise<boolean> {
  if (rowsMax === undefined || rowCount < rowsMax) return false;
  const text = `SELECT count(*) FROM (SELECT 1 FROM (\n${withoutSemicolon(statement.sql)}\n) AS q LIMIT ${rowsMax + 1})`;
  return preparedOnce(session.connection, text, statement, async (prepared) => {
    const [row] = (await prepared.runAndReadAll()).getRows();
    return Number(row?.[0]) > rowsMax;
  });
}

async function describe(session: Session, statement: WireStatement): Promise<Described[]> {
  const prepared = await session.prepare(preparedKey(statement), statement.sql);
  return describedBy(prepared) ?? describedByRunning(session, statement);
}

/** File formats require unique column names: `a`, `a_1`, as the engine names them in a subquery. */
function uniquelyNamed(columns: readonly Described[]): Described[] {
  const used = new Set<string>();
  return columns.map(({ name, type }) => {
    let unique = name;
    for (let i = 1; used.has(unique.toLowerCase()); i++) unique = `${name}_${i}`;
    used.add(unique.toLowerCase());
    return { name: unique, type };
  });
}

interface CopyStatement {
  /** The SELECT list, over columns named c0, c1, and so on. */
  readonly select: string;
  readonly options: readonly string[];
  /** Whether COPY reports the number of rows of each file. */
  readonly reportsRows: boolean;
}

function copyOf(
  format: Exclude<ExportFormat, { kind: 'arrow' }>,
  columns: readonly Described[],
  numbers: WireOptions['numbers'],
): CopyStatement {
  const compression = `COMPRESSION ${quoteLiteral(format.compression === 'none' ? 'uncompressed' : format.compression)}`;
  switch (format.kind) {
    case 'parquet':
      return {
        select: columns
          .map(({ name, type }, i) => `${cast(type, storable(type), `c${i}`)} AS ${quoteIdentifier(name)}`)
          .join(', '),
        options: ['FORMAT parquet', 'RETURN_STATS true', compression],
        reportsRows: true,
      };
    case 'csv': {
      const { delimiter, header, nullText } = format;
      const dialect = [`DELIMITER ${quoteLiteral(delimiter)}`, `HEADER ${header}`, `NULLSTR ${quoteLiteral(nullText)}`];
      const values = columns.map(
        ({ name, type }, i) => `${csvValue(type, `c${i}`, numbers)} AS ${quoteIdentifier(name)}`,
      );
      return {
        select: values.join(', '),
        options: ['FORMAT csv', `QUOTE '"'`, `ESCAPE '"'`, ...dialect, compression],
        reportsRows: false,
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
        options: ['FORMAT csv', ...raw, compression],
        reportsRows: false,
      };
    }
  }
}

/** In the form that a load accepts: base64 for bytes, JSON for nested values. */
function csvValue(type: string, column: string, numbers: WireOptions['numbers']): string {
  if (type === 'BLOB') return `to_base64(${column})`;
  if (!nested.has(parseEngineType(type).kind)) return column;
  return `CASE WHEN ${column} IS NULL THEN NULL ELSE CAST(${jsonExpression(type, column, numbers)} AS VARCHAR) END`;
}

const nested: ReadonlySet<string> = new Set(['list', 'map', 'struct', 'union']);

const wideInteger = /"(?:[^"]|"")*"|\bU?HUGEINT\b/g;

/** Parquet has no 128-bit integer type: the engine would write a double. Quoted field names are not changed. */
const storable = (type: string): string =>
  type.replace(wideInteger, (match) => (match.startsWith('"') ? match : 'DECIMAL(38,0)'));

const cast = (from: string, to: string, column: string): string => (to === from ? column : `${column}::${to}`);

/** Selects from the query, with its columns renamed to c0, c1, and so on. Adds one line above the caller's text. */
function selectFromQuery(
  statement: WireStatement,
  select: string,
  columns: number,
  rowsMax: number | undefined,
): string {
  const names = Array.from({ length: columns }, (_, i) => `c${i}`).join(', ');
  return `SELECT ${select} FROM (\n${withoutSemicolon(statement.sql)}\n) AS q(${names})${rowsMax === undefined ? '' : ` LIMIT ${rowsMax}`}`;
}

async function exportByCopy(
  session: Session,
  statement: WireStatement,
  copy: CopyStatement,
  directory: string,
  { into, rowsMax }: WireOptions,
): Promise<{ rowCount: number; written: WrittenFile[] }> {
  const split = into?.fileBytesMax;
  const path = join(directory, 'copy');
  const options = [...copy.options, ...(split === undefined ? [] : [`FILE_SIZE_BYTES ${split}`])];
  const columns = (await describe(session, statement)).length;
  const { connection } = session;
  if (split !== undefined && (await isOrdered(connection, statement.sql))) {
    const written = await orderedCopy(connection, path, split, {
      createTable: (table) => {
        const text = `CREATE TEMP TABLE ${table} AS ${selectFromQuery(statement, '*', columns, rowsMax)}`;
        return inTransaction(connection, () => withPrepared(connection, text, statement, (prepared) => prepared.run()));
      },
      copyText: (rows, path) => `COPY (SELECT ${copy.select} FROM ${rows}) TO ${path} (${copy.options.join(', ')})`,
    });
    return { rowCount: written.reduce((sum, { rows }) => sum + rows, 0), written };
  }
  const text = `COPY (${selectFromQuery(statement, copy.select, columns, rowsMax)}) TO ${quoteLiteral(path)} (${options.join(', ')})`;
  const rows = await preparedOnce(session.connection, text, statement, async (prepared) =>
    (await prepared.runAndReadAll()).getRows(),
  );
  const reported = new Map(
    copy.reportsRows ? rows.map(([file, count]) => [basename(String(file)), Number(count)]) : [],
  );
  const rowCount = copy.reportsRows
    ? [...reported.values()].reduce((sum, count) => sum + count, 0)
    : Number(rows[0]?.[0] ?? 0);
  if (split === undefined) return { rowCount, written: [{ path, rows: rowCount }] };
  const names = await readdir(path);
  const numberOf = (name: string) => Number(/\d+/.exec(name)?.[0] ?? 0);
  names.sort((a, b) => numberOf(a) - numberOf(b));
  return { rowCount, written: names.map((name) => ({ path: join(path, name), rows: reported.get(name) })) };
}

async function exportArrow(
  session: Session,
  statement: WireStatement,
  columns: readonly Described[],
  directory: string,
  { into, rowsMax }: WireOptions,
  { requireCurrent }: ExportContext,
): Promise<{ rowCount: number; written: WrittenFile[] }> {
  if (into?.format.kind !== 'arrow') throw new Error('the format is not Arrow');
  // Arrow's library is loaded only for these exports.
  const [{ arrowable }, { writeArrow }] = await Promise.all([import('./arrow_types.ts'), import('./arrow_files.ts')]);
  const select = columns.map(({ type }, i) => cast(type, arrowable(type), `c${i}`)).join(', ');
  const rows = selectFromQuery(statement, select, columns.length, rowsMax);
  const { layout, compression = 'none' } = into.format;
  const target = { directory, layout, compression, fileBytesMax: into.fileBytesMax, requireCurrent };
  const names = columns.map(({ name }) => name);
  const stream = { requireCurrent, scratchFile: join(directory, 'again'), bufferBytes: parallelBufferBytes };
  const written = await readStream(session.connection, rows, statement, stream, (prepared) =>
    writeArrow(prepared, names, target),
  );
  requireCurrent();
  return { rowCount: written.reduce((sum, { rows }) => sum + rows, 0), written };
}

/** Counts the records of a file by reading it, for formats in which the engine does not report them. */
async function countRecords(path: string, format: ExportFormat, { requireCurrent }: ExportContext): Promise<number> {
  if (format.kind !== 'csv' && format.kind !== 'ndjson')
    throw new Error('the engine reports the rows of other formats');
  const raw = createReadStream(path, { highWaterMark: readBytes });
  const createDecompressor = { none: undefined, gzip: createGunzip, zstd: createZstdDecompress }[format.compression];
  const decompressor = createDecompressor?.();
  if (decompressor) raw.on('error', (error) => decompressor.destroy(error));
  let records = format.kind === 'csv' && format.header ? -1 : 0;
  let isQuoted = false;
  for await (const chunk of decompressor ? raw.pipe(decompressor) : raw) {
    requireCurrent();
    for (const byte of chunk as Buffer) {
      // A quote inside a quoted field is doubled, so the second quote opens the field again.
      if (byte === quote && format.kind === 'csv') isQuoted = !isQuoted;
      else if (byte === newline && !isQuoted) records++;
    }
  }
  return records;
}
