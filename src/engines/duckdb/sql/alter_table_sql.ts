// How one definition of a table becomes another: in place where DuckDB can, else by writing the table again. Decides and writes
// SQL; apply_change.ts runs it in a transaction.
import { randomUUID } from 'node:crypto';
import type { ColumnDefinition, TableDefinition } from '../../../model/records.ts';
import { formatType } from '../../../model/types.ts';
import type { TableRef } from '../../engine.ts';
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

/** How much of the table's data an alteration touches. */
export type Work = 'none' | 'reads' | 'writes';

export interface AlterationPlan {
  /** Whether the table is written again as a whole. */
  readonly rewrite: boolean;
  readonly work: Work;
  /** Needs the names of the table's indexes, as they are inside the transaction. */
  readonly statements: (indexNames: readonly string[]) => string[];
  readonly touchesIndex: boolean;
}

interface ColumnPair {
  readonly column: ColumnDefinition;
  /** What holds the column's data so far; absent: the column is new. */
  readonly origin?: ColumnDefinition;
}

/** Each column of the new definition with the old one that it continues. */
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

const retyped = ({ column, origin }: ColumnPair): boolean =>
  origin !== undefined && duckdbType(column.type) !== duckdbType(origin.type);

/** As DuckDB's parser sees it: `true` and DATE '...' are casts there. */
const literal = /^\s*(?:[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|'(?:[^']|'')*')\s*$/;

function needsRewrite({ from, to }: Alteration, pairs: readonly ColumnPair[]): boolean {
  const kept = pairs.filter((pair) => pair.origin !== undefined);
  if (kept.length === 0) return true;
  // DuckDB adds at the end, and cannot move a column.
  const keptInOldOrder = from.columns.flatMap((old) => kept.find((pair) => pair.origin === old) ?? []);
  if (pairs.some((pair, i) => i < kept.length && pair !== keptInOldOrder[i])) return true;

  const newName = new Map(kept.map((pair) => [pair.origin!.name, pair.column.name]));
  if (
    !sameList(
      from.primaryKey.map((name) => newName.get(name)),
      to.primaryKey,
    )
  )
    return true;
  // DuckDB changes no type under an index, not even one dropped in the same transaction.
  const indexed = new Set([...from.primaryKey, ...from.uniqueKey]);
  if (kept.some((pair) => retyped(pair) && indexed.has(pair.origin!.name))) return true;
  // A default that is more than a literal is filled in by an UPDATE, after which the transaction can alter nothing else.
  const added = pairs.filter((pair) => pair.origin === undefined);
  if (added.some(({ column }) => column.defaultValue !== undefined && !literal.test(column.defaultValue))) return true;
  // DuckDB does not add, drop or change the CHECK that keeps a length.
  return pairs.some(({ column, origin }) => lengthOf(column) !== (origin && lengthOf(origin)));
}

function planRewrite({ table, from, to }: Alteration, pairs: readonly ColumnPair[]): AlterationPlan {
  const successor: TableRef = { ...table, table: `__tabularium_${randomUUID()}` };
  // A new column is left out, and so gets its default, unless nothing else carries the rows.
  const kept = pairs.filter((pair) => pair.origin !== undefined);
  const filled = kept.length > 0 ? kept : pairs.slice(0, 1);
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
  const kept = new Set(pairs.flatMap((pair) => pair.origin ?? []));
  const statements = from.columns
    .filter((c) => !kept.has(c))
    .map((c) => `${alter} DROP COLUMN ${quoteIdentifier(c.name)}`);
  statements.push(...renameTexts(alter, pairs));
  let work: Work = 'none';
  for (const pair of pairs) {
    const { column, origin } = pair;
    const name = quoteIdentifier(column.name);
    const fallback = column.defaultValue === undefined ? undefined : `(${column.defaultValue})`;
    if (origin === undefined) {
      statements.push(
        `${alter} ADD COLUMN ${name} ${duckdbType(column.type)}${fallback ? ` DEFAULT ${fallback}` : ''}`,
      );
      work = fallback ? 'writes' : atLeastReads(work);
    } else {
      if (retyped(pair)) {
        statements.push(`${alter} ALTER COLUMN ${name} SET DATA TYPE ${duckdbType(column.type)}`);
        work = 'writes';
      }
      if (column.defaultValue !== origin.defaultValue) {
        statements.push(`${alter} ALTER COLUMN ${name} ${fallback ? `SET DEFAULT ${fallback}` : 'DROP DEFAULT'}`);
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
  // An index forbids to alter its table, so it goes first and is made again last.
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

/** By way of names that nothing has, where new names are old ones too: a and b may change places, or only their case. */
function renameTexts(alter: string, pairs: readonly ColumnPair[]): string[] {
  const renames = pairs.flatMap(({ column, origin }) =>
    origin !== undefined && origin.name !== column.name ? [{ from: origin.name, to: column.name }] : [],
  );
  const text = (from: string, to: string): string =>
    `${alter} RENAME COLUMN ${quoteIdentifier(from)} TO ${quoteIdentifier(to)}`;
  const oldNames = new Set(pairs.flatMap(({ origin }) => (origin ? [origin.name.toLowerCase()] : [])));
  if (!renames.some((r) => oldNames.has(r.to.toLowerCase()))) return renames.map((r) => text(r.from, r.to));
  const between = renames.map(() => `__tabularium_${randomUUID()}`);
  return [...renames.map((r, i) => text(r.from, between[i]!)), ...renames.map((r, i) => text(between[i]!, r.to))];
}

const atLeastReads = (work: Work): Work => (work === 'none' ? 'reads' : work);

function sameList(a: readonly (string | undefined)[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, i) => name === b[i]);
}
