// Files as servers get them: all bytes in their order, also by a server that reads slowly, as the buffers that are sent are filled again. The
// server is a socket that reads at a random pace, of a printed seed.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { HttpServer } from '../../../src/engines/clickhouse/connection/http_server.ts';
import type { FileShape } from '../../../src/engines/clickhouse/load/file_shape.ts';
import { withNativeData } from '../../../src/engines/clickhouse/load/native_source.ts';
import { Random, seedFrom } from '../../random.ts';

const seed = seedFrom('SENT_FILES_SEED');
console.log(`SENT_FILES_SEED=${seed}`);
const random = new Random(seed);

const megabyte = 1024 * 1024;
const sql = 'INSERT INTO t FORMAT CSV';
const facts = `${JSON.stringify({ version: '26.7.2.1', names: [] })}\n`;
/** The bodies of the requests with data. */
const bodies: Buffer[] = [];
/** Ends the connection after so many bytes. */
let bytesMax = Number.POSITIVE_INFINITY;

/** The body of a request in chunks; undefined if it is not complete. */
function unchunked(bytes: Buffer): Buffer | undefined {
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at);
    if (end < 0) return undefined;
    const length = Number.parseInt(bytes.toString('latin1', at, end), 16);
    at = end + 2 + length + 2;
    if (at > bytes.length) return undefined;
    if (length === 0) return Buffer.concat(parts);
    parts.push(bytes.subarray(end + 2, end + 2 + length));
  }
}

async function serve(socket: Socket): Promise<void> {
  let received: Buffer[] = [];
  let count = 0;
  for await (const data of socket as AsyncIterable<Buffer>) {
    received.push(data);
    count += data.length;
    if (count > bytesMax) return void socket.destroy();
    for (let turns = random.below(3); turns > 0; turns--) await turn();
    if (data.at(-1) !== 0x0a && count > 100_000) continue;
    const all = Buffer.concat(received);
    const headEnd = all.indexOf('\r\n\r\n') + 4;
    const head = all.toString('latin1', 0, headEnd);
    const isChunked = /transfer-encoding: chunked/i.test(head);
    const bytes = all.subarray(headEnd);
    const isWhole = bytes.length >= Number(/content-length: (\d+)/i.exec(head)?.[1]);
    const body = isChunked ? unchunked(bytes) : isWhole ? bytes : undefined;
    if (!body) continue;
    count = 0;
    if (isChunked) bodies.push(body);
    received = [];
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${isChunked ? 0 : facts.length}\r\n\r\n${isChunked ? '' : facts}`);
  }
}

const listening = createServer({ noDelay: true, highWaterMark: 4096 }, (socket) => {
  socket.on('error', () => undefined);
  serve(socket).catch(() => socket.destroy());
}).listen(0, '127.0.0.1');
await once(listening, 'listening');
const server = new HttpServer({
  name: 'one',
  url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`,
  credentials: async () => ({ user: 'u', password: 'p' }),
});
const directory = await mkdtemp(join(tmpdir(), 'sent-files-'));
after(async () => {
  await server.close();
  listening.close();
  await rm(directory, { recursive: true });
});

async function send(file: Buffer, shape: Pick<FileShape, 'csv'> & { readonly format: 'csv' | 'ndjson' }) {
  const path = join(directory, 'file');
  await writeFile(path, file);
  const { csv, format } = shape;
  await withNativeData({ file: { path, format, csv }, csv, columns: [] }, undefined, (data) =>
    server.text({ sql, data, timeoutMs: 60_000 }),
  );
}

/** Different bytes at each place, in lines. */
function bytesOf(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let at = 0, state = length + 1; at < length; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[at] = 32 + (state >>> 26);
  }
  if (length > 0) bytes[length - 1] = 0x0a;
  return bytes;
}

const sizes = [0, 1, 70_000, megabyte, 3 * megabyte + 300_000, 5 * megabyte + random.below(megabyte)];

for (const size of sizes)
  test(`a file of ${size} bytes`, async () => {
    const file = bytesOf(size);
    await send(file, { format: 'ndjson', csv: {} });
    assert.ok(bodies.pop()?.equals(Buffer.concat([Buffer.from(`${sql}\n`), file])));
  });

test('a file of which little of a chunk remains below its header', async () => {
  for (const remaining of [1, 5000, 70_000, 300_000]) {
    const header = bytesOf(megabyte - remaining);
    const rows = bytesOf(4 * megabyte);
    await send(Buffer.concat([header, rows]), { format: 'csv', csv: { header: true } });
    assert.ok(bodies.pop()?.equals(Buffer.concat([Buffer.from(`${sql}\n`), rows])), `${remaining} bytes`);
  }
});

test('a server that is lost while it reads is a failure', async () => {
  bytesMax = 2 * megabyte;
  await assert.rejects(send(bytesOf(8 * megabyte), { format: 'ndjson', csv: {} }), { code: 'WAREHOUSE_FAILED' });
});
