// Runs statements and returns their rows as JSON text, which the engine produces. A result that was small in the last run is fetched into
// memory; any other is streamed into a file of pages while it is computed. Both ways are always correct; only their speed differs.
import { rm } from 'node:fs/promises';
import {
  DuckDBArrayType,
  DuckDBListType,
  DuckDBMapType,
  type DuckDBMaterializedResult,
  type DuckDBPreparedStatement,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  ResultReturnType,
} from '@duckdb/node-api';
import type { DescribedColumn, PageReady, ResultColumn, StatementResult } from '../../port/statements.ts';
import { PagedFile, type PageEnd, rowsFile } from '../../results/paged_file.ts';
import { noteRows, rememberStep, rowsOfStep } from '../instance/applied_steps.ts';
import { preparedKey, type Session } from '../instance/connection_pool.ts';
import type { WireOptions as Options, WireStatement } from '../process/protocol.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { tokensOf, withoutSemicolon } from '../sql/statement_checks.ts';
import { plainWriters, writeRows } from '../types/json_values.ts';
import { jsonExpression, logicalTypeOf, resultTypeText } from '../types/type_mapping.ts';
import { bindParameters } from './parameters.ts';
import { preparedOnce } from './prepared_once.ts';
import { parallelBufferBytes, promptBufferBytes, readStream } from './streamed_rows.ts';
import { joinedStrings, lastStringBytes } from './text_column.ts';

/** Lines added above the caller's text, to correct positions in errors. */
export const linesAbove = 1;
const smallRows = 5000;
const memoryRowsMax = 20_000;
/** A larger result is a file, which has pages. */
const inlineBytesMax = 262_144;
/** The first page of a result that is computed at this rate may wait until the larger buffer is full, which takes half a second. */
const fastBytesPerMs = parallelBufferBytes / 500;

/** The parts of a SELECT that are cached between its runs. */
export interface KnownSelect {
  readonly columns: readonly ResultColumn[];
  readonly rowText: string;
  readonly names: string;
  readonly text: string;
  /** Writers for the columns if none needs SQL to become JSON text. */
  readonly plain: ReturnType<typeof plainWriters>;
  /** Whether the engine accepts a LIMIT at the end of the text; undefined until that was tried. */
  acceptsLimit: boolean | undefined;
  rowCount: number;
  /** How fast a result larger than the buffers of a stream was computed in the last run; 0 for any other result. */
  bytesPerMs: number;
}

export interface SelectContext {
  /** A file that the engine may write to. */
  readonly engineFile: string;
  /** Descriptions of earlier statements. */
  readonly known: Map<string, KnownSelect>;
  /** The version of the rows that it reads (see data_versions.ts); undefined if they are being changed, so that a plan must not be reused. */
  readonly epoch: () => number | undefined;
  /** Throws if a definition has changed since the statement was authorized. */
  readonly requireCurrent: () => void;
  /** Whether no definition has changed since the statement began. */
  readonly unchanged: () => boolean;
  /** Called when a page is complete and another one follows. */
  readonly onPage: ((page: PageReady) => void) | undefined;
}

export async function runSelect(
  session: Session,
  statement: WireStatement,
  options: Options,
  context: SelectContext,
): Promise<StatementResult> {
  const { known, unchanged } = context;
  const key = JSON.stringify([statement.catalog.name, statement.database, options.numbers, preparedKey(statement)]);
  let select = known.get(key);
  if (!select) {
    const prepared = await session.prepare(preparedKey(statement), statement.sql);
    const described = describedBy(prepared);
    select = rowsOf(described ?? (await describedByRunning(session, statement)), statement.sql, options.numbers);
    // Not cached if the types depend on the parameters, or if a definition changed meanwhile.
    if (described && unchanged()) known.set(key, select);
  }
  const from = (rowsMax: number | undefined) =>
    `FROM (\n${select.text}\n) AS q(${select.names})${rowsMax === undefined ? '' : ` LIMIT ${rowsMax + 1}`}`;
  const result =
    (select.rowCount < smallRows
      ? await fromMemoryNow(session, from, key, statement, select, options, context)
      : undefined) ?? (await fromStream(session, from(options.rowsMax), statement, select, options, context));
  select.rowCount = result.rowCount;
  return result;
}

export interface Described {
  readonly name: string;
  readonly type: string;
}

