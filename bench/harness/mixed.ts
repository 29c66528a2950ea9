// A number of requests of several kinds, in rotation, to one or more servers at once: connections with one request at a time each.
import { connect } from 'node:net';
import type { MixedJob, MixedResult } from './load_job.ts';
import { requestBytes } from './request_bytes.ts';
import { ResponseReader } from './response_reader.ts';

const receiveBytes = 64 * 1024;

export async function mixed({ targets, connections, first, count }: MixedJob): Promise<MixedResult> {
  const startMs = performance.now();
  let next = first;
  /** Sends requests, one after the other, until all are sent. */
  const connection = ({ port, requests }: MixedJob['targets'][number]): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let reader: ResponseReader;
    const send = () => {
      const n = next++;
      const request = requests[n % requests.length];
      if (n >= first + count || request === undefined) {
        socket.end();
        return resolve();
      }
      reader = new ResponseReader(request.status);
      socket.write(requestBytes(request.template, n));
    };
    const callback = (size: number, buffer: Uint8Array): boolean => {
      try {
        if (reader.take(Buffer.from(buffer.buffer, buffer.byteOffset, size)) !== undefined) send();
      } catch (error) {
        socket.destroy();
        reject(error);
      }
      return true;
    };
    const onread = { buffer: Buffer.alloc(receiveBytes), callback };
    const socket = connect({ port, host: '127.0.0.1', noDelay: true, onread });
    socket.on('connect', send);
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('a connection was closed')));
    return promise;
  };
  await Promise.all(targets.flatMap((target) => Array.from({ length: connections }, () => connection(target))));
  return { requests: count, elapsedMs: performance.now() - startMs, next: first + count };
}
