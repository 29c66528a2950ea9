// Uploads and downloads by the typed client against a real server: parts, streams, progress, connections that are lost on the way,
// and the load and the export that they are for.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { createClient, errors, type TransferProgress } from '../../src/client/index.ts';
import { start, type TestServer } from '../server.ts';

let server: TestServer;
let client: ReturnType<typeof createClient>;
const connect = (fetch?: typeof globalThis.fetch) =>
  createClient({ url: server.url, token: server.token, ...(fetch ? { fetch } : {}) });

before(async () => {
  server = await start();
  client = connect();
  await client.databases.create({ name: 'shop' });
});
after(() => server.close());

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const bytesOf = async (stream: ReadableStream<Uint8Array>) => new Uint8Array(await new Response(stream).arrayBuffer());
const isFile = (url: unknown) => String(url).includes('/files/');

async function* chunksOf(bytes: Uint8Array, size: number) {
  for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size);
}

describe('upload', () => {
  const content = randomBytes(100_000);

  it('sends a file in parts with progress, and the same bytes arrive from every kind of source', async () => {
    const sources = {
      blob: new Blob([content]),
      file: new File([content], 'named.bin'),
      stream: new Blob([content]).stream(),
      chunks: chunksOf(content, 7001),
      array: [content.subarray(0, 1), content.subarray(1)],
    };
    for (const [kind, source] of Object.entries(sources)) {
      const progress: TransferProgress[] = [];
      const record = await client.upload(source, {
        partBytes: 30_000,
        onProgress: (now) => progress.push(now),
        sha256: sha256(content),
      });
      assert.partialDeepStrictEqual(record, { state: 'ready', bytes: content.length, receivedBytes: content.length });
      if (kind === 'file') assert.equal(record.name, 'named.bin');
      const isBlob = source instanceof Blob;
      assert.deepEqual(
        progress.slice(0, 5),
        [0, 30_000, 60_000, 90_000, 100_000].map((bytes) => ({ bytes, total: isBlob ? content.length : undefined })),
        kind,
      );
      assert.deepEqual(await bytesOf(client.download(record.link ?? '')), new Uint8Array(content), kind);
    }
  });

  it('sends an empty file', async () => {
    for (const source of [new Blob([]), []])
      assert.partialDeepStrictEqual(await client.upload(source, { name: 'empty.csv' }), { state: 'ready', bytes: 0 });
  });

  it('continues where the server has the file, after a connection that broke and after an answer that was lost', async () => {
    let puts = 0;
    const ranges: (string | undefined)[] = [];
    const unreliable = connect(async (url, init = {}) => {
      if (!isFile(url)) return fetch(url, init);
      puts += 1;
      ranges.push(new Headers(init.headers).get('content-range') ?? undefined);
      if (puts === 2) throw new TypeError('the connection is broken');
      const response = await fetch(url, init);
      if (puts === 3) {
        await response.arrayBuffer();
        throw new TypeError('the answer is lost');
      }
      return response;
    });
    const record = await unreliable.upload(chunksOf(content, 999), { partBytes: 40_000, sha256: sha256(content) });
    assert.equal(record.state, 'ready');
    assert.deepEqual(ranges, [
      'bytes 0-39999/*',
      'bytes 40000-79999/*',
      'bytes 40000-79999/*',
      'bytes 80000-99999/*',
      'bytes */100000',
    ]);
  });

  it('continues an upload that another call began', async () => {
    const uploadId = crypto.randomUUID();
    const stop = new AbortController();
    const reason = new Error('the page was closed');
    await assert.rejects(
      client.upload(new Blob([content]), {
        uploadId,
        partBytes: 30_000,
        signal: stop.signal,
        onProgress: ({ bytes }) => bytes >= 60_000 && stop.abort(reason),
      }),
      reason,
    );
    assert.equal((await client.uploads(uploadId).get()).receivedBytes, 60_000);
    const progress: number[] = [];
    const record = await client.upload(chunksOf(content, 1000), {
      uploadId,
      bytes: content.length,
      partBytes: 45_000,
      onProgress: ({ bytes }) => progress.push(bytes),
    });
    assert.deepEqual(progress, [60_000, 90_000, 100_000]);
    assert.deepEqual(await bytesOf(client.download(record.link ?? '')), new Uint8Array(content));
    const again = await client.upload(new Blob([content]), { uploadId });
    assert.equal(again.version, record.version);
  });

  it('rejects what the server refuses, and gives up on a server that does not answer', async () => {
    const wrong = client.upload(new Blob([content]), { sha256: sha256(randomBytes(1)) });
    await assert.rejects(wrong, (error) => error instanceof errors.FILE_DIGEST_MISMATCH);
    let attempts = 0;
    const deaf = connect(async (url, init) => {
      if (!isFile(url)) return fetch(url, init);
      attempts += 1;
      throw new TypeError('no route');
    });
    await assert.rejects(deaf.upload(new Blob([content])), (error: Error) => {
      assert.ok(error instanceof errors.NO_ANSWER);
      assert.ok(!error.message.includes('signature'), error.message);
      return true;
    });
    assert.equal(attempts, 7);
  });

  it('is loaded into a table, and the table is exported and downloaded', async () => {
    const lines = Array.from({ length: 20_000 }, (_, id) => `${id},row ${id}`);
    const csv = new File([`id,note\n${lines.join('\n')}\n`], 'orders.csv');
    const { uploadId } = await client.upload(csv, { partBytes: 100_000 });
    const shop = client.databases('shop');
    await shop.tables.create({ name: 'orders', columns: ['id BIGINT', 'note STRING'].map(columnOf) });
    const { rowsLoaded } = await shop
      .tables('orders')
      .load({ source: { upload: uploadId } })
      .done();
    assert.equal(rowsLoaded, lines.length);
    const { files } = await shop.export({ sql: 'SELECT * FROM orders ORDER BY id', format: 'csv' }).done();
    const text = await new Response(client.download(files[0]?.link ?? '')).text();
    assert.equal(text.trim().split('\n').length, lines.length + 1);
  });
});

