// What the adapters read of a CSV file themselves: the delimiter, the fields of the first record, and the position of lines that an engine
// refuses without a sufficient description.
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { foldName } from '../../model/names.ts';
import type { CsvOptions } from '../port/load.ts';
import { dataInvalid } from './load_failures.ts';

/** Longer lines of CSV are refused. (DuckDB silently drops a line that is longer than its buffers, 32 MB.) */
export const lineBytesMax = 2_000_000;
const windowBytes = 8_000_000;
const chunkBytes = 65_536;

const delimiters = [',', ';', '\t', '|'];

export interface FirstRecord {
  readonly delimiter: string;
  readonly fields: readonly string[];
}

/** In how many lines the first record may be. */
const recordLinesMax = 1000;

/** @param read the first lines of the file, at most so many. Throws DATA_INVALID if they do not begin with a record. */
export async function firstRecord(
  read: (linesMax: number) => Promise<readonly string[]>,
  csv: CsvOptions,
  columnsMax: number,
): Promise<FirstRecord> {
  const [first] = await read(1);
  if (first === undefined) throw dataInvalid('the file is empty');
  if (first.includes('\0'))
    throw dataInvalid('the first line has zero bytes; if the file is in UTF-16, set `csv.encoding`', { line: 1 });
  const dialect = { ...csv, quote: csv.quote ?? '"' };
  for (const linesMax of [1, recordLinesMax]) {
    const text = (await read(linesMax)).join('\n');
    const delimiter = dialect.delimiter ?? delimiterOf(text, dialect.quote);
    const fields = csvFields(text, { ...dialect, delimiter });
    if (!fields) continue;
    if (fields.length > columnsMax) throw dataInvalid(`the file has more than ${columnsMax} columns`, { line: 1 });
    return { delimiter, fields };
  }
  throw dataInvalid('the first row has an unclosed quote', { row: 1 });
}

/** Characters that do not occur in column names. */
const isData = /^[\d\s.,:/+-]*$/;

/**
 * Whether the first record is a header. `headings`: the names of columns, any of which makes it one. Undefined: the records below decide.
 */
export function isHeader(fields: readonly string[], headings: readonly string[]): boolean | undefined {
  const known = new Set(headings.map(foldName));
  if (fields.some((field) => known.has(foldName(field)))) return true;
  const named = fields.filter((field) => field.trim() !== '');
  return named.length === 0 || named.some((field) => isData.test(field)) ? false : undefined;
}

/** The usual delimiter that occurs most often in the first record outside quotes; a comma if none does. */
function delimiterOf(text: string, quote: string): string {
  const counts = new Map<string, number>();
  let isQuoted = false;
  for (const sign of text) {
    if (sign === '\n' && !isQuoted) break;
    if (sign === quote) isQuoted = !isQuoted;
    else if (!isQuoted) counts.set(sign, (counts.get(sign) ?? 0) + 1);
  }
  return delimiters.toSorted((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0))[0] as string;
}

/** The fields of the first record; undefined if a quoted one does not end in the text. */
function csvFields(
  text: string,
  { delimiter, quote, escape: escaping = quote }: { delimiter: string; quote: string; escape?: string | undefined },
): string[] | undefined {
  const fields: string[] = [];
  let lineEnd = -1;
  for (let position = 0; ; ) {
    let field = '';
    if (quote !== '' && text.startsWith(quote, position)) {
      for (position += 1; ; position++) {
        if (position >= text.length) return undefined;
        if (text[position] === escaping && (text[position + 1] === quote || text[position + 1] === escaping))
          field += text[++position];
        else if (text[position] === quote) break;
        else field += text[position];
      }
      position++;
    }
    if (lineEnd < position) {
      const found = text.indexOf('\n', position);
      lineEnd = found < 0 ? text.length : found;
    }
    const end = text.indexOf(delimiter, position);
    const isLast = end < 0 || end >= lineEnd;
    fields.push(field + text.slice(position, isLast ? lineEnd : end));
    if (isLast) return fields;
    position = end + delimiter.length;
  }
}

/** False if a line is longer than a window. Usually reads one chunk of each window only. */
export async function hasLines(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const buffer = Buffer.allocUnsafe(chunkBytes);
    for (let window = 0; window + windowBytes <= size; window += windowBytes) {
      let isFound = false;
      for (let position = window; !isFound && position < window + windowBytes; position += chunkBytes) {
        const { bytesRead } = await file.read(buffer, 0, chunkBytes, position);
        const chunk = buffer.subarray(0, bytesRead);
        isFound = chunk.includes(10) || chunk.includes(13);
      }
      if (!isFound) return false;
    }
    return true;
  } finally {
    await file.close();
  }
}

/** How much of a line is retained. */
const retainedBytesMax = 8_000_000;
const newline = 10;

/** The bytes of a line, counted from 1; only the beginning of a very long line. */
export async function lineAt(path: string, line: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let [lineNumber, bytes] = [1, 0];
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    for (let from = 0; from < chunk.length; ) {
      const end = chunk.indexOf(newline, from);
      const to = end < 0 ? chunk.length : end;
      if (lineNumber === line && bytes < retainedBytesMax) {
        chunks.push(chunk.subarray(from, to));
        bytes += to - from;
      }
      if (end < 0) break;
      if (lineNumber === line) return Buffer.concat(chunks);
      lineNumber++;
      from = end + 1;
    }
  }
  return lineNumber === line && bytes > 0 ? Buffer.concat(chunks) : undefined;
}

/** The number, from 1, of the first line with more bytes. */
export async function lineLongerThan(path: string, bytesMax: number): Promise<number | undefined> {
  let [lineNumber, bytes] = [1, 0];
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    for (let from = 0; from <= chunk.length; ) {
      const end = chunk.indexOf(newline, from);
      bytes += (end < 0 ? chunk.length : end) - from;
      if (bytes > bytesMax) return lineNumber;
      if (end < 0) break;
      lineNumber++;
      bytes = 0;
      from = end + 1;
    }
  }
  return undefined;
}

/** The index of the longest field of a CSV line that is too long; undefined if the line is not too long. */
export function longestField(
  line: Buffer,
  { delimiter, quote, escape: escaping }: { delimiter: string; quote: string; escape?: string | undefined },
): number | undefined {
  if (line.length <= lineBytesMax) return undefined;
  const text = line.toString();
  const fields = csvFields(text, { delimiter, quote, escape: escaping }) ?? text.split(delimiter);
  const lengths = fields.map((field) => field.length);
  return lengths.indexOf(Math.max(...lengths));
}
