// Rows as lines of CSV or NDJSON, from their JSON texts (types/json_rows.ts), so that every digit is preserved.
import type { LogicalType } from '../../../model/types.ts';
import type { ExportFormat } from '../../port/export.ts';

export interface TextColumn {
  readonly name: string;
  readonly logical: LogicalType | undefined;
}

/** The lines of rows, and what precedes them in each file. */
export interface TextRows {
  readonly head: string;
  readonly lineOf: (values: readonly string[]) => string;
}

export function textRows(
  format: Extract<ExportFormat, { kind: 'csv' | 'ndjson' }>,
  columns: readonly TextColumn[],
): TextRows {
  if (format.kind === 'ndjson') {
    const labels = columns.map(({ name }, i) => `${i === 0 ? '' : ','}${JSON.stringify(name)}:`);
    return { head: '', lineOf: (values) => `{${labels.map((label, i) => `${label}${values[i]}`).join('')}}\n` };
  }
  const { delimiter, header, nullText } = format;
  const quoted = (text: string): string =>
    text === nullText || text.includes(delimiter) || /["\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const writers = columns.map(({ logical }) => csvText(logical));
  return {
    head: header ? `${columns.map(({ name }) => quoted(name)).join(delimiter)}\n` : '',
    lineOf: (values) =>
      `${values
        .map((value, i) => (value === 'null' ? nullText : quoted((writers[i] ?? textOf)(value))))
        .join(delimiter)}\n`,
  };
}

type CsvText = (json: string) => string;

const textOf: CsvText = (json) => (json.startsWith('"') ? (JSON.parse(json) as string) : json);

/** As every engine of the product writes it: base64 for bytes, JSON for nested values. */
function csvText(type: LogicalType | undefined): CsvText {
  switch (type?.kind) {
    case 'FLOAT':
    case 'DOUBLE':
      return floatText;
    case 'DATETIME':
      return (json) => textOf(json).replace('T', ' ');
    case 'TIMESTAMPTZ':
      return (json) => textOf(json).replace('T', ' ').replace('Z', '+00');
    default:
      return textOf;
  }
}

const floatText: CsvText = (json) => {
  const text = textOf(json);
  if (/^-?\d+$/.test(text)) return `${text}.0`;
  return text.replace('NaN', 'nan').replace('Infinity', 'inf').replace(/e(\d)/, 'e+$1');
};

/** The texts of the values of each row. `rows`: JSON arrays, each with `,\n` after it. */
export function* valuesOfRows(rows: string): Generator<string[]> {
  for (let at = 0; at < rows.length; ) {
    const values: string[] = [];
    let place = at + 1;
    let start = place;
    for (let depth = 0; ; place++) {
      const char = rows[place];
      if (char === undefined) throw new Error('a row of a response does not end');
      if (char === '"') place = endOfString(rows, place);
      else if (char === '[' || char === '{') depth++;
      else if (depth > 0) depth -= char === ']' || char === '}' ? 1 : 0;
      else if (char === ',' || char === ']') {
        values.push(rows.slice(start, place));
        start = place + 1;
        if (char === ']') break;
      }
    }
    at = place + 3;
    yield values;
  }
}

/** The place of the quote that ends the string which begins here. */
function endOfString(rows: string, at: number): number {
  for (let quote = rows.indexOf('"', at + 1); quote >= 0; quote = rows.indexOf('"', quote + 1)) {
    let slashes = 0;
    while (rows[quote - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return quote;
  }
  throw new Error('a string of a response does not end');
}
