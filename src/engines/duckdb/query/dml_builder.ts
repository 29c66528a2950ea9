// A change of rows as a request gives it (engine.ts, TableWrite) → one statement. Each expression has to be one by itself before
// it is put into brackets of its own; what it does there is the plan's to say, as of any statement (plan.ts).
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { TableWrite, WrittenPart, WrittenStatement } from '../../engine.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { offsetOfByte, sqlInvalid } from '../instance/sql_errors.ts';
import { holdsExpression, numberTooLarge, parseTree } from '../sql/default_expression.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';
import { refuseOtherStatement, refuseUnbindable, withoutEnd } from '../sql/statement_checks.ts';

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

/** Stand where an expression does, and are none. */
const noValue = new Set(['STAR', 'DEFAULT']);

/** Throws SQL_INVALID (with the part's pointer) or SQL_FORBIDDEN_FUNCTION. `connection`: of an instance that nothing is in. */
export async function buildStatement(connection: DuckDBConnection, write: TableWrite): Promise<WrittenStatement> {
  const text = new Text();
  const table = qualifiedTable(write.table);
  const expression = async (part: WrittenPart): Promise<void> => {
    await requireExpression(connection, part);
    text.bracketed(part, part.text);
  };
  if (write.kind === 'insert') {
    const columns = write.columns ? ` (${write.columns.map(quoteIdentifier).join(', ')})` : '';
    text.add(`INSERT INTO ${table}${columns} `);
    await requireQuery(connection, write.query);
    text.bracketed(write.query, withoutEnd(write.query.text));
    return text.made();
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
  return text.made();
}

/** Each part of a request begins a line of its own, so that places in it can be told from places in the statement. */
class Text {
  #sql = '';
  #line = 1;
  readonly #parts: { pointer: string; line: number }[] = [];

  add(text: string): void {
    this.#sql += text;
  }

  bracketed({ pointer }: WrittenPart, text: string): void {
    this.#parts.push({ pointer, line: ++this.#line });
    this.#sql += `(\n${text}\n)`;
    this.#line += text.split('\n').length;
  }

  made(): WrittenStatement {
    return { sql: this.#sql, parts: this.#parts };
  }
}

/**
 * It must be one both by itself and in brackets: alone, brackets that close too early do not parse; in brackets, a second
 * clause does not.
 */
async function requireExpression(connection: DuckDBConnection, part: WrittenPart): Promise<void> {
  const notOne = (): Failure => faultIn(part, new Failure('SQL_INVALID', 'it is not one expression', noPlace));
  for (const [before, after] of [
    ['SELECT\n', '\n'],
    ['SELECT (\n', '\n)'],
  ] as const) {
    const nodes = await parsed(connection, part, before, after);
    const [node] = nodes;
    const [only, ...more] = node?.select_list ?? [];
    const isOne =
      nodes.length === 1 &&
      node?.type === 'SELECT_NODE' &&
      node.from_table?.type === 'EMPTY' &&
      (node.modifiers ?? []).length === 0 &&
      only !== undefined &&
      more.length === 0 &&
      (only.alias ?? '') === '' &&
      !noValue.has(only.class ?? '') &&
      !holdsExpression({ ...node, select_list: [] });
    if (!isOne) throw notOne();
  }
}

async function requireQuery(connection: DuckDBConnection, part: WrittenPart): Promise<void> {
  try {
    refuseOtherStatement(part.text);
  } catch (error) {
    throw faultIn(part, error);
  }
  const nodes = await parsed(connection, part, '', '');
  if (nodes.length !== 1) throw faultIn(part, new Failure('SQL_INVALID', 'it is not one query', noPlace));
  // The same in the brackets that it is put in.
  const inBrackets = await parsed(connection, { ...part, text: withoutEnd(part.text) }, 'SELECT * FROM (\n', '\n)');
  if (inBrackets.length !== 1) throw faultIn(part, new Failure('SQL_INVALID', 'it is not one query', noPlace));
}

/** The statements of a text, parsed and not bound. */
async function parsed(
  connection: DuckDBConnection,
  part: WrittenPart,
  before: string,
  after: string,
): Promise<readonly SelectNode[]> {
  try {
    refuseUnbindable(part.text, () => false);
    const text = `${before}${part.text}${after}`;
    const [[found] = []] = await rowsOf(connection, 'SELECT json_serialize_sql($1::VARCHAR, skip_null := true)', [
      text,
    ]);
    const tree = parseTree<ParsedText>(String(found));
    if (tree === undefined) throw sqlInvalid(numberTooLarge, part.text, undefined);
    if (!tree.error) return (tree.statements ?? []).map(({ node }) => node);
    const message =
      tree.error_type === 'parser' ? (tree.error_message ?? '') : 'only a query or an expression stands here';
    const offset = tree.position === undefined ? undefined : offsetOfByte(text, Number(tree.position)) - before.length;
    throw sqlInvalid(
      message,
      part.text,
      offset === undefined ? undefined : Math.min(Math.max(0, offset), part.text.length),
    );
  } catch (error) {
    throw faultIn(part, error);
  }
}

const noPlace = { line: 1, column: 1 };

/** Says which part of the request is meant. */
function faultIn({ pointer }: WrittenPart, error: unknown): Failure {
  if (!(error instanceof Failure)) throw error;
  return new Failure(error.code, `${pointer}: ${error.message}`, { ...(error.result as object), pointer });
}
