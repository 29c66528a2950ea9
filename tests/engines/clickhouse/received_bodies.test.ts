// Bodies of servers, in whatever parts they come: all bytes reach their reader, also one that is slow, and one to which they are only lent, as the
// buffers of a socket are used again. The server is a socket that cuts its responses at random places, of a printed seed.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { ClickHouseError } from '../../../src/engines/clickhouse/connection/clickhouse_error.ts';
import { HttpServer } from '../../../src/engines/clickhouse/connection/http_server.ts';
import { readToEnd } from '../../../src/engines/clickhouse/connection/read_to_end.ts';
import { ResponseBody } from '../../../src/engines/clickhouse/connection/response_body.ts';
import { Random, seedFrom } from '../../random.ts';

const seed = seedFrom('RECEIVED_BODIES_SEED');
console.log(`RECEIVED_BODIES_SEED=${seed}`);
const random = new Random(seed);

const tag = 'abcdefgh';
const errorText = `__exception__\r\n${tag}\r\nCode: 395. DB::Exception: not a row. (FUNCTION_THROW_IF_VALUE_IS_NON_ZERO) (version 26.7.2.1)\n`;
const facts = Buffer.from(`${JSON.stringify({ version: '26.7.2.1', names: [] })}\n`);

/** What the text of a statement asks the socket for. */
interface Wanted {
  readonly bytes: number;
  readonly end: 'complete' | 'cut' | 'error';
}

const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** Different bytes at each place, so that a buffer that was filled again too early shows. */
function bodyOf(bytes: number): Buffer {
  const body = Buffer.allocUnsafe(bytes);
  for (let at = 0, state = bytes + 1; at < bytes; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    body[at] = state >>> 24;
  }
  return body;
}

/** In HTTP chunks of random sizes. */
function chunked(body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let start = 0; start < body.length; ) {
    const chunk = body.subarray(start, start + 1 + random.below(random.pick([20, 5000, 400_000])));
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
    start += chunk.length;
  }
  return Buffer.concat(parts);
}

async function sendInPieces(socket: Socket, bytes: Buffer, longest: number): Promise<void> {
  for (let start = 0; start < bytes.length && !socket.destroyed; ) {
    const end = start + 1 + random.below(longest);
    if (!socket.write(bytes.subarray(start, end))) await Promise.race([once(socket, 'drain'), once(socket, 'close')]);
    if (random.below(3) === 0) await turn();
    start = end;
  }
}

async function answer(socket: Socket, text: string): Promise<void> {
  const { bytes, end }: Wanted = text.startsWith('{') ? JSON.parse(text) : { bytes: 0, end: 'complete' };
  const body = text.startsWith('{') ? bodyOf(bytes) : facts;
  const filler = 'x'.repeat(random.below(3000));
  const head = `HTTP/1.1 200 OK\r\nX-ClickHouse-Exception-Tag: ${tag}\r\nX-Filler: ${filler}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  await sendInPieces(socket, Buffer.from(head), random.pick([7, 300, 4000]));
  await sendInPieces(socket, chunked(body), random.pick([9000, 100_000, 2_000_000]));
  if (end === 'error') await sendInPieces(socket, chunked(Buffer.from(errorText)), 50);
  if (end === 'complete') await sendInPieces(socket, Buffer.from('0\r\n\r\n'), 3);
  else socket.end();
}

const listening = createServer({ noDelay: true }, (socket) => {
  let received = '';
  socket.on('error', () => undefined);
  socket.on('data', (data) => {
    received += data.toString('latin1');
    const [head = '', ...rest] = received.split('\r\n\r\n');
    const body = rest.join('\r\n\r\n');
    if (rest.length === 0 || body.length < Number(/content-length: (\d+)/i.exec(head)?.[1])) return;
    received = '';
    answer(socket, body).catch(() => socket.destroy());
  });
}).listen(0, '127.0.0.1');
await once(listening, 'listening');
const server = new HttpServer({
  name: 'one',
  url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`,
  credentials: async () => ({ user: 'u', password: 'p' }),
  connectionsMax: 1,
});
after(async () => {
  await server.close();
  listening.close();
});

const open = (wanted: Wanted) => server.stream({ sql: JSON.stringify(wanted), timeoutMs: 60_000 });

/** Readers that keep what they get, each in its way. */
const readers: Readonly<Record<string, (wanted: Wanted) => Promise<Buffer>>> = {
  async 'one that takes its time'(wanted) {
    const chunks: Buffer[] = [];
    for await (const chunk of await open(wanted)) {
      chunks.push(chunk as Buffer);
      if (random.below(4) === 0) await turn();
    }
    return Buffer.concat(chunks);
  },
  'one to which they are lent': (wanted) => lent(wanted, () => undefined),
  'one to which they are lent, that takes its time': (wanted) =>
    lent(wanted, () => (random.below(2) === 0 ? turn(undefined) : undefined)),
};

async function lent(wanted: Wanted, wait: () => Promise<void> | undefined): Promise<Buffer> {
  const body = await open(wanted);
  assert.ok(body instanceof ResponseBody);
  // What came before is not lent.
  if (random.below(2) === 0) await turn();
  body.lend();
  const copies: Buffer[] = [];
  return readToEnd(
    body,
    (chunk) => {
      copies.push(Buffer.from(chunk));
      chunk.fill(0);
      return wait();
    },
    async () => Buffer.concat(copies),
  );
}

for (const [name, read] of Object.entries(readers)) {
  test(`all bytes reach ${name}`, async () => {
    for (let round = 0; round < 12; round++) {
      const bytes = random.below(random.pick([10, 20_000, 3_000_000]));
      const got = await read({ bytes, end: 'complete' });
      assert.equal(got.length, bytes);
      assert.equal(hash(got), hash(bodyOf(bytes)), `${bytes} bytes`);
    }
  });

  test(`a body that is broken off, or ends with an error, fails for ${name}`, async () => {
    for (let round = 0; round < 4; round++) {
      const bytes = random.below(random.pick([10, 500_000]));
      await assert.rejects(read({ bytes, end: 'cut' }), { code: 'WAREHOUSE_FAILED' });
      await assert.rejects(
        read({ bytes, end: 'error' }),
        (error) => error instanceof ClickHouseError && error.code === 395,
      );
    }
  });
}

test('bytes that are lent are held back while their reader waits', async () => {
  const body = await open({ bytes: 50_000_000, end: 'complete' });
  assert.ok(body instanceof ResponseBody);
  body.lend();
  const failure = new Error('enough');
  let received = 0;
  const { promise: waiting, resolve: go } = Promise.withResolvers<void>();
  const reading = readToEnd(
    body,
    (chunk) => {
      received += chunk.length;
      return waiting;
    },
    async () => undefined,
  );
  for (let i = 0; i < 200; i++) await turn();
  const [first, queued] = [received, body.readableLength];
  assert.ok(first > 0 && first + queued < 2_000_000, `${first} and ${queued} bytes`);
  body.destroy(failure);
  go();
  await assert.rejects(reading, failure);
});
