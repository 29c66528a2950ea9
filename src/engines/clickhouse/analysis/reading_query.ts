// Builds queries from the parts of a statement that writes: one with everything that it reads, for its analysis, and the one that gives the
// rows of an INSERT ... VALUES.
import type { StoredNames } from '../connection/server.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import type { RewrittenStatement } from '../sql/rewrite_query.ts';
import { joinTexts, type RewrittenText } from '../sql/rewritten_text.ts';
import type { StatementShape, TokenRange } from '../sql/statement_shape.ts';
import { type Token, upperWord } from '../sql/tokens.ts';
import { checkedConversion } from '../types/checked_conversion.ts';

/** Everything that the statement reads, as one query. Undefined if it has only constants. */
export function readingQuery(
  shape: StatementShape,
  rewritten: RewrittenStatement,
  tokens: readonly Token[],
  target: StoredNames | undefined,
): RewrittenText | undefined {
  if (shape.kind === 'select') return rewritten.text(shape.query);
  if (shape.kind === 'insert') {
    if (shape.source.kind === 'query') return rewritten.text(shape.source.query);
    const expressions = shape.source.rows.flat().filter((range) => constantText(tokens, range) === undefined);
    return expressions.length === 0 ? undefined : selectOf(expressions.map((range) => rewritten.text(range)));
  }
  const values = shape.kind === 'update' ? shape.assignments.map(({ value }) => rewritten.text(value)) : [];
  const alias = shape.alias ?? shape.target.parts.at(-1) ?? '';
  const columns = shape.kind === 'update' ? shape.assignments.map(({ column }) => quoteIdentifier(column)) : [];
  const select = selectOf([...values, ...columns, ...(values.length === 0 ? ['1'] : [])]);
  const from = target ? ` FROM ${qualifiedName(target)} AS ${quoteIdentifier(alias)}` : '';
  const where = shape.where ? [' WHERE (\n', rewritten.text(shape.where), '\n)'] : [];
  return joinTexts([select, from, ...where]);
}

function selectOf(values: readonly (string | RewrittenText)[]): RewrittenText {
  return joinTexts(['SELECT ', ...values.flatMap((value, i) => [i === 0 ? '(\n' : ', (\n', value, '\n)'])]);
}

export interface TargetColumn {
  readonly name: string;
  /** Its type on the servers. */
  readonly type: string;
}

const scalarType = /^(?:Nullable\()?(?:U?Int\d+|Float\d+|Decimal\(.*?\)|String|Bool|Date32|DateTime64\(.*?\)|UUID)\)?$/;

/**
 * The rows of an INSERT ... VALUES as a SELECT. Constants are converted from their texts to the types of the columns, so that decimals stay
 * exact.
 */
export function rowsQuery(
  rows: readonly (readonly TokenRange[])[],
  columns: readonly TargetColumn[],
  rewritten: RewrittenStatement,
  tokens: readonly Token[],
): string {
  const isScalar = columns.map(({ type }) => scalarType.test(type));
  const constants = rows.map((row) =>
    row.map((range, i) => (isScalar[i] ? constantText(tokens, range, columns[i]?.type) : undefined)),
  );
  if (constants.every((row) => row.every((text) => text !== undefined))) {
    const structure = columns.map((_, i) => `c${i} Nullable(String)`).join(', ');
    const values = constants.map((row) => `(${row.join(', ')})`).join(', ');
    // As texts: they are converted when they are inserted (rows/insert_select.ts).
    const select = columns.map((_, i) => `c${i} AS v${i}`).join(', ');
    return `SELECT ${select} FROM values(${quoteLiteral(structure)}, ${values})`;
  }
  return rows
    .map((row, n) => {
      const values = row.map((range, i) => {
        const text = constants[n]?.[i];
        const value =
          text === undefined ? `(\n${rewritten.text(range).text}\n)` : converted(text, columns[i] as TargetColumn);
        return `${value} AS v${i}`;
      });
      return `SELECT ${values.join(', ')}`;
    })
    .join('\nUNION ALL\n');
}

const converted = (text: string, { name, type }: TargetColumn): string =>
  text === 'NULL' ? text : checkedConversion('String', type, text, name);

/** A constant as the literal of a string, or NULL. Undefined for anything else. */
function constantText(tokens: readonly Token[], { first, end }: TokenRange, type = 'String'): string | undefined {
  const sign = tokens[first]?.text === '-' || tokens[first]?.text === '+' ? (tokens[first] as Token).text : '';
  const token = tokens[end - 1];
  if (!token || end - first !== (sign === '' ? 1 : 2)) return undefined;
  if (token.kind === 'number')
    return /^[\d.]+$/.test(token.text) ? `'${sign === '-' ? '-' : ''}${token.text}'` : undefined;
  if (sign !== '') return undefined;
  if (token.kind === 'string') return token.text;
  const word = upperWord(token);
  if (word === 'NULL') return 'NULL';
  if (word !== 'TRUE' && word !== 'FALSE') return undefined;
  return /Bool|String/.test(type) ? `'${word.toLowerCase()}'` : `'${word === 'TRUE' ? 1 : 0}'`;
}
