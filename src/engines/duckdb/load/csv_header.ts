// The parts of a CSV file that are not left to DuckDB: the delimiter and fields of its first line, and the check that it has lines.
import { open } from 'node:fs/promises';

/** DuckDB refuses longer lines, but silently drops a line that is longer than its buffers (32 MB). */
export const lineBytesMax = 2_000_000;
const windowBytes = 8_000_000;
const lookBytes = 65_536;

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
  for (let at = 0; ; ) {
    let field = '';
    if (quote !== '' && line.startsWith(quote, at)) {
      for (at += 1; ; at++) {
        if (at >= line.length) return undefined;
        if (line[at] === escaping && (line[at + 1] === quote || line[at + 1] === escaping)) field += line[++at];
        else if (line[at] === quote) break;
        else field += line[at];
      }
      at++;
    }
    const end = line.indexOf(delimiter, at);
    fields.push(field + line.slice(at, end < 0 ? line.length : end));
    if (end < 0) return fields;
    at = end + delimiter.length;
  }
}

/** False if a line is longer than a window. Usually reads one chunk of each window only. */
export async function hasLines(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const look = Buffer.allocUnsafe(lookBytes);
    for (let window = 0; window + windowBytes <= size; window += windowBytes) {
      let isFound = false;
      for (let at = window; !isFound && at < window + windowBytes; at += lookBytes) {
        const { bytesRead } = await file.read(look, 0, lookBytes, at);
        const seen = look.subarray(0, bytesRead);
        isFound = seen.includes(10) || seen.includes(13);
      }
      if (!isFound) return false;
    }
    return true;
  } finally {
    await file.close();
  }
}
