// The operations that servers call, by name: the types of their arguments and values, and what they do.

import type { ArgumentOf, DirectOperations, MethodName, ValueOf } from '../../../../src/engines/derived_engine.ts';
import type { CatalogFault, TableComparison } from '../../../../src/engines/port/catalog_storage.ts';
import type { FileLoadResult } from '../../../../src/engines/port/load.ts';
import type { CatalogRef, TableName, TableRef } from '../../../../src/engines/port/refs.ts';
import type { DescribedColumn, StatementAnalysis } from '../../../../src/engines/port/statements.ts';
import type { ExpectedTable } from '../../../../src/model/expected_table.ts';
import { foldName } from '../../../../src/model/names.ts';
import { formatType, type LogicalType } from '../../../../src/model/types.ts';
import type { StatementCall } from './bound_statement.ts';
import type { Call } from './calls.ts';
import { applyChange, type ChangeCall } from './changes.ts';
import { checksumTable } from './checksum.ts';
import { parseCreateTable } from './create_table.ts';
import {
  appliedStep,
  type Connection,
  copySteps,
  fileName,
  findTable,
  forgetSteps,
  recordedSteps,
  requireTable,
  tablesOf,
  type Writer,
} from './database.ts';
import { type LoadCall, load } from './loads.ts';
import { type InsertCall, insertRows } from './rows.ts';
import { namedTables, requireEnclosed } from './sql_text.ts';
import {
  analyze,
  buildStatement,
  describe,
  type ExecuteCall,
  type ExecuteEnd,
  executeSelect,
  executeWrite,
  explain,
  reading,
  requireDefault,
} from './statements.ts';
import { defaultSql } from './tables.ts';

/** Methods of the port that the adapter passes on as they are. A method in this table needs no other change in this engine. */
export const directOperations = {
  tableNamesIn: (_engine, sql) => namedTables(sql).map(({ parts }) => parts),
  buildStatement: (_engine, write) => buildStatement(write),
  parseCreateTable: (_engine, sql) => parseCreateTable(sql),
  tableStatistics: ({ file }, table) => reading(file, (on) => statisticsOf(on, table)),
  checksumTable: ({ file }, table) => reading(file, (on) => checksumTable(on, table)),
  recordedSteps: ({ file }, page) => reading(file, (on) => recordedSteps(on, page)),
  recordSteps: (engine, { catalog, steps }, call) => writing(engine, call, (on) => copySteps(on, catalog, steps)),
  readWholeTable: ({ file }, table) => reading(file, (on) => readAll(on, table)),
} satisfies {
  readonly [K in MethodName]?: (
    engine: Engine,
    argument: ArgumentOf<K>,
    call: Call,
  ) => Promise<ValueOf<K>> | ValueOf<K>;
};
export type DirectName = keyof typeof directOperations;

interface CatalogCall {
  readonly catalog: CatalogRef;
}

export interface Operations extends DirectOperations<DirectName> {
  status: [null, { readonly version: string; readonly dataBytes: number }];
  apply: [ChangeCall, null];
  forget: [CatalogCall & { readonly steps: readonly string[] }, null];
  rowsOfStep: [CatalogCall & { readonly step: string }, number | null];
  analyze: [StatementCall, StatementAnalysis];
  describe: [StatementCall, readonly DescribedColumn[]];
  explain: [StatementCall, string];
  select: [ExecuteCall, ExecuteEnd];
  write: [ExecuteCall, ExecuteEnd];
  checkDefault: [{ readonly expression: string; readonly type: LogicalType }, null];
  insertRows: [InsertCall, number];
  load: [LoadCall, FileLoadResult];
  optimize: [TableRef, null];
  compareTables: [CatalogCall & { readonly expected: readonly ExpectedTable[] }, TableComparison];
}
export type OperationName = keyof Operations;

/** What an operation works with. */
export interface Engine {
  readonly file: string;
  readonly writer: Writer;
  readonly version: string;
}

type Handlers = {
  readonly [K in OperationName]: (
    engine: Engine,
    argument: Operations[K][0],
    call: Call,
  ) => Promise<Operations[K][1]> | Operations[K][1];
};

const writing = <T>({ writer }: Engine, call: Call, work: (on: Connection) => T) =>
  writer.transaction(() => call.requireNotCancelled(), work);

export const operations: Handlers = {
  ...directOperations,
  status: ({ file, version }) => reading(file, (on) => ({ version, dataBytes: bytesOf(on) })),
  apply: async (engine, argument, call) => {
    await writing(engine, call, (on) => applyChange(on, argument));
    return null;
  },
  forget: async (engine, { catalog, steps }, call) => {
    await writing(engine, call, (on) => forgetSteps(on, catalog, steps));
    return null;
  },
  rowsOfStep: ({ file }, { catalog, step }) =>
    reading(file, (on) => {
      const applied = appliedStep(on, catalog, step);
      return applied ? (applied.rowCount ?? 0) : null;
    }),
  analyze: ({ file }, statement) => analyze(file, statement),
  describe: ({ file }, statement) => describe(file, statement),
  explain: ({ file }, statement) => explain(file, statement),
  select: ({ file }, work, call) => executeSelect(file, work, call),
  write: ({ writer }, work, call) => executeWrite(writer, work, call),
  checkDefault: async ({ file }, { expression, type }) => {
    requireEnclosed(expression);
    await reading(file, (on) => requireDefault(() => defaultSql(on, expression, type)));
    return null;
  },
  insertRows: (engine, argument, call) => writing(engine, call, (on) => insertRows(on, argument)),
  load: ({ writer }, work, call) => load(writer, work, call),
  optimize: async (engine, table, call) => {
    await writing(engine, call, (on) => on.db.exec(`ANALYZE ${fileName(requireTable(on, table).id)}`));
    return null;
  },
  compareTables: ({ file }, { catalog, expected }) => reading(file, (on) => compare(on, catalog, expected)),
};

function bytesOf(on: Connection): number {
  const pages = Number(on.row('PRAGMA page_count')?.page_count);
  return pages * Number(on.row('PRAGMA page_size')?.page_size);
}

function statisticsOf(on: Connection, table: TableRef) {
  const name = fileName(requireTable(on, table).id);
  const rowCount = Number(on.row(`SELECT count(*) AS n FROM ${name}`)?.n);
  // An estimate: SQLite reports pages of a table only with an extension.
  return { rowCount, dataBytes: Math.min(bytesOf(on), rowCount * 100) };
}

function readAll(on: Connection, table: TableRef): boolean {
  const found = findTable(on, table);
  if (found) on.row(`PRAGMA integrity_check(${fileName(found.id)})`);
  return found !== undefined;
}

function compare(on: Connection, catalog: CatalogRef, expected: readonly ExpectedTable[]): TableComparison {
  const stored = tablesOf(on, catalog);
  const faults = expected.flatMap(({ database, table, columns }): CatalogFault[] => {
    const found = findTable(on, { catalog, database, table });
    if (!found) return [{ kind: 'different', database, table, reason: 'the table does not exist' }];
    const textOf = (list: ExpectedTable['columns']) =>
      list.map(({ name, type }) => `${foldName(name)} ${formatType(type)}`).join(', ');
    if (textOf(columns) === textOf(found.definition.columns)) return [];
    return [{ kind: 'different', database, table, reason: 'the table has other columns' }];
  });
  const names = stored.map(({ name: { database, table } }): Omit<TableName, 'catalog'> => ({ database, table }));
  return { faults, tables: names };
}
