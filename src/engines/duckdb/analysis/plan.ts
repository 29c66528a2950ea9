// Reads the bound plan of a statement and reports what it would read and write. Everything in the plan must be known and allowed: a
// statement with an unknown operator, function or table is refused (fail closed).
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { StatementAnalysis } from '../../port/statements.ts';
import { ownSchema } from '../instance/applied_steps.ts';
import { filesRefused, isAboutFiles, offsetOfByte, refusedStatement, sqlInvalid } from '../instance/sql_errors.ts';
import { numberTooLarge, parseTree } from '../sql/default_expression.ts';
import { allowedFunctions, allowedTableFunctions, unboundFunctions } from '../sql/function_allowlist.ts';
import { refusedFunction } from '../sql/guarded_functions.ts';
import { refuseOtherStatement, refuseUnbindable, withParameters, writingWord } from '../sql/statement_checks.ts';
import { statementLimits } from '../sql/statement_limits.ts';

type Table = StatementAnalysis['reads'][number];
type Kind = StatementAnalysis['kind'];
/** A plan does not show which views were expanded. */
type PlanAnalysis = Omit<StatementAnalysis, 'token' | 'views'>;

interface SerializedPlan {
  readonly error: boolean;
  readonly error_type?: string;
  readonly error_message?: string;
  readonly position?: string;
  readonly plans?: readonly unknown[];
}

const operators = new Set(
  `PROJECTION FILTER GET DUMMY_SCAN EXPRESSION_GET EMPTY_RESULT AGGREGATE_AND_GROUP_BY WINDOW UNNEST LIMIT ORDER_BY TOP_N SAMPLE DISTINCT
COMPARISON_JOIN ANY_JOIN CROSS_PRODUCT POSITIONAL_JOIN ASOF_JOIN DELIM_JOIN DELIM_GET DEPENDENT_JOIN JOIN UNION EXCEPT INTERSECT
RECURSIVE_CTE MATERIALIZED_CTE CTE_REF PIVOT INSERT UPDATE DELETE MERGE_INTO`
    .split(/\s+/)
    .map((name) => `LOGICAL_${name}`),
);

const writers: Readonly<Record<string, Kind>> = {
  LOGICAL_INSERT: 'insert',
  LOGICAL_UPDATE: 'update',
  LOGICAL_DELETE: 'delete',
  LOGICAL_MERGE_INTO: 'merge',
};

/** Bounds the size of plans that are read; nobody writes larger ones by hand. */
const depthMax = 20_000;

/**
 * Throws SQL_INVALID, SQL_NOT_SUPPORTED or SQL_FORBIDDEN_FUNCTION. The connection must use the statement's namespace.
 * `unreviewed`: functions of the engine that have not been reviewed.
 */
export async function readPlan(
  connection: DuckDBConnection,
  sql: string,
  unreviewed: ReadonlySet<string>,
  parameterTypes: () => (placeholder: string) => string = () => () => 'VARCHAR',
): Promise<PlanAnalysis> {
  refuseOtherStatement(sql);
  refuseUnbindable(sql, (name) => unboundFunctions(name) || unreviewed.has(name));
  let plan = await serializePlan(connection, sql);
  // DuckDB cannot serialize a parameter without a type, nor one of a nested type, so the parameter is replaced by a cast: the rest of the
  // plan stays the same. Binding may fold a call on NULL, but the functions that the text calls were checked above, and tables remain.
  for (const castParameter of [
    (placeholder: string, type: string) => `CAST(${placeholder} AS ${type})`,
    (_: string, type: string) => `CAST(NULL AS ${type})`,
  ]) {
    if (!plan.error || plan.error_type !== 'internal') break;
    const types = parameterTypes();
    plan = await serializePlan(
      connection,
      withParameters(sql, (placeholder) => castParameter(placeholder, types(placeholder))),
    );
  }
  if (plan.error) throw planFailure(plan, sql);
  const [first, ...others] = plan.plans ?? [];
  if (first === undefined) throw sqlInvalid('the text contains no statement', sql, 0);
  if (others.length > 0)
    throw new Failure('SQL_NOT_SUPPORTED', 'a request runs a single statement, but the text contains several');
  const analysis = new PlanReader(sql).read(first);
  // INSERT ... ON CONFLICT is planned as a merge.
  return analysis.kind === 'merge' ? { ...analysis, kind: writingWord(sql) ?? 'merge' } : analysis;
}

async function serializePlan(connection: DuckDBConnection, sql: string): Promise<SerializedPlan> {
  const text = 'SELECT json_serialize_plan($1::VARCHAR, skip_null := true, skip_empty := true)';
  const [row] = (await connection.runAndReadAll(text, [sql])).getRows();
  const plan = parseTree<SerializedPlan>(String(row?.[0]));
  if (plan === undefined) throw sqlInvalid(numberTooLarge, sql, undefined);
  return plan;
}

const viewWriteError = /^(?:Can only (?:update|delete from|merge into) base tables?!?|[^\n]+ is not an table)$/;

function planFailure(plan: SerializedPlan, sql: string): Failure {
  const message = plan.error_message ?? 'the statement cannot be parsed';
  const type = plan.error_type ?? '';
  if (isAboutFiles(message)) return filesRefused();
  if (type === 'internal') {
    return new Failure(
      'SQL_NOT_SUPPORTED',
      'the statement cannot be analyzed; if a parameter has no evident type, cast it: CAST($1 AS INTEGER)',
    );
  }
  if (viewWriteError.test(message))
    return new Failure('SQL_NOT_SUPPORTED', 'a view cannot be written to; write to its tables');
  // A constant that a function rejects during planning, such as an invalid regular expression, is an error in the text.
  if (type === 'not implemented' || type === 'serialization') return refusedStatement(sql, message);
  return sqlInvalid(message, sql, plan.position === undefined ? undefined : offsetOfByte(sql, Number(plan.position)));
}

