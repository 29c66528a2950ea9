// Loads of files into tables: the servers parse the file into staging tables; a file that they refuse is read row by row, which finds the rows
// that do not fit. A load counts from the moment when it is recorded with its staged rows: from then on, whoever repeats its step publishes
// them.
import { randomUUID } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { isNested, type LogicalType } from '../../../model/types.ts';
import { Failure, invalidParameter } from '../../../standard/failure.ts';
import { optionsOfLoad } from '../../data_files/file_schema.ts';
import { dataInvalid, type RejectedRow, rejectedFailure, shownMax } from '../../data_files/load_failures.ts';
import type { EngineWarehouse } from '../../port/engine.ts';
import type { FileLoad, FileLoadResult } from '../../port/load.ts';
import type { WorkOptions } from '../../port/work.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { internalDatabase, namesOf } from '../names.ts';
import { completeEarlier, rowsOfEarlier } from '../rows/pending_steps.ts';
import { qualifiedName, quoteIdentifier } from '../sql/identifiers.ts';
import { serverType } from '../types/type_mapping.ts';
import { type CheckedRows, checkRows } from './checked_rows.ts';
import { type MappedColumn, mapColumns } from './column_mapping.ts';
import { requireExpressions } from './expressions.ts';
import { type FileShape, readShape } from './file_shape.ts';
import { inferTable } from './infer_table.ts';
import { computeSettings, type NativeSource, nativeSource, withNativeData } from './native_source.ts';
import { type ParquetColumn, readParquetColumns } from './parquet_columns.ts';
import { faultCount, type RawColumn, type RowSql, rowSql } from './row_values.ts';
import { cancelledLoad, loadStaged, type StagingPlace } from './staged_load.ts';
import { loadColumn, stagingName } from './staging.ts';
import { usualRow, usualSettings } from './usual_values.ts';

export type LoadMethods = Pick<EngineWarehouse, 'inferTable' | 'load' | 'rowsLoadedByStep'>;

/** The limit of a load is that of its task, which aborts it. */
const loadTimeoutMs = 24 * 3600 * 1000;
/** A part of the progress remains for the publication. */
const readingPart = 0.95;

export function loadsOf(context: WarehouseContext): LoadMethods {
  const loads = new Loads(context);
  return {
    inferTable: (work, { signal }) =>
      context.run(signal, (combined) => context.cluster.onAny((server) => inferTable(server, work, combined))),
    load: (work, options) =>
      context.run(options.signal, async (signal) => {
        try {
          return await loads.load(work, { ...options, signal });
        } finally {
          if (!work.dryRun)
            context.changed.add({
              catalog: work.table.catalog.name,
              database: work.table.database,
              table: work.table.table,
            });
        }
      }),
    rowsLoadedByStep: (catalog, step) => context.run(undefined, () => rowsOfEarlier(context, catalog, step)),
  };
}

/** What was read of a file before its rows. */
interface Plan {
  readonly shape: FileShape;
  readonly mapped: readonly MappedColumn[];
  readonly native: NativeSource | undefined;
  readonly isProved: boolean;
}

class Loads {
  readonly #context: WarehouseContext;

  constructor(context: WarehouseContext) {
    this.#context = context;
  }

