// Statements and fragments of callers before they run: what they read and write, their columns, and the objects that they define.

import { Failure } from '../../../standard/failure.ts';
import { Admission, type AdmissionLimits } from '../../admission.ts';
import type { EngineWarehouse } from '../../port/engine.ts';
import type { TableRef } from '../../port/refs.ts';
import { type ExecuteOptions, StaleAnalysis, type Statement } from '../../port/statements.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import { requireTable } from '../cluster/missing_tables.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import {
  type BindStatement,
  type BoundStatement,
  type BoundWrite,
  LocalReadRefused,
  type RememberedStatement,
} from '../query/bound_statement.ts';
import { parseCreateView } from '../sql/parse_create_view.ts';
import { scanTableNames } from '../sql/table_names.ts';
import { tokensOf } from '../sql/tokens.ts';
import { buildStatement } from './build_statement.ts';
import { parseCreateTable } from './create_table.ts';
import { checkDefault } from './default_expression.ts';
import { type CallOptions, describedColumn, describeQuery, readerOf } from './described_query.ts';
import { rowsQuery, type TargetColumn } from './reading_query.ts';
import type { ReadOptions, ReadStatement } from './statement_reader.ts';
import type { StoredObject } from './stored_objects.ts';
import { readViewQuery } from './view_query.ts';

export type AnalysisMethods = Pick<
  EngineWarehouse,
  | 'analyze'
  | 'tableNamesIn'
  | 'describe'
  | 'readView'
  | 'parseCreateView'
  | 'parseCreateTable'
  | 'checkDefault'
  | 'buildStatement'
>;

/** Analyses ask servers only for short answers, so that a few at once are enough. */
const admissionLimits: AdmissionLimits = { queriesMax: 16, queueMax: 10_000, queueWaitMs: 30_000 };

const callTimeoutMs = 10_000;
const whole = { isWhole: true } as const;

export const analysisOf = (context: WarehouseContext): AnalysisMethods => {
  const admission = new Admission();
  const onServer = <T>(
    signal: AbortSignal | undefined,
    work: (server: ClickHouseServer, signal: AbortSignal) => Promise<T>,
  ) => context.run(signal, (runSignal) => context.cluster.onAny((server) => work(server, runSignal), whole));
  const read = (statement: Statement, options: ReadOptions = {}) =>
    onServer(options.signal, (server, signal) => readerOf(context).read(server, statement, { ...options, signal }));
  return {
    analyze: (statement, request) =>
      admission.run(admissionLimits, request, async () => (await read(statement, { signal: request.signal })).analysis),
    tableNamesIn: async (sql) => tableNamesIn(sql),
    describe: (statement) =>
      onServer(undefined, async (server, signal) => {
        const bound = await readerOf(context).read(server, statement, { signal, isUnknownNull: true });
        return (await describeQuery(server, bound, { signal, timeoutMs: callTimeoutMs })).map(describedColumn);
      }),
    readView: (statement) =>
      onServer(undefined, async (server, signal) => {
        const { columns, sources } = await readViewQuery(server, context, statement, signal);
        return {
          columns: columns.map((column) => ({ name: column.name, type: describedColumn(column).type })),
          sources,
        };
      }),
    parseCreateView: async (sql) => parseCreateView(sql),
    parseCreateTable: (sql) => onServer(undefined, (server, signal) => parseCreateTable(server, sql, signal)),
    checkDefault: (expression, type) =>
      onServer(undefined, (server, signal) => checkDefault(server, expression, type, signal)),
    buildStatement: (write) => onServer(undefined, (server, signal) => buildStatement(server, write, signal)),
  };
};

/** A text that cannot be read names nothing: its failure says nothing about tables. */
export function tableNamesIn(sql: string): readonly (readonly string[])[] {
  try {
    return scanTableNames(tokensOf(sql)).tables.map(({ parts }) => parts);
  } catch {
    return [];
  }
}

export const bindStatement: BindStatement = async (context, statement, { signal, timeoutMs }) =>
  context.run(signal, (runSignal) =>
    context.cluster.onAny((server) => bindOn(server, context, statement, { signal: runSignal, timeoutMs }), whole),
  );

/**
 * Binds a statement that reads to what its analysis found, and says how to ask whether that is still so. Undefined if what it found is not
 * remembered, or if the statement writes. Throws StaleAnalysis.
 */
