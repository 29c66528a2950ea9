// The beginning of a data file, with whole rows, as a file of its own: enough for a preview.
import { randomUUID } from 'node:crypto';
import { open, rm, stat, writeFile } from 'node:fs/promises';
import type { FileShape } from './file_shape.ts';

const headBytes = 1_048_576;
const newline = 10;

export interface FileHead {
  readonly path: string;
  /** It has fewer rows. */
  readonly rowsMax: number;
  remove(): Promise<void>;
}

/** The whole file where it is short, or its beginning cannot be separated from the rest. */
export async function writeHead({ file, csv }: FileShape): Promise<FileHead> {
  const { size } = await stat(file.path);
  const isWhole = size <= headBytes || file.format === 'parquet' || file.format === 'json' || csv.encoding === 'utf-16';
  const whole = { path: file.path, rowsMax: Number.MAX_SAFE_INTEGER, remove: async () => undefined };
  if (isWhole) return whole;
  const handle = await open(file.path);
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(headBytes), 0, headBytes, 0);
    const end = buffer.subarray(0, bytesRead).lastIndexOf(newline);
    if (end < 0) return whole;
    const path = `${file.path}.${randomUUID()}`;
    await writeFile(path, buffer.subarray(0, end + 1));
    return { path, rowsMax: headBytes, remove: () => rm(path, { force: true }) };
  } finally {
    await handle.close();
  }
}