/** Undefined if the type of a column depends on the type of a parameter. */
export function describedBy(prepared: DuckDBPreparedStatement): Described[] | undefined {
  const described: Described[] = [];
  for (let i = 0; i < prepared.columnCount; i++) {
    if (prepared.columnTypeId(i) === DuckDBTypeId.INVALID) return undefined;
    described.push({ name: prepared.columnName(i), type: typeText(prepared.columnType(i)) });
  }
  return described;
}

export async function describedByRunning(session: Session, statement: WireStatement): Promise<Described[]> {
  const prepared = await session.connection.prepare(
    `SELECT * FROM (\n${withoutSemicolon(statement.sql)}\n) AS q LIMIT 0`,
  );
  try {
    await bindParameters(prepared, statement.parameters, session.connection);
    const result = await prepared.run();
    return result.columnNames().map((name, i) => ({ name, type: typeText(result.columnType(i)) }));
  } finally {
    prepared.destroySync();
  }
}

/** Describes the columns without running the statement. */
export async function describedColumns(session: Session, statement: WireStatement): Promise<DescribedColumn[]> {
  const prepared = await session.connection.prepare(statement.sql);
  try {
    const described = describedBy(prepared) ?? (await describedByRunning(session, statement));
    return described.map(({ name, type }) => {
      const logical = logicalTypeOf(type);
      return { name, type: resultTypeText(type), ...(logical === undefined ? {} : { logical }) };
    });
  } finally {
    prepared.destroySync();
  }
}

function rowsOf(described: readonly Described[], sql: string, numbers: Options['numbers']): KnownSelect {
  const types = described.map(({ type }) => type);
  const parts = types.map((type, i) => jsonExpression(type, `c${i}`, numbers));
  return {
    columns: described.map(({ name, type }) => ({ name, type: resultTypeText(type) })),
    plain: plainWriters(types, numbers),
    rowText: `concat('[', ${parts.join(`, ',', `)}, ']')`,
    names: types.map((_, i) => `c${i}`).join(', '),
    text: withoutSemicolon(sql),
    acceptsLimit: beginsWithSelect(sql) ? undefined : false,
    rowCount: Number.POSITIVE_INFINITY,
    bytesPerMs: 0,
  };
}

/** In other statements, such as SUMMARIZE SELECT ..., a LIMIT at the end may belong to an inner one. */
function beginsWithSelect(sql: string): boolean {
  const [first] = tokensOf(sql);
  return first?.text.toLowerCase() === 'select';
}

/** The text of a type that distinguishes JSON: the driver treats JSON as a VARCHAR with an alias, which its own text omits. */
function typeText(type: DuckDBType): string {
  if (type.alias === 'JSON') return 'JSON';
  if (type instanceof DuckDBListType) return `${typeText(type.valueType)}[]`;
  if (type instanceof DuckDBArrayType) return `${typeText(type.valueType)}[${type.length}]`;
  if (type instanceof DuckDBMapType) return `MAP(${typeText(type.keyType)}, ${typeText(type.valueType)})`;
  if (type instanceof DuckDBStructType) {
    // The fields of a row(...) have no names; the driver reports empty ones.
    const fields = type.entryTypes.map((entryType, i) => {
      const name = type.entryNames[i] ?? '';
      return name === '' ? typeText(entryType) : `${quoteIdentifier(name)} ${typeText(entryType)}`;
    });
    return `STRUCT(${fields.join(', ')})`;
  }
  return String(type);
}

/** As `fromMemory`; runs the statement again if rows were written between planning and running it. */
async function fromMemoryNow(
  session: Session,
  from: (rowsMax: number) => string,
  key: string,
  statement: WireStatement,
  select: KnownSelect,
  options: Options,
  { epoch, requireCurrent }: SelectContext,
): Promise<StatementResult | undefined> {
  const begun = epoch();
  let result = await fromMemory(session, from, key, statement, select, options, begun);
  if (begun !== undefined && epoch() !== begun)
    result = await fromMemory(session, from, key, statement, select, options, undefined);
  // A concurrent change may have given a name another meaning: the rows are not returned then.
  requireCurrent();
  return result;
}

