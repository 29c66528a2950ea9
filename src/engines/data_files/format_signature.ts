// Recognizes data files that are not of the format in which they are to be read, by their first bytes.
import { open } from 'node:fs/promises';
import type { DataFormat } from '../port/load.ts';

const signatureBytes = 64;

const kinds: readonly (readonly [string, (head: Buffer) => boolean])[] = [
  ['is Parquet: set `format`', (head) => head.toString('latin1', 0, 4) === 'PAR1'],
  ['is compressed with gzip: set `compression`', (head) => head.readUInt16BE(0) === 0x1f8b],
  ['is compressed with zstd: set `compression`', (head) => head.readUInt32BE(0) === 0x28b52ffd],
  ['is a ZIP archive, which is not supported', (head) => head.readUInt32BE(0) === 0x504b0304],
];
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
/** Nobody names a CSV column like this. */
const isJson = /^\s*(?:\[\s*)?\{\s*"(?:[^"\\]|\\.)*"\s*:/;

/** How the file conflicts with the declared format, as the end of a message; undefined if it may have that format. */
export async function conflictingFormat(path: string, format: DataFormat): Promise<string | undefined> {
  const file = await open(path);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(signatureBytes), 0, signatureBytes, 0);
    const head = buffer.subarray(0, bytesRead);
    if (head.length < 4 || format === 'parquet') return undefined;
    const known = kinds.find(([, is]) => is(head));
    if (known) return known[0];
    if (format !== 'csv' && head.subarray(0, 3).equals(byteOrderMark))
      return 'begins with a byte order mark (BOM), which JSON has not';
    return format === 'csv' && isJson.test(head.toString()) ? 'is JSON: set `format`' : undefined;
  } finally {
    await file.close();
  }
}
