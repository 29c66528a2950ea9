// Reads CSV files as they arrive: records with their fields, and the options that a load leaves open.
import { isUtf8 } from 'node:buffer';
import type { CsvOptions } from '../../../../src/engines/port/load.ts';
import { dataInvalid } from './load_errors.ts';

export interface CsvRecord {
  /** A field in quotes is never the text of null if quoted nulls are off. */
  readonly fields: readonly { readonly text: string; readonly isQuoted: boolean }[];
  readonly text: string;
}

export const fieldCharactersMax = 2 * 1024 * 1024;
const recordCharactersMax = 2 * fieldCharactersMax;
const delimiters = [',', ';', '\t', '|'];

/** The texts of a file. UTF-8 is decoded field by field (`decodeField`), so that a fault has a row and a column. */
export async function* textsOf(
  input: AsyncIterable<Buffer>,
  encoding: CsvOptions['encoding'] = 'utf-8',
): AsyncGenerator<string> {
  const decoder = new TextDecoder(encoding === 'utf-16' ? 'utf-16le' : 'latin1');
  for await (const chunk of input)
    yield encoding === 'utf-16' ? decoder.decode(chunk, { stream: true }) : chunk.toString('latin1');
}

/** A field of `textsOf` as text; undefined if its bytes are not UTF-8. */
export function decodeField(text: string, encoding: CsvOptions['encoding'] = 'utf-8'): string | undefined {
  if (encoding !== 'utf-8' || /^[\x00-\x7f]*$/.test(text)) return text;
  const bytes = Buffer.from(text, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : undefined;
}

export async function* csvRecords(
  texts: AsyncIterable<string>,
  { delimiter, quote = '"', escape: escapeMark = quote, comment, skipRows = 0 }: CsvOptions,
): AsyncGenerator<CsvRecord> {
  let buffer = '';
  let skipped = 0;
  let separator = delimiter;
  const take = (isLast: boolean): CsvRecord[] => {
    const records: CsvRecord[] = [];
    for (let start = 0; ; ) {
      const isSkipped = skipped < skipRows;
      const isComment = comment !== undefined && buffer.startsWith(comment, start);
      const end = isSkipped || isComment ? lineEnd(buffer, start) : recordEnd(buffer, start, quote, escapeMark);
      if (end < 0 && !(isLast && start < buffer.length)) {
        buffer = buffer.slice(start);
        if (buffer.length > recordCharactersMax) throw tooLong();
        return records;
      }
      const line = buffer.slice(start, end < 0 ? buffer.length : end).replace(/\r$/, '');
      if (end < 0 && !isSkipped && !isComment && isOpenAt(line, quote, escapeMark))
        throw dataInvalid('the last line of the file has an unclosed quote');
      start = end < 0 ? buffer.length : end + 1;
      if (isSkipped) skipped++;
      else if (!isComment && line !== '') {
        if (line.length > recordCharactersMax) throw tooLong();
        separator ??= mostFrequent(line);
        records.push({ fields: fieldsOf(line, separator, quote, escapeMark), text: line });
      }
    }
  };
  for await (const text of texts) {
    buffer += text;
    yield* take(false);
  }
  yield* take(true);
}

const tooLong = () => dataInvalid(`the file has a line of more than ${recordCharactersMax} characters`);

const lineEnd = (text: string, start: number): number => text.indexOf('\n', start);

/** The index of the newline that ends the record, or -1. */
function recordEnd(text: string, start: number, quote: string, escapeMark: string): number {
  for (let from = start; ; ) {
    const end = text.indexOf('\n', from);
    if (end < 0) return -1;
    if (!isOpenAt(text.slice(start, end), quote, escapeMark)) return end;
    from = end + 1;
  }
}

/** Whether a quote is open at the end of the text. */
function isOpenAt(text: string, quote: string, escapeMark: string): boolean {
  let isOpen = false;
  for (let at = 0; at < text.length; at++) {
    if (isOpen && escapeMark !== quote && text[at] === escapeMark) at++;
    else if (text[at] === quote) isOpen = !isOpen;
  }
  return isOpen;
}

function mostFrequent(line: string): string {
  const counts = delimiters.map((candidate) => line.split(candidate).length);
  return delimiters[counts.indexOf(Math.max(...counts))] ?? ',';
}

function fieldsOf(line: string, delimiter: string, quote: string, escapeMark: string): CsvRecord['fields'] {
  const fields: { text: string; isQuoted: boolean }[] = [];
  for (let at = 0; ; ) {
    if (line[at] !== quote) {
      const end = line.indexOf(delimiter, at);
      fields.push({ text: line.slice(at, end < 0 ? line.length : end), isQuoted: false });
      if (end < 0) return fields;
      at = end + delimiter.length;
      continue;
    }
    let text = '';
    for (at++; at < line.length; at++) {
      if (line[at] === escapeMark && line[at + 1] === quote) text += line[++at];
      else if (line[at] === quote) break;
      else text += line[at];
    }
    const end = line.indexOf(delimiter, at);
    fields.push({ text: text + line.slice(at + 1, end < 0 ? line.length : end), isQuoted: true });
    if (end < 0) return fields;
    at = end + delimiter.length;
  }
}
