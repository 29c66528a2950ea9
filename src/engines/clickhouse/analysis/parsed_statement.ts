// A statement of a caller before anything on the servers is known: its tokens, its form and the names in it.
import type { TableName } from '../../port/refs.ts';
import type { Statement } from '../../port/statements.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import { readShape, type StatementShape } from '../sql/statement_shape.ts';
import { type NamedTable, type ScannedNames, scanTableNames } from '../sql/table_names.ts';
import { type Token, tokensOf } from '../sql/tokens.ts';

export interface ParsedStatement {
  readonly sql: string;
  readonly tokens: readonly Token[];
  readonly shape: StatementShape;
  readonly names: ScannedNames;
  /** The table that the statement writes; it is one of `names`. */
  readonly target: NamedTable | undefined;
}

const tokensPerTurn = 10_000;

/** Between the passes over a long text, so that none holds the event loop with the next one. */
async function letOthersRun({ length }: readonly Token[]): Promise<void> {
  if (length > tokensPerTurn) await new Promise((resolve) => setImmediate(resolve));
}

/** Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
export async function parseStatement(sql: string): Promise<ParsedStatement> {
  const tokens = tokensOf(sql);
  await letOthersRun(tokens);
  const shape = readShape(sql, tokens);
  await letOthersRun(tokens);
  const names = scanTableNames(tokens);
  await letOthersRun(tokens);
  if (shape.kind === 'select') return { sql, tokens, shape, names, target: undefined };
  const { target } = shape;
  const tables = [target, ...names.tables.filter(({ first }) => first > target.last)];
  return { sql, tokens, shape, names: { ...names, tables }, target };
}

/** The table that a name stands for in a namespace. Throws SQL_INVALID. */
export function resolveName(
  { sql, tokens }: Pick<ParsedStatement, 'sql' | 'tokens'>,
  { parts, first }: NamedTable,
  { catalog, database }: Pick<Statement, 'catalog' | 'database'>,
): TableName {
  const [table = '', inDatabase = database, inCatalog = catalog.name] = [...parts].reverse();
  if (parts.length > 3 || inDatabase === undefined) throw missingTable(sql, tokens, parts, first);
  return { catalog: inCatalog, database: inDatabase, table };
}

export function missingTable(sql: string, tokens: readonly Token[], parts: readonly string[], first: number) {
  const offset = tokens[first]?.start;
  return sqlInvalid(`the table ${JSON.stringify(parts.join('.'))} does not exist`, sql, offset);
}
