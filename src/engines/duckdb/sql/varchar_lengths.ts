// Finds the n of VARCHAR(n) in a CREATE TABLE statement, which DuckDB drops while parsing. Each occurrence of such a type is
// replaced by a DECIMAL that marks it, and DuckDB plans the statement again: if a column was a VARCHAR and is now the marker, the
// occurrence was its type. Occurrences in strings, names and comments change no type.
import { type LogicalType, TypeSyntaxError, varcharLengthMax } from '../../../model/types.ts';
import { type EngineType, parseEngineType } from '../types/type_parser.ts';

type TextType = Extract<LogicalType, { readonly kind: 'CHAR' | 'VARCHAR' }>;

const textTypes = /(?<![\w$"])(character\s+varying|nvarchar|varchar|bpchar|character|char)\s*\(\s*(\d{1,18})\s*\)/gi;

interface Occurrence {
  readonly start: number;
  readonly end: number;
  readonly type: TextType;
}

/** If the statement cannot be planned with all markers, up to this many occurrences are tried one by one. */
const singleTriesMax = 64;

/**
 * @param types of the columns, without lengths. @param typesOf creates the table of another text and returns the type texts of its
 * columns. @throws TypeSyntaxError if a length is out of range.
 */
export async function withTextLengths(
  sql: string,
  types: readonly LogicalType[],
  typesOf: (sql: string) => Promise<readonly string[]>,
): Promise<readonly LogicalType[]> {
  const occurrences = [...sql.matchAll(textTypes)].map((match): Occurrence => {
    const kind = /^(?:character|char|bpchar)$/i.test(match[1]!) ? 'CHAR' : 'VARCHAR';
    const start = match.index;
    return { start, end: start + match[0].length, type: { kind, length: Number(match[2]) } };
  });
  let current = types;
  for (const group of groupsOf(occurrences)) {
    const next = await applyLengths(sql, group, current, typesOf);
    if (next !== undefined) current = next;
    else if (occurrences.length <= singleTriesMax) {
      for (const occurrence of group) current = (await applyLengths(sql, [occurrence], current, typesOf)) ?? current;
    }
  }
  for (const type of current) requireLengths(type);
  return current;
}

/** All markers: DECIMAL(1,0) to DECIMAL(38,38). */
const markers = Array.from({ length: 38 }, (_, p) => Array.from({ length: p + 2 }, (_, s) => `${p + 1},${s}`)).flat();

const keyOf = (type: TextType): string => `${type.kind} ${type.length}`;

/** Groups the occurrences so that no group has more distinct types than there are markers. */
function* groupsOf(occurrences: readonly Occurrence[]): Generator<readonly Occurrence[]> {
  const keys = [...new Set(occurrences.map((occurrence) => keyOf(occurrence.type)))];
  for (let start = 0; start < keys.length; start += markers.length) {
    const groupKeys = new Set(keys.slice(start, start + markers.length));
    yield occurrences.filter((occurrence) => groupKeys.has(keyOf(occurrence.type)));
  }
}

/** The types with the lengths of these occurrences; undefined if DuckDB refuses the marked text. */
async function applyLengths(
  sql: string,
  occurrences: readonly Occurrence[],
  types: readonly LogicalType[],
  typesOf: (sql: string) => Promise<readonly string[]>,
): Promise<readonly LogicalType[] | undefined> {
  const byKey = new Map<string, string>();
  const byMarker = new Map<string, TextType>();
  let marked = '';
  let copiedTo = 0;
  for (const { start, end, type } of occurrences) {
    const marker = byKey.get(keyOf(type)) ?? markers[byKey.size]!;
    byKey.set(keyOf(type), marker);
    byMarker.set(marker, type);
    marked += `${sql.slice(copiedTo, start)}DECIMAL(${marker})`;
    copiedTo = end;
  }
  try {
    const texts = await typesOf(marked + sql.slice(copiedTo));
    return types.map((type, i) => merge(type, parseEngineType(texts[i] ?? ''), byMarker));
  } catch {
    return undefined;
  }
}

function merge(type: LogicalType, marked: EngineType, byMarker: ReadonlyMap<string, TextType>): LogicalType {
  if (type.kind === 'STRING' && marked.kind === 'decimal') {
    return byMarker.get(`${marked.precision},${marked.scale}`) ?? type;
  }
  if (type.kind === 'ARRAY' && marked.kind === 'list') {
    return { kind: 'ARRAY', element: merge(type.element, marked.element, byMarker) };
  }
  if (type.kind === 'MAP' && marked.kind === 'map') {
    return {
      kind: 'MAP',
      key: merge(type.key, marked.key, byMarker),
      value: merge(type.value, marked.value, byMarker),
    };
  }
  if (type.kind === 'STRUCT' && marked.kind === 'struct') {
    const fields = type.fields.map((field, i) => {
      const other = marked.fields[i];
      return other === undefined ? field : { name: field.name, type: merge(field.type, other.type, byMarker) };
    });
    return { kind: 'STRUCT', fields };
  }
  return type;
}

function requireLengths(type: LogicalType): void {
  switch (type.kind) {
    case 'CHAR':
    case 'VARCHAR':
      if (type.length >= 1 && type.length <= varcharLengthMax) return;
      throw new TypeSyntaxError(`${type.kind}(n) has 1 <= n <= ${varcharLengthMax}`);
    case 'ARRAY':
      requireLengths(type.element);
      return;
    case 'MAP':
      requireLengths(type.key);
      requireLengths(type.value);
      return;
    case 'STRUCT':
      for (const field of type.fields) requireLengths(field.type);
      return;
    default:
      return;
  }
}
