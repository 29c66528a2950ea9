// Which expressions are allowed as the default of a column: constants and a few functions, no columns, tables or subqueries; and their form on
// the servers.
import { formatType, type LogicalType } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { RewrittenStatement } from '../sql/rewrite_query.ts';
import { statementFailure } from '../sql/server_errors.ts';
import { statementLimits } from '../sql/statement_limits.ts';
import { scanTableNames } from '../sql/table_names.ts';
import { tokensOf } from '../sql/tokens.ts';
import { serverType } from '../types/type_mapping.ts';
import { analysisSettings, treeOf, treePrefix } from './tree_cache.ts';

const allowedFunctions: ReadonlySet<string> = new Set(
  (
    'plus minus multiply divide intdiv modulo negate concat not and or if multiif casewithexpression equals notequals less greater lessorequals ' +
    'greaterorequals isnull isnotnull coalesce ifnull nullif in notin like notlike cast _cast ' +
    'now now64 today yesterday todate todate32 todatetime todatetime64 tostartofday tostartofmonth tostartofyear toyear tomonth tointervalday ' +
    'tointervalhour tointervalminute tointervalsecond tointervalweek tointervalmonth tointervalyear datetrunc date_trunc formatdatetime ' +
    'generateuuidv4 generateuuidv7 rand rand64 randcanonical pi e ' +
    'abs round floor ceil ceiling trunc sqrt pow power greatest least exp ln log ' +
    'lower upper trim trimboth trimleft trimright ltrim rtrim substring substr replace replaceall left right length md5 sha256 hex unhex ' +
    'base64encode base64decode tostring toint8 toint16 toint32 toint64 toint128 tofloat32 tofloat64 todecimal32 todecimal64 todecimal128 tobool touuid ' +
    'array tuple map arrayelement tupleelement'
  ).split(' '),
);

const allowedNodes: ReadonlySet<string> = new Set(['CONSTANT', 'FUNCTION', 'LIST']);
const checkTimeoutMs = 5_000;

const invalidDefault = (why: string): Failure => new Failure('INVALID_PARAMETER', `the default is invalid: ${why}`);

/** The expression as the servers take it. Throws SQL_INVALID or SQL_FORBIDDEN_FUNCTION for a text that `checkDefault` refuses. */
export function storedDefault(expression: string): string {
  return rewrittenDefault(expression).text().text;
}

function rewrittenDefault(expression: string): RewrittenStatement {
  const tokens = tokensOf(expression, { isFragment: true });
  return new RewrittenStatement(expression, tokens, scanTableNames(tokens), {
    catalog: undefined,
    database: undefined,
    caller: undefined,
    typeText: (type) => serverType(type, false),
    parameters: undefined,
    qualifiedName: () => {
      throw invalidDefault('it names a table');
    },
  });
}

/** Throws INVALID_PARAMETER with a message about the text. */
export async function checkDefault(
  server: ClickHouseServer,
  expression: string,
  type: LogicalType,
  signal?: AbortSignal,
): Promise<void> {
  if (expression.length > statementLimits.defaultCharacters)
    throw invalidDefault(`it is longer than ${statementLimits.defaultCharacters} characters`);
  try {
    const rewritten = rewrittenDefault(expression).text();
    const prefix = 'SELECT (\n';
    const tree = await treeOf(server, { text: `${prefix}${rewritten.text}\n)`, parameters: {}, signal }).catch(
      (error) => {
        throw statementFailure(error, {
          sql: expression,
          tokens: tokensOf(expression),
          rewritten,
          prefix: treePrefix + prefix,
          publicText: (text) => text,
        });
      },
    );
    requireConstant(tree);
    await requireValue(server, rewritten.text, type, signal);
  } catch (error) {
    const isAboutText = error instanceof Failure && /^(?:SQL_|PARAMETERS_)/.test(error.code);
    throw isAboutText ? invalidDefault(error.message) : error;
  }
}

function requireConstant(tree: string): void {
  const lines = tree.split('\n').filter((line) => line !== '');
  const inner = lines.findIndex((line) => /^ {4}QUERY /.test(line));
  const body = lines.slice(inner + 1);
  // What follows the values is the table of a query without FROM.
  const end = body.findIndex((line) => /^ {6}JOIN TREE$/.test(line));
  const rest = body.slice(end + 1).map((line) => line.trim().replace(/id: \d+/, 'id'));
  const [list = ''] = body.slice(1);
  if (inner < 0 || end < 0 || rest.join() !== 'IDENTIFIER id, identifier: system.one' || !/nodes: 1$/.test(list))
    throw invalidDefault('it is not a single expression');
  for (const line of body.slice(1, end)) {
    const [, kind = '', details = ''] = /^ *([A-Z_ ]+?) id: \d+,? ?(.*)$/.exec(line) ?? [];
    if (kind === '') continue;
    if (/(?:^|, )alias: /.test(details) && kind !== 'CONSTANT' && kind !== 'FUNCTION')
      throw invalidDefault('it names a column');
    const [, name] = /function_name: (\w+)/.exec(details) ?? [];
    if (kind === 'IDENTIFIER') throw invalidDefault(`it names a column, ${details.replace(/^.*identifier: /, '')}`);
    if (!allowedNodes.has(kind))
      throw invalidDefault(`it contains a ${kind.toLowerCase()}; only constants and simple functions are allowed`);
    if (kind === 'FUNCTION' && !allowedFunctions.has((name ?? '').toLowerCase()))
      throw invalidDefault(`the function ${name} is not allowed in a default`);
  }
}

/** Types whose CAST wraps values that are too large. */
const holdsInteger: ReadonlySet<LogicalType['kind']> = new Set(['TINYINT', 'SMALLINT', 'INT', 'BIGINT', 'LARGEINT']);

async function requireValue(
  server: ClickHouseServer,
  text: string,
  type: LogicalType,
  signal?: AbortSignal,
): Promise<void> {
  const hasLength = type.kind === 'CHAR' || type.kind === 'VARCHAR';
  if (/^null$/i.test(text)) return;
  // To be converted to a text, the value has to be computed. Null stays null.
  const cast = holdsInteger.has(type.kind) ? 'accurateCast' : 'CAST';
  const value = `toString(${cast}((\n${text}\n), ${quoteLiteral(serverType(type, false))}))`;
  const rows = await server
    .rows<{ length: number | string | null }>({
      sql: `SELECT lengthUTF8(${value}) AS length`,
      settings: analysisSettings,
      timeoutMs: checkTimeoutMs,
      isOfCaller: true,
      signal,
    })
    .catch((error: unknown) => {
      if (!(error instanceof ClickHouseError)) throw error;
      throw invalidDefault(`it has no value of type ${formatType(type)}`);
    });
  if (hasLength && Number(rows[0]?.length ?? 0) > type.length)
    throw invalidDefault(`its value is longer than ${formatType(type)} allows`);
}