  async load(work: FileLoad, options: WorkOptions): Promise<FileLoadResult> {
    const { table, step, mode, dryRun } = work;
    const attempt = dryRun ? '' : await this.#context.steps.begin(table.catalog, [step]);
    const rowsLoaded = dryRun ? undefined : await completeEarlier(this.#context, table.catalog, step, attempt);
    if (rowsLoaded !== undefined) return { rowsLoaded, rowsRejected: 0, repeated: true };
    if (mode === 'upsert')
      throw new Failure(
        'NOT_SUPPORTED_BY_ENGINE',
        'the engine does not support loads that replace the rows with the same primary key',
      );
    try {
      return await this.#context.cluster.onAny(async (server) => {
        const plan = await planLoad(server, work, options);
        return dryRun
          ? await this.#tryLoad(server, work, plan, options)
          : await this.#loadStaged(server, work, plan, { ...options, attempt });
      });
    } catch (error) {
      throw options.signal.aborted && isUnapplied(error) ? cancelledLoad() : serverFailure(error);
    }
  }

  async #loadStaged(
    server: ClickHouseServer,
    work: FileLoad,
    plan: Plan,
    options: WorkOptions & { readonly attempt: string },
  ): Promise<FileLoadResult> {
    let rowsRejected = 0;
    const rowsLoaded = await loadStaged(this.#context, server, work, {
      ...options,
      stage: async (place) => {
        rowsRejected = await stageFile(server, work, plan, { ...place, ...options });
      },
    });
    options.progress?.(1);
    return { rowsLoaded, rowsRejected, repeated: false };
  }

  /** Into a table that has the columns, and is dropped. */
  async #tryLoad(server: ClickHouseServer, work: FileLoad, plan: Plan, options: WorkOptions): Promise<FileLoadResult> {
    const { table, definition, isNewTable = false } = work;
    const call = { timeoutMs: loadTimeoutMs, isOfCaller: true, signal: options.signal };
    const names = namesOf({ ...table, catalog: table.catalog.name });
    if (isNewTable) {
      const [found] = await server.rows({
        ...call,
        sql: 'SELECT 1 FROM system.tables WHERE database = {database:String} AND name = {table:String}',
        parameters: { database: names.database, table: names.table },
      });
      if (found) throw new Failure('CHANGE_IN_PROGRESS', `a table ${JSON.stringify(table.table)} is being created`);
    }
    const name = stagingName(work.step, randomUUID());
    const into = qualifiedName({ database: internalDatabase, table: name });
    const columns = definition.columns.map(
      ({ name: column, type, nullable }) => `${quoteIdentifier(column)} ${serverType(type, nullable)}`,
    );
    try {
      await server.text({ ...call, sql: `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(internalDatabase)}` });
      await server.text({
        ...call,
        sql: `CREATE TABLE ${into} (${columns.join(', ')}, ${quoteIdentifier(loadColumn)} UInt64) ENGINE = MergeTree ORDER BY tuple()`,
      });
      const place: StagingPlace = {
        into,
        number: '0',
        async renewed() {
          await server.text({ ...call, sql: `TRUNCATE TABLE ${into}` });
          return place;
        },
      };
      const rowsRejected = await stageFile(server, work, plan, { ...place, ...options });
      const [counted] = await server.rows<{ n: string }>({
        ...call,
        sql: `SELECT toString(count()) AS n FROM ${into}`,
      });
      return { rowsLoaded: Number(counted?.n ?? 0), rowsRejected, repeated: false };
    } finally {
      await server.text({ timeoutMs: loadTimeoutMs, sql: `DROP TABLE IF EXISTS ${into} SYNC` }).catch(() => undefined);
    }
  }
}

const isUnapplied = (error: unknown): boolean => !(error instanceof Failure && error.outcome === 'unknown');

/** Throws DATA_INVALID, INVALID_PARAMETER, SQL_FORBIDDEN_FUNCTION. */
async function planLoad(server: ClickHouseServer, work: FileLoad, { signal }: WorkOptions): Promise<Plan> {
  const { definition, columns, file, isProved = false } = work;
  let parquet: readonly ParquetColumn[] = [];
  const readParquet = async (path: string) => {
    parquet = await readParquetColumns(server, path, signal);
    return parquet;
  };
  const shape = await readShape(
    file.format === 'parquet' ? { ...file, schema: undefined } : file,
    optionsOfLoad(work),
    readParquet,
  );
  const mapped = await requireExpressions(server, shape, mapColumns(shape, definition, columns), signal);
  if (mapped.length === 0) throw invalidParameter('/columns', 'columns', 'no column of the file is loaded');
  requireExactNulls(parquet, mapped);
  return { shape, mapped, native: nativeSource(shape, mapped, parquet), isProved };
}

/** A server reads null lists, maps and structs of a Parquet file as empty ones, without an error. Throws DATA_INVALID. */
function requireExactNulls(parquet: readonly ParquetColumn[], mapped: readonly MappedColumn[]): void {
  const isRead = (name: string) =>
    mapped.some(({ source, expression }) => source?.name === name || expression?.includes(name));
  const nested = parquet.find(({ name, type }) => isNested(type) && isRead(name));
  if (!nested) return;
  const { name } = nested;
  const message = `nulls in the column ${JSON.stringify(name)}, which has lists, maps or structs, cannot be read from a Parquet file by this engine; load it from an NDJSON file, or without the column`;
  throw dataInvalid(message, { column: name });
}

interface StageOptions extends WorkOptions, StagingPlace {}

/** @returns the number of rejected rows. */
async function stageFile(server: ClickHouseServer, work: FileLoad, plan: Plan, given: StageOptions): Promise<number> {
  let options = given;
  let refused: unknown;
  for (const statement of plan.native ? nativeStatements(plan, plan.native) : []) {
    try {
      await stageNative(server, plan, statement, options);
      return 0;
    } catch (error) {
      if (!(serverFailure(error) instanceof ClickHouseError)) throw error;
      // The rows before the one that was refused may be stored, on any server.
      options = { ...options, ...(await options.renewed()) };
      refused = error;
    }
  }
  return await stageChecked(server, work, plan, options, refused);
}

