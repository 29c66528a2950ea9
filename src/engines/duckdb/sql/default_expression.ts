// Which expressions are allowed as the default of a column: constants and a few functions, no columns, tables or subqueries. DuckDB
// parses the text; anything not listed here is refused.
import type { DuckDBConnection } from '@duckdb/node-api';
import { formatType, type LogicalType } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { duckdbType } from '../types/type_mapping.ts';

const defaultCharactersMax = 16_384;

/** Expression classes of DuckDB's parser that are allowed if their parts are. */
const allowedClasses = new Set('CONSTANT CAST FUNCTION OPERATOR CASE COMPARISON CONJUNCTION BETWEEN'.split(' '));

/** Names that the parser reads as columns and the binder as values. */
const valueNames = new Set('current_date current_timestamp current_time localtimestamp localtime'.split(' '));

const allowedFunctions = new Set(
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
  if (expression.length > defaultCharactersMax)
    throw invalidDefault(`it is longer than ${defaultCharactersMax} characters`);
  // Parsed in parentheses, as it is used later: a text that closes them or comments them out is not a single expression.
  const [[text] = []] = await rowsOf(connection, 'SELECT json_serialize_sql($1::VARCHAR, skip_null := true)', [
    `SELECT (${expression})`,
  ]);
  const parsed = parseTree<ParsedSql>(String(text));
  if (parsed === undefined) throw invalidDefault(numberTooLarge);
  if (parsed.error) throw invalidDefault(parsed.error_message ?? 'it does not parse');
  const node = parsed.statements?.length === 1 ? parsed.statements[0]?.node : undefined;
  if (node?.type !== 'SELECT_NODE' || node.select_list?.length !== 1 || node.from_table?.type !== 'EMPTY') {
    throw invalidDefault('it is not a single expression');
  }
  const { select_list: list, ...rest } = node;
  requireAllowed(list);
  // FROM is empty; expressions elsewhere would be in WHERE, ORDER BY, CTEs and the like.
  if (holdsExpression(rest)) throw invalidDefault('it is not a single expression');
  await requireValue(connection, expression, type);
}

export const numberTooLarge = 'a number in it is too large';

/**
 * Parses DuckDB's JSON of a parsed or planned statement. Undefined if a number such as 1e400 made DuckDB write Infinity, which is
 * not valid JSON.
 */
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

const invalidDefault = (why: string): Failure => new Failure('INVALID_PARAMETER', `the default is invalid: ${why}`);

function requireAllowed(part: unknown): void {
  if (typeof part !== 'object' || part === null) return;
  if (Array.isArray(part)) {
    for (const item of part) requireAllowed(item);
    return;
  }
  const node = part as Record<string, unknown>;
  if (node.class === 'COLUMN_REF') {
    const names = node.column_names as readonly string[];
    if (names.length === 1 && valueNames.has(names[0]!.toLowerCase())) return;
    throw invalidDefault(`it names a column, ${names.map((name) => JSON.stringify(name)).join('.')}`);
  }
  if (typeof node.class === 'string' && !allowedClasses.has(node.class)) {
    throw invalidDefault(
      `it contains a ${node.class.toLowerCase().replaceAll('_', ' ')}; only constants and simple functions are allowed`,
    );
  }
  if (node.class === 'FUNCTION' && !allowedFunctions.has(String(node.function_name).toLowerCase())) {
    throw invalidDefault(`the function ${String(node.function_name)} is not allowed in a default`);
  }
  for (const child of Object.values(node)) requireAllowed(child);
}

export function holdsExpression(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false;
  return 'class' in part || Object.values(part).some(holdsExpression);
}

async function requireValue(connection: DuckDBConnection, expression: string, type: LogicalType): Promise<void> {
  const value = `CAST((${expression}) AS ${duckdbType(type)})`;
  const hasLength = type.kind === 'CHAR' || type.kind === 'VARCHAR';
  try {
    const [row] = await rowsOf(connection, `SELECT ${hasLength ? `length(${value})` : `${value} IS NULL`}`);
    if (hasLength && Number(row?.[0] ?? 0) > type.length) {
      throw invalidDefault(`its value is longer than ${formatType(type)} allows`);
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    const [message = ''] = (error as Error).message.split('\n');
    throw invalidDefault(message.replace(/^[A-Za-z ]+ Error: /, ''));
  }
}
