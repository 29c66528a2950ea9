// Plans how one definition of a table becomes another: in place if DuckDB can do that, otherwise by rewriting the table. Generates
// the SQL; apply_change.ts runs it in a transaction.
import { randomUUID } from 'node:crypto';
import type { ColumnDefinition, TableDefinition } from '../../../model/records.ts';
import { formatType } from '../../../model/types.ts';
import type { TableRef } from '../../port/refs.ts';
import { duckdbType } from '../types/type_mapping.ts';
import { qualifiedTable, quoteIdentifier } from './identifiers.ts';
import { createTableText, createUniqueKeyTexts, dropIndexText, lengthOf, nameList } from './table_ddl.ts';

export interface Alteration {
  readonly table: TableRef;
  readonly from: TableDefinition;
  readonly to: TableDefinition;
  readonly renamedColumns: Readonly<Record<string, string>>;
  readonly hidesRows?: boolean;
}

/** How much of the table's data an alteration reads or writes. */
export type DataAccess = 'none' | 'reads' | 'writes';

export interface AlterationPlan {
  /** Whether all rows are copied into a new table. */
  readonly rewrite: boolean;
  readonly work: DataAccess;
  /** `indexNames`: the names of the table's indexes, as the transaction sees them. */
  readonly statements: (indexNames: readonly string[]) => string[];
  readonly touchesIndex: boolean;
}

interface ColumnPair {
  readonly column: ColumnDefinition;
  /** The column that holds the data so far; absent if the column is new. */
  readonly origin?: ColumnDefinition;
}

/** Pairs each column of the new definition with its column in the old one. */
export function pairColumns({ from, to, renamedColumns }: Omit<Alteration, 'table'>): ColumnPair[] {
  const byNewName = new Map<string, ColumnDefinition>();
  const isRenamed = (name: string): boolean => Object.hasOwn(renamedColumns, name) && renamedColumns[name] !== name;
  for (const column of from.columns) if (isRenamed(column.name)) byNewName.set(renamedColumns[column.name]!, column);
  for (const column of from.columns) {
    if (!isRenamed(column.name) && !byNewName.has(column.name)) byNewName.set(column.name, column);
  }
  return to.columns.map((column) => {
    const origin = byNewName.get(column.name);
    return origin === undefined ? { column } : { column, origin };
  });
}

export function planAlteration(alteration: Alteration): AlterationPlan {
  const pairs = pairColumns(alteration);
  return needsRewrite(alteration, pairs) ? planRewrite(alteration, pairs) : planInPlace(alteration, pairs);
}

const changesType = ({ column, origin }: ColumnPair): boolean =>
  origin !== undefined && duckdbType(column.type) !== duckdbType(origin.type);

/** Only what DuckDB's parser treats as a literal: it parses `true` and DATE '...' as casts. */
const literal = /^\s*(?:[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|'(?:[^']|'')*')\s*$/;

function needsRewrite({ from, to }: Alteration, pairs: readonly ColumnPair[]): boolean {
  const retained = pairs.filter((pair) => pair.origin !== undefined);
  if (retained.length === 0) return true;
  // DuckDB adds columns at the end and cannot move them.
  const retainedInOldOrder = from.columns.flatMap((old) => retained.find((pair) => pair.origin === old) ?? []);
  if (pairs.some((pair, i) => i < retained.length && pair !== retainedInOldOrder[i])) return true;

  const newName = new Map(retained.map((pair) => [pair.origin!.name, pair.column.name]));
  if (
    !sameList(
      from.primaryKey.map((name) => newName.get(name)),
      to.primaryKey,
    )
  )
    return true;
  // DuckDB cannot change the type of an indexed column, even if the index is dropped in the same transaction.
  const indexed = new Set([...from.primaryKey, ...from.uniqueKey]);
  if (retained.some((pair) => changesType(pair) && indexed.has(pair.origin!.name))) return true;
  // Any other default is filled in by an UPDATE, after which the transaction cannot alter anything else.
  const added = pairs.filter((pair) => pair.origin === undefined);
  if (added.some(({ column }) => column.defaultValue !== undefined && !literal.test(column.defaultValue))) return true;
  // DuckDB cannot add, drop or change the CHECK that enforces a length.
  return pairs.some(({ column, origin }) => lengthOf(column) !== (origin && lengthOf(origin)));
}

