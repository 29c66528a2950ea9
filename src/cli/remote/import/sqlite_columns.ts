// The types of the columns of an imported SQLite table: SQLite permits any value in any column, so they follow from the values that there
// are, and from the declared type where that says more.
import type { LogicalType } from '../../../model/types.ts';

/** How a value of SQLite, as node:sqlite reads it with bigints, is written as a text. */
type Write = (value: bigint | number | string | Uint8Array) => string;

/** What the values of a column are, as counts. */
export interface ValueCounts {
  readonly integers: number;
  readonly reals: number;
  readonly texts: number;
  readonly blobs: number;
  /** Integers that a double does not hold. */
  readonly wideIntegers: number;
  /** Texts that are not UTF-8. */
  readonly brokenTexts: number;
  readonly notBoolean: number;
  readonly notDate: number;
  readonly notDatetime: number;
  readonly notJson: number;
  /** Numbers that are not decimals of the declared precision and scale. */
  readonly notDecimal: number;
}

export interface ChosenType {
  readonly type: LogicalType;
  readonly write: Write;
  /** Why it is not the declared one. */
  readonly reason?: string;
}

const decimalDeclared = /^(?:DECIMAL|NUMERIC|DEC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)$/i;
/** Digits that a double holds, and so a number in SQLite. */
const exactDigitsMax = 15;

/** Precision and scale of the declared type, if SQLite can hold its values exactly. */
export function decimalOf(declared: string): { readonly precision: number; readonly scale: number } | undefined {
  const [, p, s = '0'] = decimalDeclared.exec(declared.trim()) ?? [];
  const [precision, scale] = [Number(p), Number(s)];
  return p !== undefined && precision >= 1 && precision <= exactDigitsMax && scale <= precision
    ? { precision, scale }
    : undefined;
}

const text: Write = (value) => (value instanceof Uint8Array ? Buffer.from(value).toString() : String(value));
const base64: Write = (value) =>
  (value instanceof Uint8Array ? Buffer.from(value) : Buffer.from(String(value))).toString('base64');
const mixed: Write = (value) =>
  value instanceof Uint8Array ? `x'${Buffer.from(value).toString('hex')}'` : String(value);
const float: Write = (value) => String(Number(value));
const string: ChosenType = { type: { kind: 'STRING' }, write: text };
const chosen = (
  kind: 'BOOLEAN' | 'BIGINT' | 'DOUBLE' | 'DATE' | 'DATETIME' | 'JSON' | 'BINARY',
  write: Write = text,
) => ({
  type: { kind },
  write,
});

export function chooseType(declared: string, counts: ValueCounts): ChosenType {
  const { integers, reals, texts, blobs, wideIntegers, brokenTexts } = counts;
  if (integers + reals + texts + blobs === 0) return ofDeclared(declared);
  if (blobs > 0 && texts > 0 && integers + reals === 0)
    return { ...chosen('BINARY', base64), reason: 'it has texts and blobs' };
  if (blobs > 0 && integers + reals + texts > 0)
    return { ...string, write: mixed, reason: 'its values have several types, blobs are written as in SQL' };
  if (blobs > 0) return chosen('BINARY', base64);
  if (brokenTexts > 0) return { ...chosen('BINARY', base64), reason: `${brokenTexts} of its texts are not UTF-8` };
  if (texts > 0 && integers + reals > 0) return { ...string, reason: 'it has numbers and texts' };
  if (texts > 0) return ofTexts(declared, counts);
  return ofNumbers(declared, counts, wideIntegers);
}

function ofTexts(declared: string, { notDate, notDatetime, notJson }: ValueCounts): ChosenType {
  if (/^DATE$/i.test(declared) && notDate === 0) return chosen('DATE');
  if (/^(DATETIME|TIMESTAMP)$/i.test(declared) && notDatetime === 0)
    return chosen('DATETIME', (value) => String(value).replace(' ', 'T'));
  if (/^JSONB?$/i.test(declared) && notJson === 0) return chosen('JSON');
  return /CHAR|CLOB|TEXT|STRING|^$/i.test(declared) ? string : { ...string, reason: `it has texts` };
}

function ofNumbers(declared: string, counts: ValueCounts, wideIntegers: number): ChosenType {
  const decimal = decimalOf(declared);
  if (decimal && counts.notDecimal === 0)
    return { type: { kind: 'DECIMAL', ...decimal }, write: (value) => Number(value).toFixed(decimal.scale) };
  if (counts.reals === 0)
    return /^BOOL/i.test(declared) && counts.notBoolean === 0
      ? chosen('BOOLEAN', (value) => String(Number(value) === 1))
      : chosen('BIGINT');
  if (wideIntegers > 0)
    return { ...string, write: mixed, reason: `${wideIntegers} of its integers are no exact floating point numbers` };
  const isDeclared = /REAL|FLOA|DOUB|^$/i.test(declared);
  return isDeclared ? chosen('DOUBLE', float) : { ...chosen('DOUBLE', float), reason: 'it has floating point numbers' };
}

/** Without values: by the rules of SQLite for the affinity of a declared type. */
function ofDeclared(declared: string): ChosenType {
  const decimal = decimalOf(declared);
  if (decimal) return { type: { kind: 'DECIMAL', ...decimal }, write: text };
  if (/^BOOL/i.test(declared)) return chosen('BOOLEAN');
  if (/INT/i.test(declared)) return chosen('BIGINT');
  if (/CHAR|CLOB|TEXT/i.test(declared)) return string;
  if (/BLOB/i.test(declared)) return chosen('BINARY', base64);
  if (/REAL|FLOA|DOUB|DECIMAL|NUMERIC/i.test(declared)) return chosen('DOUBLE', float);
  if (/^DATE$/i.test(declared)) return chosen('DATE');
  if (/^(DATETIME|TIMESTAMP)$/i.test(declared)) return chosen('DATETIME');
  if (/^JSONB?$/i.test(declared)) return chosen('JSON');
  return string;
}
