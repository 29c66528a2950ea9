// Statements of callers: analysis, execution, description and plan; and the texts of requests that become statements.
import type { SQLOutputValue } from 'node:sqlite';
import type { TableRef } from '../../../../src/engines/port/refs.ts';
import type {
  BuiltStatement,
  DescribedColumn,
  SqlFragment,
  StatementAnalysis,
  TableWrite,
} from '../../../../src/engines/port/statements.ts';
import { formatType, type LogicalType } from '../../../../src/model/types.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import {
  argumentsOf,
  type BoundStatement,
  bindStatement,
  type StatementCall,
  toSqlInvalid,
} from './bound_statement.ts';
import type { Call } from './calls.ts';
import { appliedStep, Connection, recordStep, type Writer } from './database.ts';
import { quoted, requireEnclosed, requireOneStatement, sqlInvalid, withoutSemicolon } from './sql_text.ts';
import { constraintText } from './tables.ts';
import { type Numbers, storedJson } from './values.ts';

export interface ExecuteCall {
  readonly statement: StatementCall;
  /** The token of the analysis by which the statement was authorized. */
  readonly token: string;
  readonly numbers: Numbers;
  readonly rowsMax?: number | undefined;
  readonly step?: string | undefined;
}

export interface ExecuteEnd {
  readonly rowCount: number;
  readonly truncated: boolean;
  readonly repeated?: boolean;
  readonly returned?: boolean;
  readonly plan?: string;
}

/** The definitions have changed since the analysis. */
export class Stale extends Error {}

/** Runs work on a connection that sees the file as of one instant. */
export async function reading<T>(file: string, work: (on: Connection) => T | Promise<T>): Promise<T> {
  const on = new Connection(file, { readOnly: true });
  try {
    on.db.exec('BEGIN');
    return await work(on);
  } finally {
    on.close();
  }
}

export const analyze = (file: string, statement: StatementCall): Promise<StatementAnalysis> =>
  reading(file, (on) => bindStatement(on, statement).analysis);

export const describe = (file: string, statement: StatementCall): Promise<readonly DescribedColumn[]> =>
  reading(file, (on) =>
    bindStatement(on, statement).columns.map(({ name, logical }) => ({
      name,
      type: logical === undefined ? 'ANY' : formatType(logical),
      ...(logical === undefined ? {} : { logical }),
    })),
  );

export const explain = (file: string, statement: StatementCall): Promise<string> =>
  reading(file, (on) => planOf(on, statement));

function planOf(on: Connection, call: StatementCall): string {
  const { statement } = bindStatement(on, call, 'EXPLAIN QUERY PLAN');
  // A plan does not depend on the values of parameters, which may be missing.
  const plan = call.parameters === undefined ? statement.all() : statement.all(...argumentsOf(call));
  const lines = plan.map(({ detail }) => String(detail));
  return lines.join('\n') || 'no table is read';
}

/** How many rows are read before other calls get their turn. */
const rowsPerTurn = 1000;

export async function executeSelect(file: string, work: ExecuteCall, call: Call): Promise<ExecuteEnd> {
  return await reading(file, async (on) => {
    const bound = boundAsAnalyzed(on, work);
    const { statement } = bound;
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
    const rowsMax = work.rowsMax ?? Number.POSITIVE_INFINITY;
    let rowCount = 0;
    let lines: string[] = [];
    const rows = statement.iterate(...argumentsOf(work.statement)) as unknown as Iterable<SQLOutputValue[]>;
    try {
      for (const row of rows) {
        if (rowCount === 0) await call.send(columnsLine(bound, row));
        if (rowCount === rowsMax) {
          await call.send(lines.join(''));
          return { rowCount, truncated: true };
        }
        lines.push(rowLine(bound, row, work.numbers));
        if (++rowCount % rowsPerTurn !== 0) continue;
        await call.send(lines.join(''));
        lines = [];
        await call.turn();
      }
    } catch (error) {
      throw toSqlInvalid(error);
    }
    if (rowCount === 0) await call.send(columnsLine(bound, []));
    await call.send(lines.join(''));
    return { rowCount, truncated: false };
  });
}

