// Converts values of a query to the type of a column. The conversions of servers wrap numbers that are too large, make texts that they cannot
// read null and turn February 30 into March 2: here such a value ends the statement.
import { valueOfText } from '../load/text_values.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { logicalTypeOf } from './type_mapping.ts';

/** With which the error of a refused value begins. */
export const doesNotFit = 'a value does not fit the column ';

/**
 * @param x a name, or another expression that is cheap to repeat.
 * @param column for the message of the error.
 */
export function checkedConversion(source: string, target: string, x: string, column: string): string {
  const [from, to] = [plain(source), plain(target)];
  if (from === to) return x;
  const logical = logicalTypeOf(target);
  const refusedIf = (value: string, condition: string) =>
    `tupleElement(tuple(${value}, throwIf(ifNull(${condition}, 0), ${quoteLiteral(`${doesNotFit}"${column}"`)})), 1)`;
  if (/^(?:String|FixedString|Enum)/.test(from)) {
    if (!logical || stringKinds.has(logical.kind)) return x;
    // Servers of 24.8 have no nullable results of some functions of texts.
    const value = `if(isNull(${x}), NULL, ${valueOfText(logical, `assumeNotNull(toString(${x}))`)})`;
    return refusedIf(value, `isNotNull(${x}) AND isNull(${value})`);
  }
  if (!isNumber(from)) return x;
  if (to === 'Bool') return refusedIf(x, `${x} NOT IN (0, 1)`);
  if (logical?.kind === 'DECIMAL') {
    const limit = `toDecimal256('1${'0'.repeat(logical.precision - logical.scale)}', 0)`;
    return refusedIf(x, `NOT (${x} < ${limit} AND ${x} > -${limit})`);
  }
  // A null of a column without nulls is refused by the table, not by the conversion.
  return isNumber(to) ? `accurateCast(${x}, ${quoteLiteral(`Nullable(${to})`)})` : x;
}

const stringKinds: ReadonlySet<string> = new Set([
  'STRING',
  'CHAR',
  'VARCHAR',
  'BINARY',
  'JSON',
  'ARRAY',
  'MAP',
  'STRUCT',
]);

const isNumber = (type: string): boolean => /^(?:U?Int\d+|Float\d+|Decimal)/.test(type);

/** Without what says only that there are nulls, or how values are stored. */
const plain = (type: string): string => {
  const [, inner] = /^(?:Nullable|LowCardinality)\(([\s\S]*)\)$/.exec(type) ?? [];
  return inner === undefined ? type : plain(inner);
};
