// The body of an outcome: a record as an object or already serialized. See envelope.ts for the response.

import { type RecordVersion, versionOf } from './record_version.ts';

/** JSON text of one object of type T, as pieces that are sent one after the other. */
export class JsonText<T extends object = object> {
  declare readonly value?: T;
  readonly pieces: readonly (string | Uint8Array)[];
  constructor(...pieces: (string | Uint8Array)[]) {
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