function planRewrite({ table, from, to }: Alteration, pairs: readonly ColumnPair[]): AlterationPlan {
  const successor: TableRef = { ...table, table: `__tabularium_${randomUUID()}` };
  // A new column is omitted and so gets its default, unless there is no other column to insert.
  const retained = pairs.filter((pair) => pair.origin !== undefined);
  const filled = retained.length > 0 ? retained : pairs.slice(0, 1);
  const values = filled.map(({ column, origin }) => {
    if (origin === undefined) return column.defaultValue === undefined ? 'NULL' : `(${column.defaultValue})`;
    const old = quoteIdentifier(origin.name);
    return formatType(origin.type) === formatType(column.type) ? old : `CAST(${old} AS ${duckdbType(column.type)})`;
  });
  return {
    rewrite: true,
    work: 'writes',
    touchesIndex: from.uniqueKey.length > 0,
    statements: () => [
      createTableText(successor, to, { ifNotExists: false }),
      `INSERT INTO ${qualifiedTable(successor)} (${nameList(filled.map((pair) => pair.column.name))}) ` +
        `SELECT ${values.join(', ')} FROM ${qualifiedTable(table)}`,
      `DROP TABLE ${qualifiedTable(table)}`,
      `ALTER TABLE ${qualifiedTable(successor)} RENAME TO ${quoteIdentifier(table.table)}`,
      ...createUniqueKeyTexts(table, to),
    ],
  };
}

function planInPlace(alteration: Alteration, pairs: readonly ColumnPair[]): AlterationPlan {
  const { table, from, to } = alteration;
  const alter = `ALTER TABLE ${qualifiedTable(table)}`;
  const retained = new Set(pairs.flatMap((pair) => pair.origin ?? []));
  const statements = from.columns
    .filter((c) => !retained.has(c))
    .map((c) => `${alter} DROP COLUMN ${quoteIdentifier(c.name)}`);
  statements.push(...renameTexts(alter, pairs));
  let work: DataAccess = 'none';
  for (const pair of pairs) {
    const { column, origin } = pair;
    const name = quoteIdentifier(column.name);
    const defaultText = column.defaultValue === undefined ? undefined : `(${column.defaultValue})`;
    if (origin === undefined) {
      statements.push(
        `${alter} ADD COLUMN ${name} ${duckdbType(column.type)}${defaultText ? ` DEFAULT ${defaultText}` : ''}`,
      );
      work = defaultText ? 'writes' : atLeastReads(work);
    } else {
      if (changesType(pair)) {
        statements.push(`${alter} ALTER COLUMN ${name} SET DATA TYPE ${duckdbType(column.type)}`);
        work = 'writes';
      }
      if (column.defaultValue !== origin.defaultValue) {
        statements.push(`${alter} ALTER COLUMN ${name} ${defaultText ? `SET DEFAULT ${defaultText}` : 'DROP DEFAULT'}`);
      }
    }
    if (column.nullable !== (origin?.nullable ?? true) && !to.primaryKey.includes(column.name)) {
      statements.push(`${alter} ALTER COLUMN ${name} ${column.nullable ? 'DROP NOT NULL' : 'SET NOT NULL'}`);
      work = atLeastReads(work);
    }
  }
  const newName = new Map(pairs.map((pair) => [pair.origin?.name, pair.column.name]));
  const sameKey = sameList(
    from.uniqueKey.map((name) => newName.get(name)),
    to.uniqueKey,
  );
  // DuckDB cannot alter an indexed table, so the index is dropped first and created again last.
  const touchesIndex = from.uniqueKey.length > 0 && (statements.length > 0 || !sameKey);
  const createKey = touchesIndex || !sameKey ? createUniqueKeyTexts(table, to) : [];
  if (createKey.length > 0) work = 'writes';
  return {
    rewrite: false,
    work,
    touchesIndex,
    statements: (indexNames) => [...indexNames.map((name) => dropIndexText(table, name)), ...statements, ...createKey],
  };
}

/** Renames through temporary names if a new name is also an old one: two columns may swap names, or change case only. */
function renameTexts(alter: string, pairs: readonly ColumnPair[]): string[] {
  const renames = pairs.flatMap(({ column, origin }) =>
    origin !== undefined && origin.name !== column.name ? [{ from: origin.name, to: column.name }] : [],
  );
  const text = (from: string, to: string): string =>
    `${alter} RENAME COLUMN ${quoteIdentifier(from)} TO ${quoteIdentifier(to)}`;
  const oldNames = new Set(pairs.flatMap(({ origin }) => (origin ? [origin.name.toLowerCase()] : [])));
  if (!renames.some((r) => oldNames.has(r.to.toLowerCase()))) return renames.map((r) => text(r.from, r.to));
  const temporaryNames = renames.map(() => `__tabularium_${randomUUID()}`);
  return [
    ...renames.map((r, i) => text(r.from, temporaryNames[i]!)),
    ...renames.map((r, i) => text(temporaryNames[i]!, r.to)),
  ];
}

const atLeastReads = (work: DataAccess): DataAccess => (work === 'none' ? 'reads' : work);

function sameList(a: readonly (string | undefined)[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, i) => name === b[i]);
}
