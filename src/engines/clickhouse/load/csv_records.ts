// Splits a CSV file into records in JavaScript: for the head of a file, for files that ClickHouse's parser cannot read (other quotes, comments),
// and to find the rows that do not fit, of which its parser knows neither the number nor the text.
import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { lineBytesMax } from '../../data_files/csv_lines.ts';
import type { CsvOptions } from '../../port/load.ts';

export interface CsvField {
  readonly text: string;
  readonly isQuoted: boolean;
  /** The bytes are not of the encoding; the text is not usable. */
  readonly isBroken?: boolean;
}

export interface CsvRecord {
  readonly fields: readonly CsvField[];
  /** As in the file, without the line break. */
  readonly text: string;
}

export type Encoding = NonNullable<CsvOptions['encoding']>;

/** How a file is split. */
export interface Dialect {
  readonly delimiter: string;
  /** Empty: none. */
  readonly quote: string;
  readonly escape: string;
  readonly comment: string;
  readonly encoding: Encoding;
}

export const dialectOf = ({
  delimiter = ',',
  quote = '"',
  escape: escaping,
  comment = '',
  encoding = 'utf-8',
}: CsvOptions): Dialect => ({
  delimiter,
  quote,
  escape: escaping ?? quote,
  comment,
  encoding,
});

/** A record that is still longer is not read to its end. */
const retainedCharactersMax = 8_000_000;

/** A record is longer than can be read. */
export class EndlessRecord extends Error {
  override name = 'EndlessRecord';
}

/** `skip`: lines at the beginning that are not read. Empty lines and comments are left out. Throws EndlessRecord. */
export async function* csvRecords(path: string, dialect: Dialect, skip = 0): AsyncGenerator<CsvRecord> {
  const splitter = new RecordSplitter(dialect, skip);
  for await (const text of textsOf(path, dialect.encoding)) yield* splitter.add(text, false);
  yield* splitter.add('', true);
}

