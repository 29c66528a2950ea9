// Parts of an upload: where one belongs, and that no more and no less comes than was said.
import { Failure } from '../standard/failure.ts';

/** Where a part of an upload belongs. */
export interface Part {
  readonly offset: number;
  /** The first byte after it; undefined: it ends where the content ends. */
  readonly end?: number | undefined;
  /** Of the whole file; undefined: not known. */
  readonly total?: number | undefined;
  /** SHA-256 that this content must have. */
  readonly digest?: Uint8Array | undefined;
}

/** Throws FILE_OFFSET_INVALID, BODY_TOO_LARGE. */
export function validatePart(
  file: { readonly bytes: number | null; readonly receivedBytes: number },
  part: Part,
  total: number | undefined,
  uploadBytesMax: number,
): void {
  const { receivedBytes } = file;
  const wrong = (message: string) => new Failure('FILE_OFFSET_INVALID', message, { receivedBytes });
  // From the beginning is always possible: what came before is thrown away.
  if (part.offset !== 0 && part.offset !== receivedBytes)
    throw wrong(`the part begins at ${part.offset}, of the upload ${receivedBytes} bytes are here`);
  if (file.bytes !== null && part.total !== undefined && part.total !== file.bytes)
    throw wrong(`the upload was announced with ${file.bytes} bytes`);
  const end = Math.max(part.end ?? 0, total ?? 0);
  if (end > uploadBytesMax) throw tooLarge(uploadBytesMax);
  if (total !== undefined && (part.end ?? 0) > total)
    throw wrong(`the part ends after the ${total} bytes of the upload`);
}

/** Throws where more or less comes than was said. */
export async function* exactlySized(
  content: AsyncIterable<Uint8Array>,
  part: Part,
  limit: number,
): AsyncGenerator<Uint8Array> {
  let at = part.offset;
  const endMax = part.end ?? limit;
  for await (const chunk of content) {
    at += chunk.length;
    if (at > endMax) {
      if (part.end === undefined) throw tooLarge(limit);
      throw new Failure('FILE_OFFSET_INVALID', 'more came than the part has', { receivedBytes: at - chunk.length });
    }
    yield chunk;
  }
  if (part.end !== undefined && at < part.end)
    throw new Failure('FILE_OFFSET_INVALID', 'less came than the part has', { receivedBytes: at });
}

function tooLarge(bytesMax: number): Failure {
  return new Failure('BODY_TOO_LARGE', `an upload has at most ${bytesMax} bytes`, { bytesMax });
}

export function fileNotFound(fileId: string): Failure {
  const result = { category: 'uploads', name: fileId };
  return new Failure('OBJECT_NOT_FOUND', `there is no file ${JSON.stringify(fileId)}`, result);
}
