// The expressions of a load over the columns of its file: which are allowed, and how the servers get them.
import { Failure } from '../../../standard/failure.ts';
import { expressionRefusal } from '../../data_files/load_failures.ts';
import { requireExpression } from '../analysis/build_statement.ts';
import { codec } from '../analysis/described_query.ts';
import { StatementReader } from '../analysis/statement_reader.ts';
import { ClickHouseError, callerMessage } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { columnsBeforeAliases } from '../query/statement_settings.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { upperWord } from '../sql/tokens.ts';
import { serverType } from '../types/type_mapping.ts';
import type { MappedColumn } from './column_mapping.ts';
import type { FileShape } from './file_shape.ts';
import { computeSettings } from './native_source.ts';

const checkTimeoutMs = 10_000;
/** They make several rows of one, or depend on other rows. */
const refusedWords: ReadonlySet<string> = new Set(['SELECT', 'OVER', 'COLUMNS', 'ARRAYJOIN']);

const reader = new StatementReader(codec);

interface Expression {
  readonly expression: string;
  readonly name: string;
  /** In the columns of the request. */
  readonly index: number;
}

/** The columns with their expressions as servers take them. Throws INVALID_PARAMETER or SQL_FORBIDDEN_FUNCTION. */
export async function requireExpressions(
  server: ClickHouseServer,
  shape: FileShape,
  mapped: readonly MappedColumn[],
  signal: AbortSignal,
): Promise<MappedColumn[]> {
  const checked: MappedColumn[] = [];
  for (const [index, column] of mapped.entries()) {
    const { expression } = column;
    if (expression === undefined) checked.push(column);
    else
      checked.push({
        ...column,
        expression: (await bindExpression(server, shape, { expression, name: column.column.name, index }, signal)).text,
      });
  }
  return checked;
}

/** The type of the server that an expression has. */
export async function expressionType(
  server: ClickHouseServer,
  shape: FileShape,
  expression: Expression,
  signal: AbortSignal,
): Promise<string> {
  return (await bindExpression(server, shape, expression, signal)).type;
}

async function bindExpression(
  server: ClickHouseServer,
  { columns }: FileShape,
  { expression, name, index }: Expression,
  signal: AbortSignal,
): Promise<{ readonly text: string; readonly type: string }> {
  const pointer = `/columns/${index}/expression`;
  const refused = expressionRefusal(pointer, name, expression);
  try {
    await requireExpression(server, { text: expression, pointer }, signal);
    const sql = `SELECT (\n${expression}\n) AS value`;
    const read = await reader.read(server, { sql, catalog: { id: '', name: '' } }, { signal });
    const { tokens, rewritten, analysis } = read;
    // `SELECT (` precedes it, and `) AS value` follows.
    const inner = { first: 2, end: tokens.length - 3 };
    const words = tokens.slice(inner.first, inner.end);
    if (words.some((token) => refusedWords.has(upperWord(token))))
      throw refused('it does not compute one value of one row');
    if (words.some(({ text }, i) => text === '*' && isStar(words[i - 1]?.text)))
      throw refused('it contains a star (*)');
    if (analysis.reads.length + analysis.views.length > 0) throw refused('it names a table');
    const { text } = rewritten.text(inner);
    const type = await boundType(server, columns, text, signal);
    return { text, type };
  } catch (error) {
    if (error instanceof ClickHouseError)
      throw refused(
        callerMessage(error)
          .split('\n', 1)[0]
          ?.replace(/: While .*| In scope .*|\. Expected one of: .*/, '') ?? '',
      );
    if (
      !(error instanceof Failure) ||
      !/^(?:SQL_|PARAMETERS_)/.test(error.code) ||
      error.code === 'SQL_FORBIDDEN_FUNCTION'
    )
      throw error;
    throw refused(error.message);
  }
}

/** Whether a star after this token is none of multiplication. */
const isStar = (previous: string | undefined): boolean => previous === undefined || /^[(,.]$/.test(previous);

/** In WHERE the server accepts only expressions over a single row. */
async function boundType(
  server: ClickHouseServer,
  columns: FileShape['columns'],
  text: string,
  signal: AbortSignal,
): Promise<string> {
  const values = columns.map(
    (column) => `CAST(NULL AS ${serverType(column.type, true)}) AS ${quoteIdentifier(column.name)}`,
  );
  const from = `(SELECT ${values.join(', ')})`;
  const [bound] = await server.rows<{ type: string }>({
    sql: `DESCRIBE (SELECT (${text}\n) AS value FROM ${from} AS file WHERE isNull((${text}\n)))`,
    settings: { ...computeSettings, ...columnsBeforeAliases, describe_compact_output: 1 },
    timeoutMs: checkTimeoutMs,
    isOfCaller: true,
    signal,
  });
  return bound?.type ?? 'String';
}