const insertText = (
  mapped: readonly MappedColumn[],
  { values, from }: { readonly values: readonly string[]; readonly from: string },
  { into, number }: StagingPlace,
  check: string,
): string => {
  const names = mapped.map(({ column }) => quoteIdentifier(column.name));
  return `INSERT INTO ${into} (${[...names, quoteIdentifier(loadColumn)].join(', ')}) SELECT ${[...values, `${number} + ${check}`].join(', ')} FROM ${from}`;
};

interface NativeStatement {
  readonly sqlFor: (place: StagingPlace) => string;
  readonly settings: NativeSource['settings'];
}

/** The statements that read the file, each of which refuses a file that it would not read as it is meant: the fastest one first. */
function nativeStatements({ shape, mapped, isProved }: Plan, native: NativeSource): NativeStatement[] {
  const { from, raws, format, settings } = native;
  const statement = (values: readonly string[], source: string, check: string) => (place: StagingPlace) =>
    `${insertText(mapped, { values, from: source }, place, check)} FORMAT ${format}`;
  const sql = rowSql(shape, mapped, raws, { source: from, isJsonChecked: false });
  if (isProved) return [{ sqlFor: statement(provedValuesOf(sql, raws), sql.from, '0'), settings }];
  const all = statement(valuesOf(sql), sql.from, `throwIf((${faultCount(sql)}) > 0)`);
  const usual = usualRow(shape, mapped, raws);
  return [
    ...(usual
      ? [
          {
            sqlFor: statement(usual.values, from, `throwIf(ifNull(${usual.fault}, 1))`),
            settings: { ...settings, ...usualSettings },
          },
        ]
      : []),
    { sqlFor: all, settings },
  ];
}

/** Texts are taken as they are. */
function provedValuesOf({ columns }: RowSql, raws: readonly RawColumn[]): readonly string[] {
  return columns.map(({ mapped: { column, source }, value }) => {
    const raw = raws.find(({ file }) => file.name === source?.name);
    return raw?.file.type.kind === 'STRING' && isPlainText(column.type) ? raw.name : value;
  });
}

const isPlainText = ({ kind }: LogicalType): boolean => kind === 'CHAR' || kind === 'VARCHAR' || kind === 'STRING';

const valuesOf = ({ columns }: RowSql): readonly string[] => columns.map(({ value }) => value);

async function stageNative(
  server: ClickHouseServer,
  { shape }: Plan,
  { sqlFor, settings }: NativeStatement,
  { signal, progress, ...place }: StageOptions,
): Promise<void> {
  const sql = sqlFor(place);
  await withNativeData(shape, progress && ((fraction) => progress(fraction * readingPart)), (data) =>
    server.text({ sql, settings, data, timeoutMs: loadTimeoutMs, isOfCaller: true, signal }),
  );
}

/** `refused`: the error with which the servers refused the file. */
async function stageChecked(
  server: ClickHouseServer,
  work: FileLoad,
  plan: Plan,
  options: StageOptions,
  refused: unknown,
): Promise<number> {
  const { errorsMax } = work;
  const call = { timeoutMs: loadTimeoutMs, isOfCaller: true, signal: options.signal };
  const rejectedMax = errorsMax > 0 ? errorsMax + 1 : shownMax;
  let rows: CheckedRows;
  try {
    rows = await checkRows(server, { ...plan, rejectedMax, call });
  } catch (error) {
    throw serverFailure(error) instanceof ClickHouseError ? unreadable() : error;
  }
  try {
    if (rows.rejected.length > errorsMax) throw rejectedFailure(rows.rejected, errorsMax);
    await keepRejected(rows.rejected, work);
    await server.text({
      ...call,
      sql: `${insertText(plan.mapped, { values: valuesOf(rows.sql), from: rows.sql.from }, options, '0')} ${rows.where}`,
      settings: computeSettings,
    });
    return rows.rejected.length;
  } catch (error) {
    if (serverFailure(error) instanceof ClickHouseError) throw refused === undefined ? error : unreadable();
    throw error;
  } finally {
    await rows.drop().catch(() => undefined);
  }
}

const unreadable = () => dataInvalid('the file cannot be read in its format');

/** Written before the rows are inserted, so that a load that rejected rows always has the file that lists them. */
async function keepRejected(rejected: readonly RejectedRow[], { rejectsPath }: FileLoad): Promise<void> {
  if (rejected.length === 0) return;
  const path = `${rejectsPath}.${randomUUID()}`;
  try {
    await writeFile(path, rejected.map((row) => `${JSON.stringify(row)}\n`).join(''), { flush: true });
    await rename(path, rejectsPath);
  } finally {
    await rm(path, { force: true });
  }
}
