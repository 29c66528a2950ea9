// The n of VARCHAR(n) in a CREATE TABLE statement. DuckDB drops it while parsing and shows it nowhere. So every place that looks like
// such a type is replaced by a DECIMAL that stands for it, and DuckDB is asked again: where a column was a VARCHAR and is now that
// DECIMAL, the place was its type. Places in strings, names and comments change no type and so mean nothing.
import { type LogicalType, TypeSyntaxError, varcharLengthMax } from '../../../model/types.ts';
import { type EngineType, parseEngineType } from '../types/type_parser.ts';

type TextType = Extract<LogicalType, { readonly kind: 'CHAR' | 'VARCHAR' }>;

const textTypes = /(?<![\w$"])(character\s+varying|nvarchar|varchar|bpchar|character|char)\s*\(\s*(\d{1,18})\s*\)/gi;

interface Place {
  readonly start: number;
  readonly end: number;
  readonly type: TextType;
}

/** Where the text as a whole cannot be asked about, this many places are tried alone. */
const placesAloneMax = 64;

/**
 * @param types what the columns are without lengths.
 * @param typesOf makes the table of another text and gives its columns' type texts.
 * @throws TypeSyntaxError for a length that is out of range.
 */
export async function withTextLengths(
  sql: string,
  types: readonly LogicalType[],
  typesOf: (sql: string) => Promise<readonly string[]>,
): Promise<readonly LogicalType[]> {
  const places = [...sql.matchAll(textTypes)].map((match): Place => {
    const kind = /^(?:character|char|bpchar)$/i.test(match[1]!) ? 'CHAR' : 'VARCHAR';
    const start = match.index;
    return { start, end: start + match[0].length, type: { kind, length: Number(match[2]) } };
  });
  let found = types;
  for (const round of rounds(places)) {
    const next = await asked(sql, round, found, typesOf);
    if (next !== undefined) found = next;
    else if (places.length <= placesAloneMax) {
      for (const place of round) found = (await asked(sql, [place], found, typesOf)) ?? found;
    }
  }
  for (const type of found) requireLengths(type);
  return found;
}

/** All markers there are: DECIMAL(1,0) to DECIMAL(38,38). */
const markers = Array.from({ length: 38 }, (_, p) => Array.from({ length: p + 2 }, (_, s) => `${p + 1},${s}`)).flat();

const keyOf = (type: TextType): string => `${type.kind} ${type.length}`;

/** Places in groups that have no more different types than there are markers. */
function* rounds(places: readonly Place[]): Generator<readonly Place[]> {
  const keys = [...new Set(places.map((place) => keyOf(place.type)))];
  for (let at = 0; at < keys.length; at += markers.length) {
    const these = new Set(keys.slice(at, at + markers.length));
    yield places.filter((place) => these.has(keyOf(place.type)));
  }
}

/** The types with the lengths of these places put in; undefined where DuckDB refuses the marked text. */
async function asked(
  sql: string,
  places: readonly Place[],
  types: readonly LogicalType[],
  typesOf: (sql: string) => Promise<readonly string[]>,
): Promise<readonly LogicalType[] | undefined> {
  const byKey = new Map<string, string>();
  const byMarker = new Map<string, TextType>();
  let marked = '';
  let at = 0;
  for (const { start, end, type } of places) {
    const marker = byKey.get(keyOf(type)) ?? markers[byKey.size]!;
    byKey.set(keyOf(type), marker);
    byMarker.set(marker, type);
    marked += `${sql.slice(at, start)}DECIMAL(${marker})`;
    at = end;
  }
  try {
    const texts = await typesOf(marked + sql.slice(at));
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
