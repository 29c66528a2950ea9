// The encoding of a text file, from the bytes at its beginning: the server reads UTF-8 unless the request states another one, and
// spreadsheets save Latin-1 and UTF-16. What the beginning does not show can be chosen in the form.
import type { Encoding } from './load_session.ts';

const sampleBytes = 1_048_576;
const textFile = /\.(?:csv|tsv|txt)$/i;

/** Whether the file is CSV by its name and not compressed. */
export const isCsvName = (name: string): boolean => textFile.test(name);

/** Undefined if the file is not CSV by its name, or may be in UTF-8. */
export async function otherEncoding(file: File): Promise<Encoding | undefined> {
  if (!isCsvName(file.name)) return undefined;
  const bytes = new Uint8Array(await file.slice(0, sampleBytes).arrayBuffer());
  const [first, second] = bytes;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) return 'utf-16';
  // Zero bytes are neither UTF-8 text nor Latin-1: the server says what is wrong.
  if (bytes.includes(0)) return undefined;
  try {
    // As a stream, so that a character that the end of the sample cuts off is no error.
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    return undefined;
  } catch {
    return 'latin-1';
  }
}
