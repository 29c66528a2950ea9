// Files by signed links, on a real server: uploads that are resumed, digests, ranges, invalid links, quotas, concurrent senders and
// slow ones.
import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { symlink } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { newPerson } from '../access/people.ts';
import { eventually, spentMs } from '../deadline.ts';
import { fileStoreOf } from '../file_stores.ts';
import { start, startProcess, type TestServer, uri } from '../server.ts';

const requestTimeoutMs = spentMs(1_000);
const fileStore = fileStoreOf(import.meta.url);
let server: TestServer;
before(async () => {
  const limits = { uploadBytesMax: 40_000_000, requestTimeoutMs, headersTimeoutMs: requestTimeoutMs };
  server = await start({ ...limits, ...(await fileStore.settings()) });
});
after(() => server.close());

interface Upload {
  readonly uploadId: string;
  readonly link: string;
  readonly state: string;
  readonly bytes: number | null;
  readonly receivedBytes: number;
  readonly sha256: string | null;
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const digestOf = (bytes: Uint8Array) => `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`;
const begin = async (body: object = {}, instance = server) =>
  (await instance.post('/api/v2/uploads', body)).is(201).result as unknown as Upload;
const getUpload = async ({ uploadId }: Pick<Upload, 'uploadId'>, instance = server) =>
  (await instance.get(uri`/uploads/${uploadId}`)).is(200).result as unknown as Upload;

interface UploadReply {
  readonly status: number;
  readonly code: string;
  readonly result: Partial<Upload>;
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** With the link only: without credentials. */
async function put(
  link: string,
  bytes: Uint8Array,
  headers: Record<string, string> = {},
  instance = server,
): Promise<UploadReply> {
  const reply = await instance.send('PUT', link, { body: bytes, headers: { authorization: undefined, ...headers } });
  return { status: reply.status, ...(JSON.parse(reply.text) as { code: string; result: Partial<Upload> }) };
}

async function download(link: string, headers: Record<string, string> = {}, method = 'GET') {
  const reply = await fetch(`${server.url}${link}`, { method, headers });
  return { status: reply.status, headers: reply.headers, bytes: Buffer.from(await reply.arrayBuffer()) };
}

const partOf = (bytes: Uint8Array, from: number, to: number, total: number | '*' = bytes.length) => ({
  'content-range': `bytes ${from}-${to - 1}/${total}`,
});

/** Sends the head and a part of the body, and waits until the server has written it to its file; the connection stays open. */
async function sendHalf({ uploadId, link }: Upload, bytes: Uint8Array, total: number, instance = server) {
  const socket = connect(instance.port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(`PUT ${link} HTTP/1.1\r\nHost: here\r\nContent-Length: ${total}\r\n\r\n`);
  await new Promise((resolve) => socket.write(bytes, resolve));
  await eventually('the server receives it', () => existsSync(join(instance.dataDirectory, 'files', uploadId)));
  return socket;
}

/** Waits until this many bytes of an upload are stored. */
async function requireReceived(upload: Upload, bytes: number, instance = server): Promise<void> {
  await eventually(
    `${bytes} bytes are stored`,
    async () => (await getUpload(upload, instance)).receivedBytes === bytes,
  );
}

/** All responses on one connection, until the server closes it. */
async function responseTo(pieces: readonly (string | Uint8Array)[]): Promise<string> {
  const socket = connect(server.port, '127.0.0.1');
  for (const piece of pieces) if (!socket.write(piece)) await once(socket, 'drain');
  return text(socket);
}

test('the same bytes arrive however they are split into chunks, also in consecutive uploads', async () => {
  const bytes = randomBytes(9_000_000);
  const [chunked, unchunked] = [await begin(), await begin({ bytes: bytes.length })];
  const sizes = [1, 65_536, 7, 65_535, 200_000, 16, 1_000_003, 131_072];
  const pieces: (string | Uint8Array)[] = [
    `PUT ${chunked.link} HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n`,
  ];
  for (let offset = 0, i = 0; offset < bytes.length; i++) {
    const piece = bytes.subarray(offset, offset + (sizes[i % sizes.length] as number));
    pieces.push(`${piece.length.toString(16)}\r\n`, piece, '\r\n');
    offset += piece.length;
  }
  const head = `PUT ${unchunked.link} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: ${bytes.length}\r\n\r\n`;
  const answers = await responseTo([...pieces, '0\r\n\r\n', head, bytes]);
  assert.equal(answers.match(/HTTP\/1\.1 200/g)?.length, 2, answers);
  for (const upload of [chunked, unchunked]) {
    const { state, sha256: found, link } = await getUpload(upload);
    assert.deepEqual([state, found], ['ready', sha256(bytes)]);
    assert.ok(bytes.equals((await download(link)).bytes));
  }
});

test('an upload is sent in one request and read back', async () => {
  const bytes = randomBytes(5_000_000);
  const upload = await begin({ name: 'prüf "1".csv', bytes: bytes.length, sha256: sha256(bytes) });
  assert.equal(upload.state, 'receiving');
  const sent = await put(upload.link, bytes, { 'content-digest': digestOf(bytes) });
  assert.deepEqual([sent.status, sent.result.state, sent.result.sha256], [200, 'ready', sha256(bytes)]);
  const { link, state, receivedBytes } = await getUpload(upload);
  assert.deepEqual([state, receivedBytes], ['ready', bytes.length]);
  const read = await download(link);
  assert.equal(read.status, 200);
  assert.ok(read.bytes.equals(bytes));
  assert.equal(read.headers.get('content-type'), 'text/csv; charset=utf-8');
  assert.equal(
    read.headers.get('content-disposition'),
    `attachment; filename="pr_f _1_.csv"; filename*=UTF-8''pr%C3%BCf%20%221%22.csv`,
  );
  assert.equal(read.headers.get('repr-digest'), digestOf(bytes));
  assert.equal((await put(upload.link, bytes)).code, 'CHANGE_NOT_SUPPORTED');
  const head = await download(link, {}, 'HEAD');
  assert.deepEqual([head.status, head.headers.get('content-length'), head.bytes.length], [200, '5000000', 0]);
});

test('an empty file, and one of unannounced length', async () => {
  const empty = await begin();
  assert.equal((await put(empty.link, Buffer.alloc(0))).result.state, 'ready');
  assert.equal((await download((await getUpload(empty)).link)).bytes.length, 0);
  const chunked = await begin();
  const sent = await put(chunked.link, Buffer.from('abc'), {
    'content-length': undefined as never,
    'transfer-encoding': 'chunked',
  });
  assert.deepEqual([sent.result.state, sent.result.bytes], ['ready', 3]);
});

test('parts are sent in sequence, and the current offset can be requested', async () => {
  const bytes = randomBytes(300_000);
  const upload = await begin();
  const first = await put(upload.link, bytes.subarray(0, 100_000), partOf(bytes, 0, 100_000, '*'));
  assert.deepEqual([first.result.state, first.result.receivedBytes], ['receiving', 100_000]);
  const progress = await put(upload.link, Buffer.alloc(0), { 'content-range': `bytes */${bytes.length}` });
  assert.deepEqual(
    [progress.status, progress.result.state, progress.result.receivedBytes],
    [200, 'receiving', 100_000],
  );
  const gap = await put(upload.link, bytes.subarray(200_000), partOf(bytes, 200_000, 300_000));
  assert.deepEqual([gap.status, gap.code, gap.result.receivedBytes], [400, 'FILE_OFFSET_INVALID', 100_000]);
  await put(upload.link, bytes.subarray(100_000, 200_000), partOf(bytes, 100_000, 200_000, '*'));
  const last = await put(upload.link, bytes.subarray(200_000), {
    ...partOf(bytes, 200_000, 300_000),
    'content-digest': digestOf(bytes.subarray(200_000)),
  });
  assert.deepEqual([last.result.state, last.result.sha256], ['ready', sha256(bytes)]);
  const repeated = await put(upload.link, Buffer.alloc(0), { 'content-range': `bytes */${bytes.length}` });
  assert.equal(repeated.result.state, 'ready');
});

test('bytes received before a disconnect are retained, and the upload is resumed there', async () => {
  const bytes = randomBytes(4_000_000);
  const upload = await begin();
  const socket = await sendHalf(upload, bytes.subarray(0, 2_500_000), bytes.length);
  socket.destroy();
  await requireReceived(upload, 2_500_000);
  // For a moment after its bytes are stored, the interrupted request still holds the upload.
  const rest = await eventually('the upload is free', async () => {
    const answer = await put(upload.link, bytes.subarray(2_500_000), partOf(bytes, 2_500_000, bytes.length));
    return answer.code !== 'CHANGE_IN_PROGRESS' && answer;
  });
  assert.deepEqual([rest.status, rest.result.state, rest.result.sha256], [200, 'ready', sha256(bytes)]);
});

test('a PUT may take longer than other requests', async () => {
  const upload = await begin();
  const socket = await sendHalf(upload, Buffer.from('abc'), 6);
  const answered = new Promise<string>((resolve) => socket.once('data', (data) => resolve(data.toString())));
  await pause(requestTimeoutMs + 1_600);
  socket.write('def');
  assert.match(await answered, /^HTTP\/1\.1 200 /);
  socket.destroy();
  assert.equal((await getUpload(upload)).sha256, sha256(Buffer.from('abcdef')));
});

test('of two concurrent senders of one upload, one is refused', async () => {
  const bytes = randomBytes(100_000);
  const upload = await begin();
  const socket = await sendHalf(upload, bytes.subarray(0, 50_000), bytes.length);
  const answered = new Promise<string>((resolve) => socket.once('data', (data) => resolve(data.toString())));
  assert.equal((await put(upload.link, randomBytes(100_000))).code, 'CHANGE_IN_PROGRESS');
  socket.write(bytes.subarray(50_000));
  assert.match(await answered, /^HTTP\/1\.1 200 /);
  socket.destroy();
  assert.equal((await getUpload(upload)).sha256, sha256(bytes));
  const race = await begin();
  const all = await Promise.all([1, 2, 3, 4].map(() => put(race.link, bytes)));
  assert.equal(all.filter(({ status }) => status === 200).length, 1, JSON.stringify(all));
});

test('bytes that do not match their digest are discarded', async () => {
  const bytes = randomBytes(10_000);
  const upload = await begin({ sha256: sha256(bytes) });
  const wrong = await put(upload.link, randomBytes(10_000), { 'content-digest': digestOf(bytes) });
  assert.deepEqual([wrong.status, wrong.code, wrong.result.receivedBytes], [400, 'FILE_DIGEST_MISMATCH', 0]);
  await put(upload.link, bytes.subarray(0, 4_000), partOf(bytes, 0, 4_000));
  const part = await put(upload.link, randomBytes(6_000), {
    ...partOf(bytes, 4_000, 10_000),
    'content-digest': digestOf(bytes.subarray(4_000)),
  });
  assert.deepEqual([part.code, part.result.receivedBytes], ['FILE_DIGEST_MISMATCH', 4_000]);
  assert.equal((await getUpload(upload)).receivedBytes, 4_000);
  const announced = await put(upload.link, randomBytes(6_000), partOf(bytes, 4_000, 10_000));
  assert.deepEqual([announced.code, announced.result.receivedBytes], ['FILE_DIGEST_MISMATCH', 0]);
  assert.equal((await put(upload.link, bytes)).result.state, 'ready');
  assert.equal((await put((await begin()).link, bytes, { 'content-digest': 'md5=:AAAA:' })).code, 'INVALID_PARAMETER');
});

test('inconsistent parts are refused', async () => {
  const upload = await begin({ bytes: 10 });
  const bytes = Buffer.from('0123456789');
  const cases: [Uint8Array, string, string][] = [
    [bytes, 'bytes 0-8/10', 'INVALID_PARAMETER'],
    [bytes, 'bytes 9-0/10', 'INVALID_PARAMETER'],
    [bytes, 'bytes 0-9/5', 'INVALID_PARAMETER'],
    [bytes, 'lines 0-9/10', 'INVALID_PARAMETER'],
    [bytes, 'bytes */10', 'BODY_NOT_ALLOWED'],
    [bytes, 'bytes 0-9/12', 'FILE_OFFSET_INVALID'],
  ];
  for (const [body, range, code] of cases)
    assert.equal((await put(upload.link, body, { 'content-range': range })).code, code, range);
  assert.equal((await put(upload.link, bytes, { 'content-encoding': 'gzip' })).code, 'UNSUPPORTED_MEDIA_TYPE');
  assert.equal((await put(upload.link, bytes)).result.state, 'ready');
});

test('ranges of a download', async () => {
  const bytes = randomBytes(3_000_000);
  const upload = await begin({ name: 'x.parquet' });
  await put(upload.link, bytes);
  const { link } = await getUpload(upload);
  const etag = (await download(link, {}, 'HEAD')).headers.get('etag') as string;
  assert.equal(etag, `"${sha256(bytes)}"`);
  const cases: [string, number, number][] = [
    // s3rver takes an end of 0 for none.
    fileStore.isBucket ? ['bytes=1-1', 1, 2] : ['bytes=0-0', 0, 1],
    ['bytes=1000000-2999999', 1_000_000, 3_000_000],
    ['bytes=2999990-99999999', 2_999_990, 3_000_000],
    ['bytes=2999990-', 2_999_990, 3_000_000],
    ['bytes=-5', 2_999_995, 3_000_000],
    ['bytes=-99999999', 0, 3_000_000],
  ];
  for (const [range, from, to] of cases) {
    const part = await download(link, { range, 'if-range': etag });
    assert.deepEqual([part.status, part.headers.get('content-range')], [206, `bytes ${from}-${to - 1}/3000000`], range);
    assert.ok(part.bytes.equals(bytes.subarray(from, to)), range);
  }
  for (const range of ['bytes=3000000-', 'bytes=-0']) {
    const outOfRange = await download(link, { range });
    assert.deepEqual([outOfRange.status, outOfRange.headers.get('content-range')], [416, 'bytes */3000000'], range);
  }
  for (const headers of [
    { range: 'bytes=0-1,5-6' },
    { range: 'bytes=5-2' },
    { range: 'bytes=0-1', 'if-range': '"other"' },
  ])
    assert.equal((await download(link, headers)).status, 200, JSON.stringify(headers));
  const unmodified = await download(link, { 'if-none-match': etag });
  assert.deepEqual([unmodified.status, unmodified.bytes.length], [304, 0]);
});

test('links that were not issued for the file are refused', async () => {
  const upload = await begin();
  await put(upload.link, Buffer.from('secret'));
  const { link } = await getUpload(upload);
  const other = await begin();
  const [, query = ''] = link.split('?');
  const changedLink = link.replace(/expires=(\d+)/, (_, seconds: string) => `expires=${Number(seconds) + 1}`);
  const forged = [
    upload.link,
    `/files/${upload.uploadId}`,
    `/files/${other.uploadId}?${query}`,
    changedLink,
    `${link}A`,
    `${link}&expires=9999999999`,
    link.replace(/signature=.*/, 'signature='),
    // The last of 43 characters has two unused bits.
    link.replace(/.$/, (last) => alphabet[alphabet.indexOf(last) ^ 1] as string),
  ];
  for (const link of forged) {
    const read = await download(link);
    assert.equal(read.status, 403, link);
    assert.ok(!read.bytes.includes('secret'));
  }
  // A link for reading does not allow writing.
  assert.equal((await put(other.link.replace(/\?.*/, `?${query}`), Buffer.from('x'))).status, 403);
  assert.equal((await put(link, Buffer.from('x'))).status, 403);
  assert.equal((await download('/files/..%2froot.token')).status, 404);
  assert.equal((await download(link, {}, 'DELETE')).status, 405);
});

test('a link of a deleted upload is not valid for another upload with the same id', async () => {
  const uploadId = crypto.randomUUID();
  const createUpload = async () =>
    (await server.put(`/api/v2/uploads/${uploadId}`, { name: 'x.csv' })).is(201).at<string>('link');
  const old = await createUpload();
  (await server.delete(`/api/v2/uploads/${uploadId}`)).is(200);
  const link = await createUpload();
  assert.equal((await put(old, Buffer.from('x'))).status, 404);
  assert.equal((await put(link, Buffer.from('x'))).status, 200);
});

test('a deleted upload no longer exists, nor does its link', async () => {
  const upload = await begin();
  await put(upload.link, Buffer.from('x'));
  const { link } = await getUpload(upload);
  (await server.delete(uri`/uploads/${upload.uploadId}`)).is(200, '0', { deleted: true });
  assert.equal((await download(link)).status, 404);
  const stored = await fileStore.stored(server.dataDirectory, 'files');
  assert.ok(!stored.some((key) => key.startsWith(upload.uploadId)));
  (await server.delete(uri`/uploads/${upload.uploadId}`)).is(200, '0', { deleted: false });
});

test('an upload has the id that the client chooses, and a repeated PUT returns it unchanged', async () => {
  const uploadId = randomUUID();
  const path = uri`/uploads/${uploadId}`;
  const body = { name: 'rows.csv', bytes: 3 };
  const { link } = (await server.put(path, body)).is(201, '0', { uploadId, created: true, ...body })
    .result as unknown as Upload;
  assert.equal((await put(link, Buffer.from('abc'))).status, 200);
  (await server.put(path, { name: 'else' })).is(201, '0', { uploadId, created: false, state: 'ready', ...body });
  (await server.put('/api/v2/uploads/create', { uploadId })).is(201, '0', { uploadId, created: false, ...body });
  (await server.post('/api/v2/uploads/create', { uploadId })).is(400, 'OBJECT_ALREADY_EXISTS', { name: uploadId });
  // The path takes precedence over the body.
  (await server.put(path, { uploadId: randomUUID() })).is(201, '0', { uploadId, created: false });
  for (const wrong of ['rows.csv', uploadId.toUpperCase(), `${uploadId}0`])
    (await server.put(uri`/uploads/${wrong}`)).is(400, 'INVALID_PARAMETER', { violations: [{ pointer: '/uploadId' }] });
  (await server.delete(path)).is(200);
  (await server.put(path)).is(201, '0', { uploadId, created: true, state: 'receiving', receivedBytes: 0 });
});

test('an upload of another user is neither returned nor replaced', async () => {
  const eve = await newPerson(server, 'eve', [['create', '/uploads']]);
  const { uploadId } = await begin();
  const replies = [
    await eve.request('PUT', uri`/uploads/${uploadId}`, {}),
    await eve.post('/api/v2/uploads', { uploadId }),
  ];
  for (const reply of replies) assert.equal(reply.is(403, 'FORBIDDEN').text.includes('/files/'), false);
  assert.equal((await getUpload({ uploadId })).state, 'receiving');
});

test('a user does not see the uploads of others, except those of users that it owns', async () => {
  const ann = await newPerson(server, 'ann', [['create', '/uploads']]);
  const ben = await newPerson(server, 'ben', [['create', '/uploads']]);
  const upload = (await ann.post('/api/v2/uploads', { name: 'of ann' })).is(201).result as unknown as Upload;
  const path = uri`/uploads/${upload.uploadId}`;
  (await ben.get(path)).is(403, 'FORBIDDEN');
  (await ben.request('DELETE', path)).is(403, 'FORBIDDEN');
  assert.deepEqual((await ben.get('/api/v2/uploads')).is(200).at('uploads'), []);
  assert.equal((await ann.get('/api/v2/uploads')).is(200).at('uploads', 0, 'uploadId'), upload.uploadId);
  (await server.post('/api/v2/users/ben/grants', { privilege: 'own', on: '/api/v2/users/ann' })).is(201);
  (await ben.get(path)).is(200, '0', { name: 'of ann', createdBy: 'ann' });
  (await server.patch('/api/v2/users/ann', { disabled: true })).is(200);
  assert.equal((await put(upload.link, Buffer.from('x'))).code, 'FORBIDDEN');
});

test('a full disk is reported, and the upload continues once there is space', async () => {
  const upload = await begin();
  await symlink('/dev/full', join(server.dataDirectory, 'files', upload.uploadId));
  const sent = await put(upload.link, randomBytes(3_000_000));
  assert.deepEqual([sent.status, sent.code], [503, 'STORAGE_FULL']);
  assert.equal((await getUpload(upload)).state, 'receiving');
});

test('the size of an upload is limited', async () => {
  (await server.post('/api/v2/uploads', { bytes: 40_000_001 })).is(400, 'BODY_TOO_LARGE');
  const upload = await begin();
  assert.equal(
    (await put(upload.link, Buffer.from('x'), { 'content-range': 'bytes 0-0/40000001' })).code,
    'BODY_TOO_LARGE',
  );
});

test('the files of one principal have a quota', async () => {
  const small = await start({ principalFileBytesMax: 1_000_000, ...(await fileStore.settings()) });
  try {
    (await small.post('/api/v2/uploads', { bytes: 1_000_001 })).is(400, 'FILE_QUOTA_EXCEEDED');
    const first = await begin({ bytes: 600_000 }, small);
    (await small.post('/api/v2/uploads', { bytes: 600_000 })).is(400, 'FILE_QUOTA_EXCEEDED');
    const second = await begin({}, small);
    const chunked = { 'content-length': undefined as never, 'transfer-encoding': 'chunked' };
    assert.equal((await put(second.link, randomBytes(500_000), chunked, small)).code, 'FILE_QUOTA_EXCEEDED');
    assert.equal((await put(second.link, randomBytes(500_000), {}, small)).code, 'FILE_QUOTA_EXCEEDED');
    (await small.delete(uri`/uploads/${first.uploadId}`)).is(200);
    assert.equal((await put(second.link, randomBytes(500_000), {}, small)).result.state, 'ready');
  } finally {
    await small.close();
  }
});

test('after a kill an upload continues where it was, and no files are left over', async () => {
  const bytes = randomBytes(3_000_000);
  let slowServer = await startProcess(await fileStore.flags());
  const { dataDirectory } = slowServer;
  const upload = await begin({}, slowServer);
  const deleted = await begin({}, slowServer);
  await put(upload.link, bytes.subarray(0, 1_000_000), partOf(bytes, 0, 1_000_000), slowServer);
  await put(deleted.link, bytes.subarray(0, 10), {}, slowServer);
  const socket = await sendHalf(upload, bytes.subarray(0, 500_000), 3_000_000, slowServer);
  slowServer.child.kill('SIGKILL');
  await slowServer.exited;
  socket.destroy();
  await symlink('/dev/null', join(dataDirectory, 'files', 'left over'));
  slowServer = await startProcess(await fileStore.flags(), dataDirectory);
  try {
    const stored = await fileStore.stored(dataDirectory, 'files');
    assert.deepEqual(stored.map((key) => key.split('/')[0]).sort(), [upload.uploadId, deleted.uploadId].sort());
    const { receivedBytes, link } = await getUpload(upload, slowServer);
    const rest = await put(link, bytes.subarray(receivedBytes), partOf(bytes, receivedBytes, bytes.length), slowServer);
    assert.deepEqual([rest.status, rest.result.sha256], [200, sha256(bytes)]);
  } finally {
    await slowServer.close();
  }
});
