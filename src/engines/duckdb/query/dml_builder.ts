// Builds one SQL statement from a request that changes rows (TableWrite in engine.ts). Each part must be a single expression before it is
// put in parentheses. The statement is analyzed like any other afterwards. See analysis/plan.ts.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { BuiltStatement, SqlFragment, TableWrite } from '../../engine.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { offsetOfByte, sqlInvalid } from '../instance/sql_errors.ts';
import { holdsExpression, numberTooLarge, parseTree } from '../sql/default_expression.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';
import { refuseOtherStatement, refuseUnbindable, withoutSemicolon } from '../sql/statement_checks.ts';

interface SelectNode {
  readonly type: string;
  readonly modifiers?: readonly unknown[];
  readonly select_list?: readonly { readonly class?: string; readonly alias?: string }[];
  readonly from_table?: { readonly type: string };
}

interface ParsedText {
  readonly error: boolean;
  readonly error_type?: string;
  readonly error_message?: string;
  readonly position?: string;
  readonly statements?: readonly { readonly node: SelectNode }[];
}

/** Parse as expressions but have no value. */
const noValue = new Set(['STAR', 'DEFAULT']);

/** Throws SQL_INVALID (with the part's pointer) or SQL_FORBIDDEN_FUNCTION. `connection` must belong to an empty instance. */
export async function buildStatement(connection: DuckDBConnection, write: TableWrite): Promise<BuiltStatement> {
  const text = new StatementText();
  const table = qualifiedTable(write.table);
  const expression = async (part: SqlFragment): Promise<void> => {
    await requireExpression(connection, part);
    text.addParenthesized(part, part.text);
  };
  if (write.kind === 'insert') {
    const columns = write.columns ? ` (${write.columns.map(quoteIdentifier).join(', ')})` : '';
    text.add(`INSERT INTO ${table}${columns} `);
    await requireQuery(connection, write.query);
    text.addParenthesized(write.query, withoutSemicolon(write.query.text));
    return text.build();
  }
  if (write.kind === 'delete') text.add(`DELETE FROM ${table}`);
  else {
    text.add(`UPDATE ${table} SET `);
    for (const [i, { column, value }] of write.set.entries()) {
      text.add(`${i === 0 ? '' : ', '}${quoteIdentifier(column)} = `);
      await expression(value);
    }
  }
  text.add(' WHERE ');
  await expression(write.where);
  return text.build();
}

/** Each part of a request starts on its own line, so that a position in the statement can be mapped to the part. */
class StatementText {
  #sql = '';
  #line = 1;
  readonly #parts: { pointer: string; line: number }[] = [];

  add(text: string): void {
    this.#sql += text;
  }

  addParenthesized({ pointer }: SqlFragment, text: string): void {
    this.#parts.push({ pointer, line: ++this.#line });
    this.#sql += `(\n${text}\n)`;
    this.#line += text.split('\n').length;
  }

  build(): BuiltStatement {
    return { sql: this.#sql, parts: this.#parts };
  }
}

/**
 * The part must be a single expression both alone and in parentheses: alone, an early closing parenthesis fails to parse; in
 * parentheses, a second clause does.
 */
async function requireExpression(connection: DuckDBConnection, part: SqlFragment): Promise<void> {
  const notSingle = (): Failure =>
    failureIn(part, new Failure('SQL_INVALID', 'the text is not a single expression', startPosition));
  for (const [before, after] of [
    ['SELECT\n', '\n'],
    ['SELECT (\n', '\n)'],
  ] as const) {
    const nodes = await parseStatements(connection, part, before, after);
    const [node] = nodes;
    const [first, ...others] = node?.select_list ?? [];
    const isOne =
      nodes.length === 1 &&
      node?.type === 'SELECT_NODE' &&
      node.from_table?.type === 'EMPTY' &&
      (node.modifiers ?? []).length === 0 &&
      first !== undefined &&
      others.length === 0 &&
      (first.alias ?? '') === '' &&
      !noValue.has(first.class ?? '') &&
      !holdsExpression({ ...node, select_list: [] });
    if (!isOne) throw notSingle();
  }
}

async function requireQuery(connection: DuckDBConnection, part: SqlFragment): Promise<void> {
  try {
    refuseOtherStatement(part.text);
  } catch (error) {
    throw failureIn(part, error);
  }
  const nodes = await parseStatements(connection, part, '', '');
  if (nodes.length !== 1)
    throw failureIn(part, new Failure('SQL_INVALID', 'the text is not a single query', startPosition));
  // It must also be a single query in the parentheses of the statement.
  const inBrackets = await parseStatements(
    connection,
    { ...part, text: withoutSemicolon(part.text) },
    'SELECT * FROM (\n',
    '\n)',
  );
  if (inBrackets.length !== 1)
    throw failureIn(part, new Failure('SQL_INVALID', 'the text is not a single query', startPosition));
}

/** Parses a text without binding it, and returns its statements. */
async function parseStatements(
  connection: DuckDBConnection,
  part: SqlFragment,
  before: string,
  after: string,
): Promise<readonly SelectNode[]> {
  try {
    refuseUnbindable(part.text, () => false);
    const text = `${before}${part.text}${after}`;
    const [[json] = []] = await rowsOf(connection, 'SELECT json_serialize_sql($1::VARCHAR, skip_null := true)', [text]);
    const tree = parseTree<ParsedText>(String(json));
    if (tree === undefined) throw sqlInvalid(numberTooLarge, part.text, undefined);
    if (!tree.error) return (tree.statements ?? []).map(({ node }) => node);
    const message =
      tree.error_type === 'parser' ? (tree.error_message ?? '') : 'only a query or an expression is allowed here';
    const offset = tree.position === undefined ? undefined : offsetOfByte(text, Number(tree.position)) - before.length;
    throw sqlInvalid(
      message,
      part.text,
      offset === undefined ? undefined : Math.min(Math.max(0, offset), part.text.length),
    );
  } catch (error) {
    throw failureIn(part, error);
  }
}

const startPosition = { line: 1, column: 1 };

/** Adds the pointer to the part of the request. */
function failureIn({ pointer }: SqlFragment, error: unknown): Failure {
  if (!(error instanceof Failure)) throw error;
  return new Failure(error.code, `${pointer}: ${error.message}`, { ...(error.result as object), pointer });
}
