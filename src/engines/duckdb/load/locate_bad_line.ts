// Locates a line that the engine cannot read and does not describe sufficiently, by reading the file after a load has failed.
import { createReadStream } from 'node:fs';
import { csvFields, lineBytesMax } from './csv_header.ts';

/** Of a line, so much is looked at. */
const keptBytesMax = 8_000_000;
const newline = 10;

/** The bytes of a line, counted from 1; only the beginning of a very long line. */
export async function lineAt(path: string, line: number): Promise<Buffer | undefined> {
  const kept: Buffer[] = [];
  let [at, bytes] = [1, 0];
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    for (let from = 0; from < chunk.length; ) {
      const end = chunk.indexOf(newline, from);
      const to = end < 0 ? chunk.length : end;
      if (at === line && bytes < keptBytesMax) {
        kept.push(chunk.subarray(from, to));
        bytes += to - from;
      }
      if (end < 0) break;
      if (at === line) return Buffer.concat(kept);
      at++;
      from = end + 1;
    }
  }
  return at === line && bytes > 0 ? Buffer.concat(kept) : undefined;
}

/** The number, from 1, of the first line with more bytes. */
export async function lineLongerThan(path: string, bytesMax: number): Promise<number | undefined> {
  let [at, bytes] = [1, 0];
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    for (let from = 0; from <= chunk.length; ) {
      const end = chunk.indexOf(newline, from);
      bytes += (end < 0 ? chunk.length : end) - from;
      if (bytes > bytesMax) return at;
      if (end < 0) break;
      at++;
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
