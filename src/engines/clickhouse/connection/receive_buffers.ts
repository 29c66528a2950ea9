// The buffers into which the sockets of servers read. A new one for each 64 KiB, as sockets have by themselves, costs more than to use the rows
// in it: V8 counts them as its own memory, and collects the heap for them. Here a socket uses its buffers again.
import type { Socket } from 'node:net';
import type * as undici from 'undici';

/** Reads of at most this size are copied. Longer than the longest head of a response, whose parser keeps the parts of one that is cut. */
const smallBytes = 16 * 1024;
/** About what the system has ready when a server sends faster than this process reads; it fits in the cache of a processor. */
const largeBytes = 256 * 1024;
/** Of all sockets; two for each that receives much. */
const spareMax = 16;
const spare: Buffer[] = [];

/** The buffers of one socket. What was read is passed on as by a socket without them, but is only valid until more is read after it. */
class ReceiveBuffers {
  readonly #small = Buffer.allocUnsafeSlow(smallBytes);
  /** Into which is read next. */
  #next: Buffer = this.#small;
  /** Those of which the stream may have a part that was not read from it. */
  #passedOn: Buffer[] = [];
  socket: Socket | undefined;

  readonly onread = {
    buffer: () => this.#next,
    callback: (bytes: number, read: Uint8Array): boolean => this.#received(bytes, read as Buffer),
  };

  #received(bytes: number, read: Buffer): boolean {
    const { socket } = this;
    if (!socket) return false;
    if (read === this.#small) {
      if (bytes === smallBytes) this.#next = taken();
      return socket.push(Buffer.from(read.subarray(0, bytes)));
    }
    const isWanted = socket.push(read.subarray(0, bytes));
    // Only the part that was passed on just now is unread.
    if (socket.readableLength <= bytes) {
      spare.push(...this.#passedOn.slice(0, spareMax - spare.length));
      this.#passedOn = [];
    }
    this.#passedOn.push(read);
    this.#next = bytes > smallBytes ? taken() : this.#small;
    return isWanted;
  }
}

const taken = (): Buffer => spare.pop() ?? Buffer.allocUnsafeSlow(largeBytes);

/** Connects as undici does. What a server sends without TLS is valid only while it is passed on; see `ResponseBody`. */
export function connectorOf(
  buildConnector: typeof undici.buildConnector,
  options: undici.buildConnector.BuildOptions,
): undici.buildConnector.connector {
  const secure = buildConnector(options);
  return (target, callback) => {
    if (target.protocol === 'https:') return secure(target, callback);
    const buffers = new ReceiveBuffers();
    // It passes the option on to the socket, which its types do not say. Nothing is read before the socket is connected.
    const connect = buildConnector({ ...options, onread: buffers.onread } as undici.buildConnector.BuildOptions);
    return connect(target, (...[error, socket]) => {
      if (error) return callback(error, null);
      buffers.socket = socket;
      callback(null, socket);
    });
  };
}