/** Undefined if the result is not small this time, because parameters or data differ: it might fill the memory. */
async function fromMemory(
  session: Session,
  from: (rowsMax: number) => string,
  key: string,
  statement: WireStatement,
  select: KnownSelect,
  options: Options,
  epoch: number | undefined,
): Promise<StatementResult | undefined> {
  const { rowsMax = Number.POSITIVE_INFINITY } = options;
  const limit = Math.min(rowsMax, memoryRowsMax);
  const { plain, rowText } = select;
  const text = `SELECT ${plain ? '*' : rowText} ${from(limit)}`;
  // The engine plans a statement with parameters at each run, which takes a sixth longer for a subquery than for the bare text.
  const limitedText = `\n${select.text}\nLIMIT ${limit + 1}`;
  const toRows = (result: DuckDBMaterializedResult): string[] | undefined => {
    if (result.rowCount > limit && limit < rowsMax) return undefined;
    return plain ? writeRows(result, plain) : texts(result);
  };
  let rows: string[] | undefined;
  if (epoch === undefined) {
    rows = await preparedOnce(session.connection, text, statement, async (prepared) => toRows(await prepared.run()));
  } else {
    const prepare = (form: string) => session.prepare(`${key}${limit} ${epoch}`, form);
    if (plain)
      select.acceptsLimit ??= await prepare(limitedText).then(
        () => true,
        () => false,
      );
    const prepared = await prepare(plain && select.acceptsLimit ? limitedText : text);
    await bindParameters(prepared, statement.parameters, session.connection);
    rows = toRows(await prepared.run());
  }
  if (rows === undefined) return undefined;
  const truncated = rows.length > limit;
  if (truncated) rows.length = limit;
  return finish(rows, select.columns, rows.length, truncated, options);
}

/** The single column of a materialized result as strings. Fetching chunks instead would wait for each of them. */
function texts(result: DuckDBMaterializedResult): string[] {
  const rows: string[] = [];
  for (let i = 0; i < result.chunkCount; i++) {
    for (const value of result.getChunk(i).getColumnValues(0)) rows.push(value as string);
  }
  return rows;
}

/** Returns rows in memory as text, or as a file if they do not fit in a page. */
async function finish(
  rows: readonly string[],
  columns: readonly ResultColumn[],
  rowCount: number,
  truncated: boolean,
  options: Options,
): Promise<StatementResult> {
  const text = rows.join(',\n');
  if (Buffer.byteLength(text) <= options.pageBytesMax)
    return { columns, rowCount, rows: { kind: 'text', text }, truncated };
  const path = rowsFile(options.resultPath);
  const file = new PagedFile({ path, pageBytesMax: options.pageBytesMax, onPage: undefined });
  try {
    await file.append([Buffer.from(`${text},\n`)], rowCount);
    return { columns, rowCount, rows: { kind: 'file', path, ...(await file.finish()) }, truncated };
  } finally {
    await file.close();
  }
}

/** Streams the rows into pages while the engine computes the following ones. */
async function fromStream(
  session: Session,
  from: string,
  statement: WireStatement,
  select: KnownSelect,
  options: Options,
  { engineFile, requireCurrent, onPage }: SelectContext,
): Promise<StatementResult> {
  const { rowsMax = Number.POSITIVE_INFINITY, pageBytesMax, resultPath } = options;
  const { columns } = select;
  const path = rowsFile(resultPath);
  const report = onPage && ((page: PageEnd) => onPage({ columns, path, ...page }));
  const file = new PagedFile({ path, pageBytesMax, onPage: report });
  const text = `SELECT concat(${select.rowText}, e',\\n') ${from}`;
  const bufferBytes = select.bytesPerMs < fastBytesPerMs ? promptBufferBytes : parallelBufferBytes;
  const begun = performance.now();
  try {
    const counted = await readStream(
      session.connection,
      text,
      statement,
      { requireCurrent, scratchFile: engineFile, bufferBytes },
      (prepared) => appendRows(prepared, file, rowsMax),
    );
    select.bytesPerMs = file.bytes < parallelBufferBytes ? 0 : file.bytes / (performance.now() - begun);
    const rows: StatementResult['rows'] =
      file.bytes <= inlineBytesMax
        ? { kind: 'text', text: file.unwritten().slice(0, -2) }
        : { kind: 'file', path, ...(await file.finish()) };
    return { columns, ...counted, rows };
  } catch (error) {
    await file.close();
    for (const left of [engineFile, path]) await rm(left, { force: true });
    throw error;
  }
}

