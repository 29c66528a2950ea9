// What the adapters read of a CSV file themselves: the delimiter, the fields of one line, and the position of lines that an engine refuses
// without a sufficient description.
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';

/** Longer lines of CSV are refused. (DuckDB silently drops a line that is longer than its buffers, 32 MB.) */
export const lineBytesMax = 2_000_000;
const windowBytes = 8_000_000;
const chunkBytes = 65_536;

const delimiters = [',', ';', '\t', '|'];

/** The usual delimiter that occurs most often outside quotes; a comma if none does. */
export function delimiterOf(line: string, quote: string): string {
  const counts = new Map<string, number>();
  let isQuoted = false;
  for (const sign of line) {
    if (sign === quote) isQuoted = !isQuoted;
    else if (!isQuoted) counts.set(sign, (counts.get(sign) ?? 0) + 1);
  }
  return delimiters.toSorted((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0))[0] as string;
}

/** Undefined if a quoted field does not end in the line. */
export function csvFields(
  line: string,
  { delimiter, quote, escape: escaping = quote }: { delimiter: string; quote: string; escape?: string | undefined },
): string[] | undefined {
  const fields: string[] = [];
  for (let position = 0; ; ) {
    let field = '';
    if (quote !== '' && line.startsWith(quote, position)) {
      for (position += 1; ; position++) {
        if (position >= line.length) return undefined;
        if (line[position] === escaping && (line[position + 1] === quote || line[position + 1] === escaping))
          field += line[++position];
        else if (line[position] === quote) break;
        else field += line[position];
      }
      position++;
    }
    const end = line.indexOf(delimiter, position);
    fields.push(field + line.slice(position, end < 0 ? line.length : end));
    if (end < 0) return fields;
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
