// A statement run to its result: rows as JSON text made by the engine itself. A result that was small the last time is taken
// from memory; any other is written to a file and cut into pages afterwards, without reading it. Both are always right; only
// their speed differs.
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
import { withoutEnd } from '../sql/statement_checks.ts';
import { plainWriters, writeRows } from '../types/json_values.ts';
import { jsonExpression, logicalTypeOf, resultTypeText } from '../types/type_mapping.ts';
import { bindParameters } from './parameters.ts';

/** Lines of ours above the user's text, for the places that errors name. */
export const linesAbove = 1;
const smallRows = 5000;
const memoryRowsMax = 20_000;
const inlineBytesMax = 262_144;
const pageScanBytes = 65_536;
const copyFormat = `(FORMAT csv, QUOTE '', ESCAPE '', DELIMITER e'\\x01', HEADER false)`;

/** What is remembered of a SELECT between its runs. */
export interface KnownSelect {
  readonly columns: readonly ResultColumn[];
  readonly rowText: string;
  readonly names: string;
  readonly text: string;
  /** Where all columns are plain, they need no SQL to become text. */
  readonly plain: ReturnType<typeof plainWriters>;
  rowCount: number;
}

/**
 * `engineFile`: where the engine may write the rows. `epoch`: of the rows that it reads (data_epochs.ts); undefined: they change
 * just now, and no plan may outlive its snapshot.
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
    // Not where the types hang on the parameters', nor where a change came in between: it is described anew then.
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

/** Undefined where the type of a column hangs on a parameter's. */
export function describedBy(prepared: DuckDBPreparedStatement): Described[] | undefined {
  const described: Described[] = [];
  for (let i = 0; i < prepared.columnCount; i++) {
    if (prepared.columnTypeId(i) === DuckDBTypeId.INVALID) return undefined;
    described.push({ name: prepared.columnName(i), type: typeText(prepared.columnType(i)) });
  }
  return described;
}

export async function describedByRunning(session: Session, statement: WireStatement): Promise<Described[]> {
  const prepared = await session.connection.prepare(`SELECT * FROM (\n${withoutEnd(statement.sql)}\n) AS q LIMIT 0`);
  try {
    await bindParameters(prepared, statement.parameters, session.connection);
    const result = await prepared.run();
    return result.columnNames().map((name, i) => ({ name, type: typeText(result.columnType(i)) }));
  } finally {
    prepared.destroySync();
  }
}

/** Without running it. */
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
    text: withoutEnd(sql),
    rowCount: Number.POSITIVE_INFINITY,
  };
}

/** A type's text with JSON said: to the driver it is a VARCHAR with an alias, which its own text leaves out. */
function typeText(type: DuckDBType): string {
  if (type.alias === 'JSON') return 'JSON';
  if (type instanceof DuckDBListType) return `${typeText(type.valueType)}[]`;
  if (type instanceof DuckDBArrayType) return `${typeText(type.valueType)}[${type.length}]`;
  if (type instanceof DuckDBMapType) return `MAP(${typeText(type.keyType)}, ${typeText(type.valueType)})`;
  if (type instanceof DuckDBStructType) {
    // A row(...) has no names, which the driver calls empty ones.
    const fields = type.entryTypes.map((one, i) => {
      const name = type.entryNames[i] ?? '';
      return name === '' ? typeText(one) : `${quoteIdentifier(name)} ${typeText(one)}`;
    });
    return `STRUCT(${fields.join(', ')})`;
  }
  return String(type);
}

/** Undefined where the result is not small this time: other parameters, or other data, and it might fill the memory. */
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
  const written = (found: DuckDBMaterializedResult): string[] | undefined => {
    if (found.rowCount > limit && limit < rowsMax) return undefined;
    return plain ? writeRows(found, plain) : texts(found);
  };
  let rows: string[] | undefined;
  if (epoch === undefined) {
    rows = await preparedOnce(session.connection, text, statement, async (prepared) => written(await prepared.run()));
  } else {
    const prepared = await session.prepare(`${key}${limit} ${epoch}`, text);
    await bindParameters(prepared, statement.parameters, session.connection);
    rows = written(await prepared.run());
  }
  if (rows === undefined) return undefined;
  const truncated = rows.length > limit;
  if (truncated) rows.length = limit;
  return finish(rows, select.columns, rows.length, truncated, options);
}

/** Planned and run in one transaction: what the plan takes for granted of the rows is true of those that it reads. */
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
    // It changed nothing, and may have failed; either way it ends.
    await connection.run('ROLLBACK').catch(() => undefined);
  }
}

/** With the statement's parameters. */
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

/** The one column of a result, as texts. The rows are there already: to fetch them would cost a wait for each chunk. */
function texts(result: DuckDBMaterializedResult): string[] {
  const rows: string[] = [];
  for (let i = 0; i < result.chunkCount; i++) {
    for (const value of result.getChunk(i).getColumnValues(0)) rows.push(value as string);
  }
  return rows;
}

/** Rows in memory → the text itself, or a file where they do not fit a page. */
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

/** Where pages begin: after the newline that follows each multiple of the page's size; the last entry is the length. */
async function pageOffsets(path: string, pageBytesMax: number): Promise<number[]> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const offsets = [0];
    const window = Buffer.allocUnsafe(pageScanBytes);
    let at = pageBytesMax - 1;
    while (at < size) {
      const { bytesRead } = await file.read(window, 0, window.length, at);
      if (bytesRead === 0) break;
      const newline = window.subarray(0, bytesRead).indexOf(10);
      if (newline < 0) {
        at += bytesRead;
        continue;
      }
      const start = at + newline + 1;
      if (start >= size) break;
      offsets.push(start);
      at = start + pageBytesMax - 1;
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
 * A statement that writes; the caller has begun the transaction and commits it. `repeated`: its step was done before, as `catalog`
 * remembers: the one that is written, because a transaction writes to one file.
 */
export async function runWrite(
  session: Session,
  statement: WireStatement,
  options: Options,
  catalog: string,
): Promise<StatementResult> {
  const { connection } = session;
  const counted = [{ name: 'Count', type: 'BIGINT' }];
  if (options.step !== undefined && !(await rememberStep(connection, catalog, options.step))) {
    const rowCount = (await rowsOfStep(connection, catalog, options.step)) ?? 0;
    return {
      columns: counted,
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
      return { columns: counted, rowCount, rows: { kind: 'text', text: `[${rowCount}]` }, truncated: false };
    }
    const made = await returned(session, result, options);
    if (options.step !== undefined) await noteRows(connection, catalog, options.step, made.rowCount);
    return { ...made, returned: true };
  } finally {
    prepared.destroySync();
  }
}

/** Rows of RETURNING: put into a temporary table, so that they become JSON the way all rows do. */
async function returned(
  session: Session,
  result: DuckDBMaterializedResult,
  options: Options,
): Promise<StatementResult> {
  const { connection } = session;
  const held = result.columnTypes();
  const types = held.map(typeText);
  const columns = result.columnNames().map((name, i) => ({ name, type: resultTypeText(types[i] as string) }));
  const table = 'returned';
  await connection.run(
    `CREATE OR REPLACE TEMP TABLE ${table} (${held.map((type, i) => `${quoteIdentifier(`c${i}`)} ${type}`).join(', ')})`,
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
