// What an outcome carries: a record as an object, or ready-serialised. How it becomes an answer is envelope.ts's business.

/** JSON text of one object, as pieces that are sent one after the other. */
export class JsonText {
  readonly pieces: readonly (string | Uint8Array)[];
  constructor(...pieces: (string | Uint8Array)[]) {
    this.pieces = pieces;
  }
}

export type RecordBody = object | JsonText;
