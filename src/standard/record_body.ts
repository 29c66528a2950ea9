// What an outcome carries: a record as an object, or ready-serialised. How it becomes an answer is envelope.ts's business.

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

/** What every answer of success begins with, up to its result. */
export const envelopeHead = '{"code":"0","message":"OK","result":';

/** A record that is sent often: its whole envelope, made once, and from it the record alone, without a copy of either. */
export class ReadyRecord<T extends object = object> {
  declare readonly value?: T;
  readonly body: readonly [string];
  readonly bodyBytes: number;
  /** What it shows: its name may become another's. */
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
