// The columns of an imported DuckDB table: the type that each has on the server, and the SQL expression that gives its values as texts.
import type { NotCarried, SourceColumn } from '../../../model/import_source.ts';
import { formatType, type LogicalType } from '../../../model/types.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { jsonExpression, logicalTypeOf, nearestTypeOf } from '../types/type_mapping.ts';

/** A column as the file describes it. */
export interface FileColumn {
  readonly name: string;
  /** DuckDB's name of the type. */
  readonly type: string;
  readonly nullable: boolean;
  readonly defaultText: string | undefined;
  readonly comment: string | undefined;
}

export interface SourcedColumn extends SourceColumn {
  readonly expression: string;
  /** Whether the expression gives JSON instead of the text itself. */
  readonly isJson: boolean;
}

const nanoseconds = 'TIMESTAMP_NS';
/** Literals that mean the same on every engine. */
const literal = /^(-?\d+(\.\d+)?|'[^']*'|true|false|CAST\('[^']*' AS (VARCHAR|BOOLEAN|DATE|INTEGER|BIGINT)\))$/i;
const currentTime = /^(now\(\)|current_timestamp|get_current_timestamp\(\))$/i;

/** `isOutside`: it has dates that are infinite or outside the years 1 to 9999. Adds what is lost to `notCarried`. */
export function columnOf(
  table: string,
  { name, type: typeText, nullable, defaultText, comment }: FileColumn,
  isOutside: boolean,
  notCarried: NotCarried[],
): SourcedColumn {
  const object = `${table}.${name}`;
  const type: LogicalType = isOutside ? { kind: 'STRING' } : nearestTypeOf(typeText);
  if (isOutside)
    notCarried.push({ object, kind: 'type', text: `${typeText} becomes STRING: dates outside the years 1 to 9999` });
  else if (typeText === nanoseconds)
    notCarried.push({ object, kind: 'type', text: `${typeText} becomes DATETIME: only microseconds are kept` });
  else if (logicalTypeOf(typeText) === undefined)
    notCarried.push({ object, kind: 'type', text: `${shortened(typeText)} becomes ${formatType(type)}` });
  const defaultValue = defaultText !== undefined && isPortable(defaultText) ? defaultText : undefined;
  if (defaultText !== undefined && defaultValue === undefined && defaultText.toUpperCase() !== 'NULL')
    notCarried.push({ object, kind: 'default', text: `has no default: ${defaultText}` });
  return { name, type, nullable, defaultValue, comment, ...expressionOf(typeText, type, quoteIdentifier(name)) };
}

const isPortable = (text: string): boolean => literal.test(text) || currentTime.test(text);
const shortened = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}...` : text);

function expressionOf(typeText: string, type: LogicalType, name: string) {
  if (type.kind === 'STRING' || type.kind === 'JSON') return { expression: `${name}::VARCHAR`, isJson: false };
  const [from, value] = typeText === nanoseconds ? ['TIMESTAMP', `${name}::TIMESTAMP`] : [typeText, name];
  return { expression: jsonExpression(from, value, 'string'), isJson: true };
}

/** The text of a value (model/import_source.ts) from that of its expression. */
export function readAs(column: SourcedColumn | undefined, value: unknown): string | null {
  if (value === null || typeof value !== 'string' || !column?.isJson) return value === null ? null : String(value);
  if (value === 'null') return null;
  return value.startsWith('"') ? value.slice(1, -1) : value;
}