export async function bindRemembered(
  context: WarehouseContext,
  statement: Statement,
  { analysis: { kind, token }, signal, timeoutMs }: CallOptions & Pick<ExecuteOptions, 'analysis' | 'signal'>,
): Promise<RememberedStatement | undefined> {
  const reader = readerOf(context);
  const known = kind === 'select' ? reader.objectsOf(token) : undefined;
  if (!known) return undefined;
  const bind = async (isLocal: boolean) => {
    const bound = await context.cluster.onAny(
      (server) => bindOn(server, context, statement, { signal, timeoutMs }, { known, isLocal }),
      whole,
    );
    if (bound.analysis.token !== token) throw new StaleAnalysis();
    return bound;
  };
  const distributed = async (): Promise<RememberedStatement> => ({
    bound: await bind(false),
    confirm: async () => {
      const isCurrent = await context.cluster.onAny((server) => reader.isCurrent(server, token, known), whole);
      if (!isCurrent) throw new StaleAnalysis();
    },
  });
  const table = reader.localReadOf(known);
  if (!table || !(await context.cluster.eachHasAllRows())) return distributed();
  return {
    bound: await bind(true),
    confirm: async (backend) => {
      const server = context.cluster.member(backend)?.counted;
      const isCurrent = server !== undefined && (await reader.isLocalCurrent(server, table));
      // Servers may have been registered, with shards of their own, since the statement began.
      if (!isCurrent || !(await context.cluster.eachHasAllRows())) throw new LocalReadRefused();
    },
    distributed,
  };
}

async function bindOn(
  server: ClickHouseServer,
  context: WarehouseContext,
  statement: Statement,
  options: CallOptions,
  read: Pick<ReadOptions, 'known' | 'isLocal'> = {},
): Promise<BoundStatement> {
  const bound = await readerOf(context).read(server, statement, { ...read, signal: options.signal });
  const { analysis, rewritten, toFailure } = bound;
  const common = { analysis, parameters: rewritten.parameters, toFailure: (error: unknown) => toFailure(error) };
  if (bound.shape.kind === 'select') return { ...common, sql: bound.query?.text ?? '' };
  return { ...common, sql: '', write: await writeOf(server, context, bound, options) };
}

async function writeOf(
  server: ClickHouseServer,
  context: WarehouseContext,
  { shape, rewritten, target, tokens, varyingFunctions }: ReadStatement,
  options: CallOptions,
): Promise<BoundWrite> {
  if (!target || shape.kind === 'select') throw new Error('the statement writes nothing');
  const table = await tableRef(context, target);
  if (shape.kind === 'insert') {
    const columns = await targetColumns(server, target, shape.columns, options);
    const query =
      shape.source.kind === 'query'
        ? rewritten.text(shape.source.query).text
        : rowsQuery(shape.source.rows, columns, rewritten, tokens);
    return { kind: 'insert', table, columns: columns.map(({ name }) => name), query };
  }
  requireEqualCopies(context, shape.kind, varyingFunctions);
  const where = shape.where ? rewritten.text(shape.where).text : '1';
  if (shape.kind === 'delete') return { kind: 'delete', table, where };
  const set = shape.assignments.map(({ column, value }) => ({ column, value: rewritten.text(value).text }));
  return { kind: 'update', table, set, where };
}

/** Each server that has a copy of the rows computes the new values, and which rows are changed, itself. */
function requireEqualCopies(
  { cluster }: WarehouseContext,
  kind: 'update' | 'delete',
  varying: readonly string[],
): void {
  const [name] = varying;
  if (name === undefined || (!cluster.isReplicated && cluster.replicasOfShard === 1)) return;
  const message = `${kind.toUpperCase()} cannot use ${name} where rows have copies, which would become different; pass the value as a parameter`;
  throw new Failure('SQL_NOT_SUPPORTED', message);
}

/** The columns that the rows of an INSERT have. */
async function targetColumns(
  server: ClickHouseServer,
  { stored }: StoredObject,
  wanted: readonly string[] | undefined,
  options: CallOptions,
): Promise<readonly TargetColumn[]> {
  const all = await server.rows<TargetColumn>({
    sql:
      'SELECT name, type FROM system.columns WHERE database = {database:String} AND table = {table:String} ' +
      `AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY position`,
    parameters: { database: stored.database, table: stored.table },
    ...options,
  });
  if (all.length === 0) await requireTable(server, stored);
  if (!wanted) return all;
  return wanted.map((name) => {
    const exact = all.find((column) => column.name === name);
    const folded = exact ?? all.find((column) => column.name.toLowerCase() === name.toLowerCase());
    if (!folded) throw sqlInvalid(`the table has no column ${JSON.stringify(name)}`, '', undefined);
    return folded;
  });
}

async function tableRef({ options }: WarehouseContext, { name }: StoredObject): Promise<TableRef> {
  const catalogs = await options.catalogs();
  const catalog = catalogs.find((one) => one.name.toLowerCase() === name.catalog.toLowerCase());
  return { catalog: catalog ?? { id: '', name: name.catalog }, database: name.database, table: name.table };
}