export async function executeWrite(writer: Writer, work: ExecuteCall, call: Call): Promise<ExecuteEnd> {
  const { catalog } = work.statement;
  let lines = '';
  const end = await writer.transaction(
    () => call.requireNotCancelled(),
    (on): ExecuteEnd => {
      const step = call.takeStep() ?? work.step;
      const applied = step === undefined ? undefined : appliedStep(on, catalog, step);
      if (applied) return { rowCount: applied.rowCount ?? 0, truncated: false, repeated: true };
      const bound = boundAsAnalyzed(on, work);
      const { statement, columns } = bound;
      statement.setReadBigInts(true);
      const values = argumentsOf(work.statement);
      let rowCount: number;
      if (columns.length === 0) rowCount = Number(changing(() => statement.run(...values)).changes);
      else {
        statement.setReturnArrays(true);
        const rows = changing(() => statement.all(...values)) as unknown as SQLOutputValue[][];
        rowCount = rows.length;
        lines = columnsLine(bound, rows[0] ?? []);
        for (const row of rows) lines += rowLine(bound, row, work.numbers);
      }
      if (step !== undefined) recordStep(on, catalog, step, rowCount);
      return { rowCount, truncated: false, ...(columns.length === 0 ? {} : { returned: true }) };
    },
  );
  await call.send(lines);
  return end;
}

/** A failed constraint is the caller's error, as is a value that SQLite cannot compute. */
function changing<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof Error && /constraint failed/.test(error.message)) {
      const message = constraintText(error);
      throw new Failure('CONSTRAINT_VIOLATED', message, { engineMessage: message });
    }
    throw toSqlInvalid(error);
  }
}

/** Throws Stale. */
function boundAsAnalyzed(on: Connection, { statement, token }: ExecuteCall): BoundStatement {
  let bound: BoundStatement;
  try {
    bound = bindStatement(on, statement);
  } catch (error) {
    // It was valid when it was analyzed.
    throw error instanceof Failure ? new Stale() : error;
  }
  if (bound.analysis.token !== token) throw new Stale();
  return bound;
}

const rowLine = ({ columns }: BoundStatement, row: readonly SQLOutputValue[], numbers: Numbers): string =>
  `[${row.map((value, i) => storedJson(columns[i]?.logical, value, numbers)).join(',')}]\n`;

/** The type of an expression is that of its first value. */
function columnsLine({ columns }: BoundStatement, firstRow: readonly SQLOutputValue[]): string {
  const named = columns.map(({ name, logical }, i) => ({
    name,
    type: formatType(logical ?? typeOfValue(firstRow[i] ?? null)),
  }));
  return `${JSON.stringify({ columns: named })}\n`;
}

function typeOfValue(value: SQLOutputValue): LogicalType {
  if (typeof value === 'bigint') return { kind: 'BIGINT' };
  if (typeof value === 'number') return { kind: 'DOUBLE' };
  return { kind: value instanceof Uint8Array ? 'BINARY' : 'STRING' };
}

const qualified = ({ catalog, database, table }: TableRef) => [catalog.name, database, table].map(quoted).join('.');

/** Each part of a request begins on a line of its own. */
export function buildStatement(write: TableWrite): BuiltStatement {
  let sql = '';
  const parts: { pointer: string; line: number }[] = [];
  const add = ({ pointer, text }: SqlFragment, open = '(', close = ')') => {
    sql += `${open}\n`;
    parts.push({ pointer, line: sql.split('\n').length });
    sql += `${text}\n${close}`;
  };
  if (write.kind === 'insert') {
    requireOneStatement(write.query.text);
    const columns = write.columns ? ` (${write.columns.map(quoted).join(', ')})` : '';
    sql = `INSERT INTO ${qualified(write.table)}${columns} `;
    add({ ...write.query, text: withoutSemicolon(write.query.text) }, '', '');
    return { sql, parts };
  }
  const fragments = [...(write.kind === 'update' ? write.set.map(({ value }) => value) : []), write.where];
  for (const fragment of fragments) requireEnclosed(fragment.text);
  sql = `${write.kind === 'delete' ? 'DELETE FROM' : 'UPDATE'} ${qualified(write.table)}`;
  for (const [i, { column, value }] of (write.kind === 'update' ? write.set : []).entries()) {
    sql += `${i === 0 ? ' SET' : ','} ${quoted(column)} = `;
    add(value);
  }
  sql += ' WHERE ';
  add(write.where);
  return { sql, parts };
}

/** Throws SQL_INVALID if the text cannot be the default of a column of this type. */
export function requireDefault(check: () => unknown): void {
  try {
    check();
  } catch (error) {
    throw error instanceof Failure ? error : sqlInvalid(error instanceof Error ? error.message : String(error));
  }
}
