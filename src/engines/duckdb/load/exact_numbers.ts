// Numbers of JSON texts with all their digits: DuckDB's JSON reader makes a double of a number with a fraction or an exponent, but reads what is
// in quotes as it is.
import { holdsType, type LogicalType } from '../../../model/types.ts';
import { quoteLiteral } from '../sql/identifiers.ts';

/** A double keeps 15 digits in any case. */
const digits = 16;
const wide = [
  ...Array.from({ length: digits - 1 }, (_, i) => `[0-9]{${i + 1}}[.][0-9]{${digits - 1 - i},}`),
  `[0-9]{${digits},}[.eE]`,
].join('|');
const string = String.raw`"(?:[^"\\]|\\.)*"`;
const hasWideNumber = `(?s)^(?:${string}|[^"])*?(?:${wide})`;
/** What precedes a number, and the number. A minus sign may precede `Infinity`. */
const nextNumber = `(?s)((?:${string}|[^"0-9-]|-[^"0-9])*)(-?[0-9][0-9.eE+-]*)`;

/**
 * The JSON text of a value of a nested type, with its numbers in quotes if one of them has more digits than a double. Quotes would change a JSON
 * value in it: a type that has such values and exact numbers gets a text that is no JSON instead, so that the row is refused.
 */
export function exactNumbers(type: LogicalType, text: string): string {
  const conditions = [
    `system.main.regexp_matches(${text}, '[0-9.]{${digits}}')`,
    `system.main.regexp_matches(${text}, ${quoteLiteral(hasWideNumber)})`,
    `system.main.json_valid(${text})`,
  ];
  const isWide = conditions.join(' AND ');
  const then = (changed: string) => `CASE WHEN ${isWide} THEN ${changed} ELSE ${text} END`;
  if (!holdsType(type, ({ kind }) => kind === 'JSON')) return then(quoted(text));
  const isExact = holdsType(type, ({ kind }) => kind === 'DECIMAL' || kind === 'LARGEINT');
  return isExact ? then(`system.main.concat('inexact ', ${text})`) : text;
}

/** With a number after the text, no part of the text is left in which a search for a number could begin within a string. */
const quoted = (text: string): string =>
  String.raw`system.main.regexp_replace(system.main.regexp_replace(system.main.concat(${text}, ' 0'), ${quoteLiteral(nextNumber)}, '\1"\2"', 'g'), ' "0"$', '')`;