/** Appends at most `rowsMax` rows. The engine computes the next ones while the current ones are copied. */
async function appendRows(prepared: DuckDBPreparedStatement, file: PagedFile, rowsMax: number) {
  const result = await prepared.stream();
  let rowCount = 0;
  let pending = result.fetchChunk();
  try {
    for (;;) {
      const chunk = await pending;
      if (!chunk || chunk.rowCount === 0) return { rowCount, truncated: false };
      pending = result.fetchChunk();
      pending.catch(() => undefined);
      rowCount += chunk.rowCount;
      const truncated = rowCount > rowsMax;
      // The query has a limit of one row more.
      const parts = truncated ? withoutLast([...joinedStrings(chunk)], lastStringBytes(chunk)) : joinedStrings(chunk);
      await file.append(parts, chunk.rowCount - Number(truncated));
      if (truncated) return { rowCount: rowsMax, truncated };
    }
  } finally {
    await pending.catch(() => undefined);
  }
}

/** Leaves out the last `bytes`, which are within the last part. */
function withoutLast(parts: readonly Uint8Array[], bytes: number): readonly Uint8Array[] {
  const last = parts.at(-1) as Uint8Array;
  return [...parts.slice(0, -1), last.subarray(0, last.length - bytes)];
}

/**
 * Runs a statement that writes; the caller begins and commits the transaction. The result is `repeated` if the step was completed before.
 * Steps are recorded in `catalog`, the catalog that is written to, because a transaction can write to one file only.
 */
export async function runWrite(
  session: Session,
  statement: WireStatement,
  options: Options,
  catalog: string,
): Promise<StatementResult> {
  const { connection } = session;
  const countColumn = [{ name: 'Count', type: 'BIGINT' }];
  if (options.step !== undefined && !(await rememberStep(connection, catalog, options.step))) {
    const rowCount = (await rowsOfStep(connection, catalog, options.step)) ?? 0;
    return {
      columns: countColumn,
      rowCount,
      rows: { kind: 'text', text: `[${rowCount}]` },
      truncated: false,
      repeated: true,
    };
  }
  const prepared = await connection.prepare(statement.sql);
  try {
    await bindParameters(prepared, statement.parameters, connection);
    const result = await prepared.run();
    if (result.returnType === ResultReturnType.CHANGED_ROWS) {
      const rowCount = result.rowsChanged;
      if (options.step !== undefined) await noteRows(connection, catalog, options.step, rowCount);
      return { columns: countColumn, rowCount, rows: { kind: 'text', text: `[${rowCount}]` }, truncated: false };
    }
    const rows = await returningRows(session, result, options);
    if (options.step !== undefined) await noteRows(connection, catalog, options.step, rows.rowCount);
    return { ...rows, returned: true };
  } finally {
    prepared.destroySync();
  }
}

/** The rows of RETURNING, appended to a temporary table so that they are converted to JSON like all rows. */
async function returningRows(
  session: Session,
  result: DuckDBMaterializedResult,
  options: Options,
): Promise<StatementResult> {
  const { connection } = session;
  const columnTypes = result.columnTypes();
  const types = columnTypes.map(typeText);
  const columns = result.columnNames().map((name, i) => ({ name, type: resultTypeText(types[i] as string) }));
  const table = 'returned';
  await connection.run(
    `CREATE OR REPLACE TEMP TABLE ${table} (${columnTypes.map((type, i) => `${quoteIdentifier(`c${i}`)} ${type}`).join(', ')})`,
  );
  try {
    const appender = await connection.createAppender(table, 'main', 'temp');
    for (let chunk = await result.fetchChunk(); chunk && chunk.rowCount > 0; chunk = await result.fetchChunk())
      appender.appendDataChunk(chunk);
    appender.closeSync();
    const parts = types.map((type, i) => jsonExpression(type, `c${i}`, options.numbers));
    const rows = texts(
      await connection.run(`SELECT concat('[', ${parts.join(`, ',', `)}, ']') FROM temp.main.${table}`),
    );
    const { rowsMax } = options;
    const truncated = rowsMax !== undefined && rows.length > rowsMax;
    return await finish(truncated ? rows.slice(0, rowsMax) : rows, columns, rows.length, truncated, options);
  } finally {
    await connection.run(`DROP TABLE IF EXISTS temp.main.${table}`);
  }
}
