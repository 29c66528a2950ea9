// Where in a file of lines something is that the engine cannot read and says only little of: looked for by reading the file
// ourselves, after a load has failed.
import { createReadStream } from 'node:fs';
import { csvFields, lineBytesMax } from './csv_header.ts';

/** Of a line, so much is looked at. */
const keptBytesMax = 8_000_000;
const newline = 10;

/** The bytes of a line, from 1; of a very long one its beginning. */
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

/** The first line, from 1, that has more bytes. */
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

/** Which field of a line of CSV makes it too long, from 0; undefined where it is none. */
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
