// Parts of an upload: checks the position and the size of each.
import { Failure } from '../standard/failure.ts';

/** The position of a part in an upload. */
export interface Part {
  readonly offset: number;
  /** Offset of the first byte after the part; undefined: it ends where the content ends. */
  readonly end?: number | undefined;
  /** Size of the whole file; undefined: not known. */
  readonly total?: number | undefined;
  /** The SHA-256 that the content of the part must have. */
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
  const invalidOffset = (message: string) => new Failure('FILE_OFFSET_INVALID', message, { receivedBytes });
  // Offset 0 is always allowed: it discards what was received before.
  if (part.offset !== 0 && part.offset !== receivedBytes)
    throw invalidOffset(
      `the part begins at offset ${part.offset}, but ${receivedBytes} bytes of the upload are received`,
    );
  if (file.bytes !== null && part.total !== undefined && part.total !== file.bytes)
    throw invalidOffset(`the upload was created with a size of ${file.bytes} bytes`);
  const end = Math.max(part.end ?? 0, total ?? 0);
  if (end > uploadBytesMax) throw tooLarge(uploadBytesMax);
  if (total !== undefined && (part.end ?? 0) > total)
    throw invalidOffset(`the part ends beyond the ${total} bytes of the upload`);
}

/** Throws FILE_OFFSET_INVALID or BODY_TOO_LARGE if the content is longer or shorter than the part. */
export async function* exactlySized(
  content: AsyncIterable<Uint8Array>,
  part: Part,
  limit: number,
): AsyncGenerator<Uint8Array> {
  let position = part.offset;
  const endMax = part.end ?? limit;
  for await (const chunk of content) {
    position += chunk.length;
    if (position > endMax) {
      if (part.end === undefined) throw tooLarge(limit);
      throw new Failure('FILE_OFFSET_INVALID', 'the content is longer than the part', {
        receivedBytes: position - chunk.length,
      });
    }
    yield chunk;
  }
  if (part.end !== undefined && position < part.end)
    throw new Failure('FILE_OFFSET_INVALID', 'the content is shorter than the part', { receivedBytes: position });
}

function tooLarge(bytesMax: number): Failure {
  return new Failure('BODY_TOO_LARGE', `an upload can have at most ${bytesMax} bytes`, { bytesMax });
}

export function fileNotFound(fileId: string): Failure {
  const result = { category: 'uploads', name: fileId };
  return new Failure('OBJECT_NOT_FOUND', `there is no file ${JSON.stringify(fileId)}`, result);
}
