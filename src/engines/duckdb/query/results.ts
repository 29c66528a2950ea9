// Runs statements and returns their rows as JSON text, which the engine produces. A result that was small in the last run is fetched into
// memory; any other is written to a file and split into pages by byte offsets. Both ways are always correct; only their speed differs.
import { open, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import {
  DuckDBArrayType,
  type DuckDBConnection,
  DuckDBListType,
  DuckDBMapType,
  type DuckDBMaterializedResult,
  type DuckDBPreparedStatement,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  ResultReturnType,
} from '@duckdb/node-api';
import type { DescribedColumn, ResultColumn, StatementResult } from '../../engine.ts';
import { noteRows, rememberStep, rowsOfStep } from '../instance/applied_steps.ts';
import { preparedKey, type Session } from '../instance/connection_pool.ts';
import { type WireOptions as Options, rowsFile, type WireStatement } from '../process/protocol.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { withoutSemicolon } from '../sql/statement_checks.ts';
import { plainWriters, writeRows } from '../types/json_values.ts';
import { jsonExpression, logicalTypeOf, resultTypeText } from '../types/type_mapping.ts';
import { bindParameters } from './parameters.ts';

/** Lines added above the caller's text, to correct positions in errors. */
export const linesAbove = 1;
const smallRows = 5000;
const memoryRowsMax = 20_000;
const inlineBytesMax = 262_144;
const pageScanBytes = 65_536;
const copyFormat = `(FORMAT csv, QUOTE '', ESCAPE '', DELIMITER e'\\x01', HEADER false)`;

/** What is cached of a SELECT between its runs. */
export interface KnownSelect {
  readonly columns: readonly ResultColumn[];
  readonly rowText: string;
  readonly names: string;
  readonly text: string;
  /** Writers for the columns if none needs SQL to become JSON text. */
  readonly plain: ReturnType<typeof plainWriters>;
  rowCount: number;
}

/**
 * `engineFile`: the file to which the engine may write the rows. `epoch`: the version of the rows that it reads (see data_versions.ts);
 * undefined if they are being changed, so that a prepared plan must not be reused.
 */
export async function runSelect(
  session: Session,
  statement: WireStatement,
  options: Options,
  engineFile: string,
  known: Map<string, KnownSelect>,
  epoch: number | undefined,
  unchanged: () => boolean,
): Promise<StatementResult> {
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
      ? await fromMemory(session, from, key, statement, select, options, epoch)
      : undefined) ??
    (await fromFile(
      session,
      `COPY (SELECT concat(${select.rowText}, ',') ${from(options.rowsMax)}) TO ${quoteLiteral(engineFile)} ${copyFormat}`,
      statement,
      select,
      options,
      engineFile,
    ));
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
    rowCount: Number.POSITIVE_INFINITY,
  };
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
  const toRows = (result: DuckDBMaterializedResult): string[] | undefined => {
    if (result.rowCount > limit && limit < rowsMax) return undefined;
    return plain ? writeRows(result, plain) : texts(result);
  };
  let rows: string[] | undefined;
  if (epoch === undefined) {
    rows = await preparedOnce(session.connection, text, statement, async (prepared) => toRows(await prepared.run()));
  } else {
    const prepared = await session.prepare(`${key}${limit} ${epoch}`, text);
    await bindParameters(prepared, statement.parameters, session.connection);
    rows = toRows(await prepared.run());
  }
  if (rows === undefined) return undefined;
  const truncated = rows.length > limit;
  if (truncated) rows.length = limit;
  return finish(rows, select.columns, rows.length, truncated, options);
}

/** Plans and runs in one transaction, so that the statistics that the plan relies on match the rows that it reads. */
export async function preparedOnce<T>(
  connection: DuckDBConnection,
  text: string,
  statement: WireStatement,
  run: (prepared: DuckDBPreparedStatement) => Promise<T>,
): Promise<T> {
  await connection.run('BEGIN TRANSACTION');
  try {
    return await withPrepared(connection, text, statement, run);
  } finally {
    // The statement changed nothing; the transaction ends the same way if it failed.
    await connection.run('ROLLBACK').catch(() => undefined);
  }
}

/** Prepares the text and binds the statement's parameters. */
export async function withPrepared<T>(
  connection: DuckDBConnection,
  text: string,
  { parameters }: WireStatement,
  run: (prepared: DuckDBPreparedStatement) => Promise<T>,
): Promise<T> {
  const prepared = await connection.prepare(text);
  try {
    await bindParameters(prepared, parameters, connection);
    return await run(prepared);
  } finally {
    prepared.destroySync();
  }
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
  await writeFile(path, `${text},\n`);
  return {
    columns,
    rowCount,
    rows: { kind: 'file', path, offsets: await pageOffsets(path, options.pageBytesMax) },
    truncated,
  };
}

async function fromFile(
  session: Session,
  text: string,
  statement: WireStatement,
  select: KnownSelect,
  options: Options,
  engineFile: string,
): Promise<StatementResult> {
  const path = rowsFile(options.resultPath);
  try {
    let rowCount = await preparedOnce(session.connection, text, statement, async (prepared) =>
      Number((await prepared.runAndReadAll()).getRows()[0]?.[0] ?? 0),
    );
    await rename(engineFile, path);
    const truncated = options.rowsMax !== undefined && rowCount > options.rowsMax;
    if (truncated) {
      await dropLastRow(path);
      rowCount--;
    }
    const { columns } = select;
    if ((await stat(path)).size <= inlineBytesMax) {
      const lines = await readFile(path, 'utf8');
      await rm(path, { force: true });
      return { columns, rowCount, rows: { kind: 'text', text: lines.slice(0, -2) }, truncated };
    }
    return {
      columns,
      rowCount,
      rows: { kind: 'file', path, offsets: await pageOffsets(path, options.pageBytesMax) },
      truncated,
    };
  } catch (error) {
    for (const file of [engineFile, path]) await rm(file, { force: true });
    throw error;
  }
}

/** The offsets at which pages begin: after the newline that follows each multiple of the page size; the last entry is the file's length. */
async function pageOffsets(path: string, pageBytesMax: number): Promise<number[]> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const offsets = [0];
    const window = Buffer.allocUnsafe(pageScanBytes);
    let offset = pageBytesMax - 1;
    while (offset < size) {
      const { bytesRead } = await file.read(window, 0, window.length, offset);
      if (bytesRead === 0) break;
      const newline = window.subarray(0, bytesRead).indexOf(10);
      if (newline < 0) {
        offset += bytesRead;
        continue;
      }
      const start = offset + newline + 1;
      if (start >= size) break;
      offsets.push(start);
      offset = start + pageBytesMax - 1;
    }
    offsets.push(size);
    return offsets;
  } finally {
    await file.close();
  }
}

async function dropLastRow(path: string): Promise<void> {
  const file = await open(path);
  let end: number;
  try {
    const { size } = await file.stat();
    const window = Buffer.allocUnsafe(pageScanBytes);
    end = size - 1;
    for (let newline = -1; end > 0 && newline < 0; ) {
      const from = Math.max(0, end - window.length);
      const { bytesRead } = await file.read(window, 0, end - from, from);
      newline = window.subarray(0, bytesRead).lastIndexOf(10);
      end = newline < 0 ? from : from + newline + 1;
    }
  } finally {
    await file.close();
  }
  await truncate(path, end);
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
