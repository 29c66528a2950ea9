// Builds one SQL statement from a request that changes rows (engines/sql/written_statement.ts): a server parses each part. The statement is
// analyzed like any other afterwards.
import type { TableRef } from '../../port/refs.ts';
import type { BuiltStatement, SqlFragment, TableWrite } from '../../port/statements.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import { failureIn, notSingle, writtenStatement } from '../../sql/written_statement.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { RewrittenStatement } from '../sql/rewrite_query.ts';
import { joinTexts } from '../sql/rewritten_text.ts';
import { statementFailure } from '../sql/server_errors.ts';
import { readShape } from '../sql/statement_shape.ts';
import { scanTableNames } from '../sql/table_names.ts';
import { type Token, tokensOf } from '../sql/tokens.ts';
import { serverType } from '../types/type_mapping.ts';
import { treeOf, treePrefix } from './tree_cache.ts';

const namePart = (name: string) => `"${name.replaceAll('"', '""')}"`;
const tablePath = ({ catalog, database, table }: TableRef) => [catalog.name, database, table].map(namePart).join('.');

/** Throws SQL_INVALID with the part's pointer. */
export const buildStatement = (
  server: ClickHouseServer,
  write: TableWrite,
  signal?: AbortSignal,
): Promise<BuiltStatement> =>
  writtenStatement(
    write,
    { table: tablePath(write.table), quote: namePart },
    {
      expression: (part) => requireExpression(server, part, signal),
      query: (part) => requireQuery(server, part, signal),
    },
  );

/**
 * The part must be a single expression both alone and in parentheses: alone, a query or an early closing bracket fails to parse; in
 * parentheses, a second clause does.
 */
export async function requireExpression(
  server: ClickHouseServer,
  part: SqlFragment,
  signal?: AbortSignal,
): Promise<void> {
  for (const [before, after] of [
    ['SELECT\n', '\n'],
    ['SELECT (\n', '\n)'],
  ] as const) {
    const tree = await parsedTree(server, part, before, after, signal);
    if (!isSingleValue(tree)) throw notSingle(part, 'expression');
  }
}

/** Whether a tree is that of `SELECT` with one value that has no name, and without any other clause. */
function isSingleValue(tree: string): boolean {
  const lines = tree.split('\n');
  const inner = lines.findIndex((line) => /^ {4}(?:QUERY|UNION) /.test(line));
  const [query = '', projection = '', list = '', value = '', ...rest] = lines.slice(inner);
  const clauses = rest.filter((line) => /^ {6}\S/.test(line)).map((line) => line.trim());
  return (
    /^ {4}QUERY id: \d+, is_subquery: 1$/.test(query) &&
    projection.trim() === 'PROJECTION' &&
    /LIST id: \d+, nodes: 1$/.test(list) &&
    !/^ *MATCHER /.test(value) &&
    !/ id: \d+, alias: /.test(value) &&
    clauses.join() === 'JOIN TREE' &&
    rest.some((line) => /^ {8}IDENTIFIER id: \d+, identifier: system\.one$/.test(line))
  );
}

/** The text of the query without a semicolon at its end. */
async function requireQuery(server: ClickHouseServer, part: SqlFragment, signal?: AbortSignal): Promise<string> {
  try {
    const tokens = tokensOf(part.text);
    const { kind } = readShape(part.text, tokens);
    if (kind !== 'select') throw sqlInvalid('the text is not a single query', part.text, 0);
    await parsedTree(server, part, '', '', signal);
    return part.text.slice(0, tokens.at(-1)?.end);
  } catch (error) {
    throw failureIn(part, error);
  }
}

/** Parses a text without resolving anything in it. */
async function parsedTree(
  server: ClickHouseServer,
  part: SqlFragment,
  before: string,
  after: string,
  signal?: AbortSignal,
): Promise<string> {
  let tokens: readonly Token[];
  try {
    tokens = tokensOf(part.text, { isFragment: before !== '' });
  } catch (error) {
    throw failureIn(part, error);
  }
  const rewritten = new RewrittenStatement(part.text, tokens, scanTableNames(tokens), {
    catalog: undefined,
    database: undefined,
    caller: '',
    typeText: (type) => serverType(type, false),
    parameters: undefined,
    isUnknownNull: true,
    qualifiedName: ({ parts }) => quoteIdentifier(parts.join('.')),
  });
  const text = joinTexts([before, rewritten.text(), after]);
  try {
    return await treeOf(server, { text: text.text, parameters: rewritten.parameters, signal });
  } catch (error) {
    if (!(error instanceof ClickHouseError)) throw error;
    const publicText = (message: string) => message;
    throw failureIn(
      part,
      statementFailure(error, { sql: part.text, tokens, rewritten: text, prefix: treePrefix, publicText }),
    );
  }
}