class PlanReader {
  readonly #sql: string;
  readonly #reads = new Map<string, Table>();
  readonly #writes = new Map<string, Table>();
  #kind: Kind = 'select';
  #tables = 0;

  constructor(sql: string) {
    this.#sql = sql;
  }

  read(plan: unknown): PlanAnalysis {
    // An explicit stack, because a plan can be nested deeper than the call stack allows.
    const stack: unknown[] = [plan];
    let nodes = 0;
    while (stack.length > 0) {
      const node = stack.pop();
      if (++nodes > depthMax * 1000)
        throw new Failure('SQL_NOT_SUPPORTED', 'the statement is too large to be analyzed');
      if (Array.isArray(node)) {
        for (const child of node) if (typeof child === 'object' && child !== null) stack.push(child);
      } else if (typeof node === 'object' && node !== null) {
        this.#visit(node as Record<string, unknown>);
        for (const child of Object.values(node)) if (typeof child === 'object' && child !== null) stack.push(child);
      }
    }
    return { kind: this.#kind, reads: [...this.#reads.values()], writes: [...this.#writes.values()] };
  }

  #visit(node: Record<string, unknown>): void {
    const { type } = node;
    if (typeof type === 'string' && type.startsWith('LOGICAL_')) this.#operator(type, node);
    if (typeof node.expression_class === 'string') this.#expression(node.expression_class, node);
  }

  #operator(type: string, node: Record<string, unknown>): void {
    if (!operators.has(type)) throw refusedStatement(this.#sql, type);
    const writer = writers[type];
    if (writer !== undefined) {
      this.#kind = writer;
      this.#add(this.#writes, node.table_info);
    }
    if (type === 'LOGICAL_PROJECTION' && Array.isArray(node.expressions))
      this.#requireAtMost(statementLimits.selectColumns, node.expressions.length, 'columns of a SELECT');
    if (type !== 'LOGICAL_GET') return;
    this.#requireAtMost(statementLimits.plannedTables, ++this.#tables, 'tables');
    if (node.name === 'seq_scan') this.#add(this.#reads, node.function_data);
    else if (typeof node.name !== 'string' || !allowedTableFunctions.has(node.name)) throw forbiddenFunction(node.name);
  }

  #expression(kind: string, node: Record<string, unknown>): void {
    if (kind === 'BOUND_FUNCTION' || kind === 'BOUND_AGGREGATE') {
      if (typeof node.name !== 'string' || !allowedFunctions.has(node.name)) throw forbiddenFunction(node.name);
      const message = node.name === 'error' ? constantIn(node.children) : undefined;
      const refused = refusedFunction(message);
      if (refused !== undefined) throw new Failure('SQL_FORBIDDEN_FUNCTION', String(message), { function: refused });
    } else if (kind === 'BOUND_WINDOW') {
      if (node.type === 'WINDOW_AGGREGATE' && (typeof node.name !== 'string' || !allowedFunctions.has(node.name)))
        throw forbiddenFunction(node.name);
    } else if (kind === 'BOUND_CAST' && isVariantOfJson(node)) {
      // The cast is recursive, also at run time, and overflows the stack at 20,000 levels.
      throw new Failure('SQL_NOT_SUPPORTED', 'JSON cannot be cast to VARIANT; cast it to the type of its value');
    } else if (!kind.startsWith('BOUND_')) throw refusedStatement(this.#sql, kind);
  }

  #requireAtMost(max: number, count: number, unit: string): void {
    if (count > max) throw sqlInvalid(`the statement has more than ${max} ${unit}`, this.#sql, undefined);
  }

  #add(tables: Map<string, Table>, reference: unknown): void {
    const { catalog, schema, table } = (reference ?? {}) as { catalog?: unknown; schema?: unknown; table?: unknown };
    const isNamed = typeof catalog === 'string' && typeof schema === 'string' && typeof table === 'string';
    if (
      !isNamed ||
      schema.toLowerCase() === ownSchema ||
      catalog === 'system' ||
      catalog === 'temp' ||
      catalog === 'memory'
    ) {
      throw new Failure(
        'SQL_INVALID',
        `the table ${JSON.stringify(typeof table === 'string' ? table : '')} does not exist`,
        { line: 1, column: 1 },
      );
    }
    tables.set(JSON.stringify([catalog, schema, table]), { catalog, database: schema, table });
  }
}

/** The value of a call's first argument, if it is a constant. */
function constantIn(children: unknown): unknown {
  const [first] = (children ?? []) as readonly { readonly value?: { readonly value?: unknown } }[];
  return first?.value?.value;
}

function isVariantOfJson({ return_type, child }: Record<string, unknown>): boolean {
  if ((return_type as { id?: unknown } | undefined)?.id !== 'VARIANT') return false;
  const { return_type: type, value } = child as { return_type?: unknown; value?: { type?: unknown } };
  return JSON.stringify(type ?? value?.type ?? null).includes('"alias":"JSON"');
}

function forbiddenFunction(name: unknown): Failure {
  const shown = typeof name === 'string' ? name : 'unknown';
  return new Failure('SQL_FORBIDDEN_FUNCTION', `the function ${JSON.stringify(shown)} is not available`, {
    function: shown,
  });
}
