// Inserts rows that the server has validated, all or none, together with the steps of their requests.

import type { TableRef } from '../../../../src/engines/port/refs.ts';
import type { InsertStep, RowsBatch } from '../../../../src/engines/port/rows.ts';
import type { ColumnDefinition, TableDefinition } from '../../../../src/model/records.ts';
import { Failure, type Violation, violationsFailure } from '../../../../src/standard/failure.ts';
import { appliedStep, type Connection, fileName, recordStep, requireTable } from './database.ts';
import { quoted } from './sql_text.ts';
import { constraintText, defaultSql } from './tables.ts';
import { encode } from './values.ts';

export interface InsertCall {
  readonly table: TableRef;
  readonly batch: RowsBatch;
  readonly definition: TableDefinition;
  readonly steps: readonly InsertStep[];
}

/** Returns the number of rows. */
export function insertRows(on: Connection, { table, batch, definition, steps }: InsertCall): number {
  if (!recordSteps(on, table, batch, steps)) return batch.rowCount;
  const { id } = requireTable(on, table);
  const omitted = new Map(batch.omitted?.map(({ column, rows }) => [column, new Set(rows)]));
  const violations: Violation[] = [];
  const rows = JSON.parse(batch.json) as readonly (readonly unknown[])[];
  const inserts = new Map<string, ReturnType<typeof insertInto>>();
  for (const [index, row] of rows.entries()) {
    const defaults = batch.columns.map((_, c) => omitted.get(c)?.has(index) ?? false);
    const key = defaults.join();
    let insert = inserts.get(key);
    if (!insert) {
      insert = insertInto(on, fileName(id), batch.columns, defaults);
      inserts.set(key, insert);
    }
    try {
      const given = batch.columns.flatMap(({ type }, c) => (defaults[c] ? [] : [encode(type, row[c])]));
      insert.run(...given);
    } catch (error) {
      const message = constraintText(error);
      violations.push({ pointer: `/rows/${index}`, rule: ruleOf(message, definition), message });
    }
  }
  if (violations.length > 0)
    throw violationsFailure('CONSTRAINT_VIOLATED', 'rows violate a key of the table; nothing was inserted', violations);
  return rows.length;
}

function ruleOf(message: string, { primaryKey, uniqueKey }: TableDefinition): string {
  if (message.includes(`(${primaryKey.join(', ')})`)) return 'primaryKey';
  return message.includes(`(${uniqueKey.join(', ')})`) ? 'uniqueKey' : 'value';
}

function insertInto(
  on: Connection,
  table: string,
  columns: readonly ColumnDefinition[],
  isDefault: readonly boolean[],
) {
  const names = columns.map(({ name }) => quoted(name)).join(', ');
  const values = columns.map(({ defaultValue, type }, c) => {
    if (!isDefault[c]) return '?';
    return defaultValue === undefined ? 'NULL' : defaultSql(on, defaultValue, type);
  });
  return on.db.prepare(`INSERT INTO ${table} (${names}) VALUES (${values.join(', ')})`);
}

/** Returns false if all rows were inserted before. Throws CHANGE_IN_PROGRESS if only some were. */
function recordSteps(
  on: Connection,
  { catalog }: TableRef,
  { rowCount }: RowsBatch,
  steps: readonly InsertStep[],
): boolean {
  const added = steps.filter(({ step }) => !appliedStep(on, catalog, step));
  if (added.length < steps.length) {
    const keyedRows = steps.reduce((sum, step) => sum + step.rowCount, 0);
    if (added.length === 0 && keyedRows === rowCount) return false;
    throw new Failure('CHANGE_IN_PROGRESS', 'some of the inserts were already completed');
  }
  for (const { step, rowCount: rows } of added) recordStep(on, catalog, step, rows);
  return true;
}
