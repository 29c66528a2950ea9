// Reads responses from the chunks of a socket: of a head only the status and the length, so that the load generator costs little.

const headEnd = Buffer.from('\r\n\r\n');

/** Reads one response after another; reports when one is complete, with its bytes. */
export class ResponseReader {
  /** The missing bytes of the response's body; negative: its head is incomplete. */
  #missing = -1;
  #bytes = 0;
  #head: Buffer | undefined;
  readonly #status: string;

  constructor(status: number) {
    this.#status = `HTTP/1.1 ${status}`;
  }

  /** Undefined until the response is complete. Throws if it is not the expected one. */
  take(chunk: Buffer): number | undefined {
    this.#bytes += chunk.length;
    if (this.#missing >= 0) this.#missing -= chunk.length;
    else {
      const head = this.#head === undefined ? chunk : Buffer.concat([this.#head, chunk]);
      const end = head.indexOf(headEnd);
      if (end < 0) {
        this.#head = Buffer.from(head);
        return undefined;
      }
      const text = head.toString('latin1', 0, end);
      if (!text.startsWith(this.#status)) throw new Error(`unexpected response: ${head.toString('utf8', 0, 600)}`);
      const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
      if (length === undefined) throw new Error(`a response without Content-Length: ${text}`);
      this.#missing = Number(length) - (head.length - end - headEnd.length);
    }
    if (this.#missing > 0) return undefined;
    const bytes = this.#bytes;
    this.#missing = -1;
    this.#bytes = 0;
    this.#head = undefined;
    return bytes;
  }
}
