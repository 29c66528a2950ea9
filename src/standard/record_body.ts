// The body of an outcome: a record as an object or already serialized, or the pieces of its text, which are sent one after the other.
// See envelope.ts for the response.

import { type RecordVersion, versionOf } from './record_version.ts';

/** Bytes that are read while they are sent, so that they are not in memory together. */
export interface ReadPiece {
  readonly byteLength: number;
  /** A chunk is valid until the next one is requested. */
  read(): AsyncIterable<Uint8Array>;
}

export type BodyPiece = string | Uint8Array | ReadPiece;

export const isReadPiece = (piece: BodyPiece): piece is ReadPiece =>
  typeof piece !== 'string' && !(piece instanceof Uint8Array);

export const pieceBytes = (piece: BodyPiece): number =>
  typeof piece === 'string' ? Buffer.byteLength(piece) : piece.byteLength;

/** All bytes of the pieces. */
export async function concatenate(pieces: readonly BodyPiece[]): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  for (const piece of pieces) {
    if (!isReadPiece(piece)) parts.push(Buffer.from(piece as Uint8Array));
    else for await (const chunk of piece.read()) parts.push(Uint8Array.from(chunk));
  }
  return Buffer.concat(parts);
}

/** JSON text of one object of type T, as pieces that are sent one after the other. */
export class JsonText<T extends object = object> {
  declare readonly value?: T;
  readonly pieces: readonly BodyPiece[];
  constructor(...pieces: BodyPiece[]) {
    this.pieces = pieces;
  }
}

/** A record of type T, or its JSON text. */
export type RecordBody<T extends object = object> = T | JsonText<T> | ReadyRecord<T>;

/** The start of every success response, up to the result. */
export const envelopeHead = '{"code":"0","message":"OK","result":';

/** A serialized record that is sent often: the complete envelope, from which the record can be sliced without a copy. */
export class ReadyRecord<T extends object = object> {
  declare readonly value?: T;
  readonly body: readonly [string];
  readonly bodyBytes: number;
  /** The id of the object, because its name can later belong to another object. */
  readonly objectId: string;
  readonly version: RecordVersion | undefined;

  constructor(record: T, objectId: string) {
    this.objectId = objectId;
    this.version = versionOf(record);
    const text = `${envelopeHead}${JSON.stringify(record)}}`;
    this.body = [text];
    this.bodyBytes = Buffer.byteLength(text);
  }

  get recordText(): string {
    return this.body[0].slice(envelopeHead.length, -1);
  }
}