const columnOf = (text: string) => {
  const [name = '', type = ''] = text.split(' ');
  return { name, type };
};

describe('download', () => {
  it('continues after a lost connection with the rest of the same file', async () => {
    const content = randomBytes(3_000_000);
    const { link = '' } = await client.upload(new Blob([content]));
    const ranges: (string | null)[] = [];
    const unreliable = connect(async (url, init) => {
      const response = await fetch(url, init);
      if (!isFile(url)) return response;
      ranges.push(new Headers(init?.headers).get('range'));
      if (ranges.length > 2) return response;
      const { body, status, headers } = response;
      return new Response(body?.pipeThrough(breaking(1_000_000)), { status, headers });
    });
    const progress: TransferProgress[] = [];
    const read = await bytesOf(unreliable.download(link, { onProgress: (now) => progress.push(now) }));
    assert.equal(sha256(read), sha256(content));
    assert.equal(ranges.length, 3);
    assert.deepEqual(
      ranges.map((range) => (range === null ? 0 : Number(range.slice('bytes='.length, -1)) > 0)),
      [0, true, true],
    );
    assert.deepEqual(progress.at(-1), { bytes: content.length, total: content.length });
  });

  it('rejects a link that is not valid, without its signature in the message', async () => {
    const { link = '' } = await client.upload(new Blob(['x']));
    const forged = link.replace(/signature=.{4}/, 'signature=AAAA');
    await assert.rejects(bytesOf(client.download(forged)), (error: Error) => {
      assert.ok(error instanceof errors.FORBIDDEN);
      assert.ok(!error.message.includes('signature='), error.message);
      return true;
    });
  });

  it('ends with its signal, and when nobody reads on', async () => {
    const { link = '' } = await client.upload(new Blob([randomBytes(5_000_000)]));
    const stop = new AbortController();
    const reason = new Error('enough');
    const aborted = client.download(link, {
      signal: stop.signal,
      onProgress: ({ bytes }) => bytes > 0 && stop.abort(reason),
    });
    await assert.rejects(bytesOf(aborted), reason);
    const reader = client.download(link).getReader();
    assert.ok(((await reader.read()).value?.length ?? 0) > 0);
    await reader.cancel();
  });
});

/** Fails after so many bytes. */
function breaking(bytes: number) {
  let passed = 0;
  return new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      passed += chunk.length;
      if (passed > bytes) controller.error(new TypeError('terminated'));
      else controller.enqueue(chunk);
    },
  });
}
