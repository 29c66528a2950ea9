// Builds one SQL statement from a request that changes rows (engines/sql/written_statement.ts): DuckDB parses each part. The statement is
// analyzed like any other afterwards. See analysis/plan.ts.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { BuiltStatement, SqlFragment, TableWrite } from '../../port/statements.ts';
import { failureIn, notSingle, writtenStatement } from '../../sql/written_statement.ts';
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
export const buildStatement = (connection: DuckDBConnection, write: TableWrite): Promise<BuiltStatement> =>
  writtenStatement(
    write,
    { table: qualifiedTable(write.table), quote: quoteIdentifier },
    {
      expression: (part) => requireExpression(connection, part),
      async query(part) {
        await requireQuery(connection, part);
        return withoutSemicolon(part.text);
      },
    },
  );

/**
 * The part must be a single expression both alone and in parentheses: alone, an early closing parenthesis fails to parse; in
 * parentheses, a second clause does.
 */
async function requireExpression(connection: DuckDBConnection, part: SqlFragment): Promise<void> {
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
    if (!isOne) throw notSingle(part, 'expression');
  }
}

async function requireQuery(connection: DuckDBConnection, part: SqlFragment): Promise<void> {
  try {
    refuseOtherStatement(part.text);
  } catch (error) {
    throw failureIn(part, error);
  }
  const nodes = await parseStatements(connection, part, '', '');
  if (nodes.length !== 1) throw notSingle(part, 'query');
  // It must also be a single query in the parentheses of the statement.
  const inBrackets = await parseStatements(
    connection,
    { ...part, text: withoutSemicolon(part.text) },
    'SELECT * FROM (\n',
    '\n)',
  );
  if (inBrackets.length !== 1) throw notSingle(part, 'query');
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