/** The text of a file without its byte order mark. UTF-8 is read as one character for each byte, so that broken bytes stay recognizable. */
async function* textsOf(path: string, encoding: Encoding): AsyncGenerator<string> {
  const chunks = createReadStream(path, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>;
  let decoder: TextDecoder | undefined;
  let isFirst = true;
  for await (let chunk of chunks) {
    if (isFirst && encoding === 'utf-16') decoder = new TextDecoder(isBigEndian(chunk) ? 'utf-16be' : 'utf-16le');
    if (isFirst && encoding === 'utf-8' && hasByteOrderMark(chunk)) chunk = chunk.subarray(3);
    isFirst = false;
    yield decoder ? decoder.decode(chunk, { stream: true }) : chunk.toString('latin1');
  }
  const rest = decoder?.decode();
  if (rest) yield rest;
}

export const isBigEndian = (head: Buffer): boolean => head[0] === 0xfe && head[1] === 0xff;
export const hasByteOrderMark = (head: Buffer): boolean => head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf;

class RecordSplitter {
  readonly #dialect: Dialect;
  readonly #end: RegExp;
  #skip: number;
  #buffer = '';

  constructor(dialect: Dialect, skip: number) {
    this.#dialect = dialect;
    this.#skip = skip;
    this.#end = new RegExp(`[${escaped(dialect.delimiter[0] ?? ',')}\\n\\r]`, 'g');
  }

  *add(text: string, isLast: boolean): Generator<CsvRecord> {
    this.#buffer = this.#buffer === '' ? text : this.#buffer + text;
    let position = 0;
    for (;;) {
      const found = this.#next(position, isLast);
      if (!found) break;
      position = found.next;
      if (found.record) yield found.record;
    }
    this.#buffer = this.#buffer.slice(position);
    if (this.#buffer.length > retainedCharactersMax) throw new EndlessRecord();
  }

  /** Undefined: the record does not end in the buffer. */
  #next(start: number, isLast: boolean): { readonly next: number; readonly record?: CsvRecord } | undefined {
    const buffer = this.#buffer;
    if (start >= buffer.length) return undefined;
    const { comment } = this.#dialect;
    if (this.#skip > 0 || (comment !== '' && buffer.startsWith(comment, start))) {
      const next = this.#lineEnd(start, isLast);
      if (next === undefined) return undefined;
      if (this.#skip > 0) this.#skip--;
      return { next };
    }
    const fields: CsvField[] = [];
    for (let position = start; ; ) {
      const field = this.#field(position);
      if (field.end >= buffer.length && !isLast) return undefined;
      fields.push(field);
      const sign = buffer[field.end];
      if (sign !== undefined && sign !== '\n' && sign !== '\r') {
        position = field.end + this.#dialect.delimiter.length;
        // A delimiter at the end of the file precedes an empty field.
        if (position < buffer.length || !isLast) continue;
        fields.push({ text: '', isQuoted: false });
        return { next: buffer.length, record: this.#record(fields, start, buffer.length) };
      }
      let next = field.end + 1;
      if (sign === '\r') {
        if (next >= buffer.length && !isLast) return undefined;
        if (buffer[next] === '\n') next++;
      }
      if (field.end === start && fields.length === 1 && !field.isQuoted) return { next };
      return { next, record: this.#record(fields, start, field.end) };
    }
  }

  #record(fields: readonly CsvField[], start: number, end: number): CsvRecord {
    const isBytes = this.#dialect.encoding === 'utf-8';
    const record = this.#buffer.slice(start, end);
    if (!isBytes || !hasHighBytes(record)) return { fields, text: record };
    const decoded = fields.map((field) => {
      if (!hasHighBytes(field.text)) return field;
      const bytes = Buffer.from(field.text, 'latin1');
      return isUtf8(bytes) ? { ...field, text: bytes.toString() } : { ...field, isBroken: true };
    });
    return { fields: decoded, text: Buffer.from(record, 'latin1').toString() };
  }

  #lineEnd(start: number, isLast: boolean): number | undefined {
    const end = this.#buffer.indexOf('\n', start);
    if (end >= 0) return end + 1;
    return isLast ? this.#buffer.length : undefined;
  }

  /** `end`: the position of the delimiter or line break after the field. */
  #field(start: number): CsvField & { readonly end: number } {
    const { quote } = this.#dialect;
    if (quote !== '' && this.#buffer.startsWith(quote, start)) return this.#quotedField(start + quote.length);
    const end = this.#unquotedEnd(start);
    return { text: this.#buffer.slice(start, end), isQuoted: false, end };
  }

  #unquotedEnd(start: number): number {
    const { delimiter } = this.#dialect;
    for (let from = start; ; ) {
      this.#end.lastIndex = from;
      const found = this.#end.exec(this.#buffer);
      if (!found) return this.#buffer.length;
      if (found[0] === '\n' || found[0] === '\r' || this.#buffer.startsWith(delimiter, found.index)) return found.index;
      from = found.index + 1;
    }
  }

  #quotedField(start: number): CsvField & { readonly end: number } {
    const { quote, escape: escaping } = this.#dialect;
    const buffer = this.#buffer;
    let text = '';
    for (let from = start; ; ) {
      const closing = buffer.indexOf(quote, from);
      const escapes = escaping === quote ? closing : buffer.indexOf(escaping, from);
      const at = escapes >= 0 && (closing < 0 || escapes < closing) ? escapes : closing;
      if (at < 0) return { text: text + buffer.slice(from), isQuoted: true, end: buffer.length };
      text += buffer.slice(from, at);
      const following = buffer[at + 1];
      if (at === escapes && (following === quote || (following === escaping && escaping !== quote))) {
        text += following;
        from = at + 2;
      } else if (at === closing) {
        const end = this.#unquotedEnd(at + 1);
        return { text: text + buffer.slice(at + 1, end), isQuoted: true, end };
      } else {
        text += escaping;
        from = at + 1;
      }
    }
  }
}

const hasHighBytes = (text: string): boolean => /[\x80-\xff]/.test(text);
const escaped = (sign: string): string => sign.replaceAll(/[\\\]^-]/g, '\\$&');

/** Whether a field is longer than a line may be. */
export const isTooLong = ({ text }: CsvField): boolean => text.length > lineBytesMax;
