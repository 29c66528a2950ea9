// What a column's default may say: constants and a few functions, no columns, tables or subqueries. DuckDB parses the text; what is
// not named here is refused.
import type { DuckDBConnection } from '@duckdb/node-api';
import { formatType, type LogicalType } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { duckdbType } from '../types/type_mapping.ts';

const defaultCharactersMax = 16_384;

/** Expression classes of DuckDB's parser that are harmless if their parts are. */
const classes = new Set('CONSTANT CAST FUNCTION OPERATOR CASE COMPARISON CONJUNCTION BETWEEN'.split(' '));

/** Read as column names by the parser, as values by the binder. */
const valueNames = new Set('current_date current_timestamp current_time localtimestamp localtime'.split(' '));

const functions = new Set(
  (
    '+ - * / // % ^ ** || & | << >> ~ ~~ !~~ ' +
    'now get_current_timestamp transaction_timestamp current_localtimestamp current_localtime today ' +
    'uuid gen_random_uuid uuidv4 uuidv7 random pi ' +
    'abs round floor ceil ceiling trunc sqrt pow power greatest least ' +
    'lower upper trim ltrim rtrim concat substring substr replace left right length md5 sha256 hash ' +
    'to_base64 base64 from_base64 encode decode hex to_hex unhex from_hex ' +
    'make_date make_time make_timestamp to_timestamp epoch_ms epoch date_trunc date_part date_add strftime strptime timezone ' +
    'to_years to_months to_weeks to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds ' +
    'list_value struct_pack row map map_from_entries array_value json to_json json_object json_array json_quote'
  ).split(' '),
);

/** @throws Failure INVALID_PARAMETER with a message about the text. */
export async function checkDefault(connection: DuckDBConnection, expression: string, type: LogicalType): Promise<void> {
  if (expression.length > defaultCharactersMax) throw refused(`it is longer than ${defaultCharactersMax} characters`);
  // Checked in parentheses, as it is used later: what closes them or comments them out does not parse as one expression.
  const [[text] = []] = await rowsOf(connection, 'SELECT json_serialize_sql($1::VARCHAR, skip_null := true)', [
    `SELECT (${expression})`,
  ]);
  const parsed = parseTree<ParsedSql>(String(text));
  if (parsed === undefined) throw refused(numberTooLarge);
  if (parsed.error) throw refused(parsed.error_message ?? 'it does not parse');
  const node = parsed.statements?.length === 1 ? parsed.statements[0]?.node : undefined;
  if (node?.type !== 'SELECT_NODE' || node.select_list?.length !== 1 || node.from_table?.type !== 'EMPTY') {
    throw refused('it is not one expression');
  }
  const { select_list: list, ...rest } = node;
  requireHarmless(list);
  // FROM is empty; WHERE, ORDER BY, CTEs and the like would hold expressions.
  if (holdsExpression(rest)) throw refused('it is not one expression');
  await requireValue(connection, expression, type);
}

export const numberTooLarge = 'a number in it is too large';

/** DuckDB's JSON of a parsed or planned statement; undefined where a number such as 1e400 made it write Infinity, which is no JSON. */
export function parseTree<T>(text: string): T | undefined {
  try {
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}

interface ParsedSql {
  readonly error: boolean;
  readonly error_message?: string;
  readonly statements?: readonly { readonly node: SelectNode }[];
}

interface SelectNode {
  readonly type: string;
  readonly select_list?: readonly unknown[];
  readonly from_table?: { readonly type: string };
}

const refused = (why: string): Failure => new Failure('INVALID_PARAMETER', `the default is not acceptable: ${why}`);

function requireHarmless(part: unknown): void {
  if (typeof part !== 'object' || part === null) return;
  if (Array.isArray(part)) {
    for (const one of part) requireHarmless(one);
    return;
  }
  const node = part as Record<string, unknown>;
  if (node.class === 'COLUMN_REF') {
    const names = node.column_names as readonly string[];
    if (names.length === 1 && valueNames.has(names[0]!.toLowerCase())) return;
    throw refused(`it names a column, ${names.map((name) => JSON.stringify(name)).join('.')}`);
  }
  if (typeof node.class === 'string' && !classes.has(node.class)) {
    throw refused(
      `it has a ${node.class.toLowerCase().replaceAll('_', ' ')}; constants and simple functions are taken`,
    );
  }
  if (node.class === 'FUNCTION' && !functions.has(String(node.function_name).toLowerCase())) {
    throw refused(`the function ${String(node.function_name)} is not offered in a default`);
  }
  for (const one of Object.values(node)) requireHarmless(one);
}

export function holdsExpression(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false;
  return 'class' in part || Object.values(part).some(holdsExpression);
}

async function requireValue(connection: DuckDBConnection, expression: string, type: LogicalType): Promise<void> {
  const value = `CAST((${expression}) AS ${duckdbType(type)})`;
  const bounded = type.kind === 'CHAR' || type.kind === 'VARCHAR';
  try {
    const [row] = await rowsOf(connection, `SELECT ${bounded ? `length(${value})` : `${value} IS NULL`}`);
    if (bounded && Number(row?.[0] ?? 0) > type.length) {
      throw refused(`it is longer than ${formatType(type)} takes`);
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    const [message = ''] = (error as Error).message.split('\n');
    throw refused(message.replace(/^[A-Za-z ]+ Error: /, ''));
  }
}
