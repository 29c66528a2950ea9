// Loads from other hosts: by URL and from an object store; refused hosts, broken sources, and that the credentials of a
// store are never shown and are deleted with the end of the task.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { HostAllowlist } from '../../../src/outbound/host_allowlist.ts';
import { openObjectStore } from '../../../src/outbound/object_store.ts';
import { storeFileName } from '../../../src/store/sqlite/sqlite_store.ts';
import { type ObjectStoreServer, startObjectStore } from '../../outbound/object_store_server.ts';
import { type Reply, start, type TestServer, uri } from '../../server.ts';

const csv = 'id,name\n1,ann\n2,bob\n';
let server: TestServer;
let web: Server;
let store: ObjectStoreServer;
let address: string;
const dataDir = mkdtempSync(join(tmpdir(), 'tabularium-load-'));

before(async () => {
  web = createServer((request, response) => {
    if (request.url === '/people.csv?x=1') response.end(csv);
    else if (request.url === '/people.csv.gz') response.end(gzipSync(csv));
    else if (request.url === '/moved.csv') response.writeHead(302, { location: '/people.csv?x=1' }).end();
    else if (request.url === '/away.csv') response.writeHead(302, { location: 'http://10.0.0.1/people.csv' }).end();
    else if (request.url === '/large.csv') response.end('id,name\n'.padEnd(200_000, '1,a\n'));
    else if (request.url === '/broken.csv') {
      response.writeHead(200, { 'content-length': '1000' });
      response.write(csv);
      setTimeout(() => response.destroy(), 20);
    } else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  store = await startObjectStore();
  server = await start({
    loadHosts: '127.0.0.1, example.com',
    loadFileBytesMax: 100_000,
    loadFetchSeconds: 20,
    dataDir,
  });
  (await server.put(uri`/databases/${'d'}`)).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'name', type: 'STRING' },
  ];
  (await server.put(uri`/databases/${'d'}/tables/${'t'}`, { columns })).is(201);
});
after(async () => {
  await server.close();
  await store.close();
  await new Promise((resolve) => web.close(resolve));
  rmSync(dataDir, { recursive: true });
});

const post = (body: object): Promise<Reply> => server.post(uri`/databases/${'d'}/tables/${'t'}/load`, body);
const load = async (body: object): Promise<Reply> => server.ended(await post({ mode: 'replace', ...body }));
const count = async () => (await server.rows('d', 'SELECT count(*) FROM t'))[0]?.[0];

test('a URL is loaded, through redirects and compressed', async () => {
  for (const path of ['/people.csv?x=1', '/people.csv.gz', '/moved.csv']) {
    const reply = await load({ source: { url: `${address}${path}` } });
    assert.equal(reply.at('state'), 'succeeded', reply.text);
    assert.equal(reply.at('result', 'rowsLoaded'), 2);
  }
  assert.equal(await count(), 2);
});

test('hosts that are not listed are refused at once, and so are invalid URLs', async () => {
  for (const url of [
    'http://localhost/a.csv',
    'http://169.254.169.254/a.csv',
    'http://[::1]/a.csv',
    'http://192.168.0.1/a.csv',
  ])
    (await post({ source: { url } })).is(400, 'HOST_NOT_ALLOWED');
  for (const url of ['ftp://example.com/a.csv', 'file:///etc/passwd', 'a.csv', 'http://user:pass@example.com/a.csv'])
    (await post({ source: { url } })).is(400, 'INVALID_PARAMETER');
});

test('a failing source leaves the table unchanged', async () => {
  const codes = { '/away.csv': 'HOST_NOT_ALLOWED', '/large.csv': 'REMOTE_REFUSED', '/none.csv': 'REMOTE_REFUSED' };
  for (const [path, code] of Object.entries(codes)) {
    const reply = await load({ source: { url: `${address}${path}` } });
    assert.equal(reply.at('error', 'code'), code, reply.text);
  }
  // An interrupted download is retried; until then the task waits.
  const failedLoad = (await post({ source: { url: `${address}/broken.csv` }, mode: 'replace' })).is(202);
  const task = await server.get(`${failedLoad.at<string>('uri')}?waitSeconds=1`);
  assert.ok(['pending', 'running'].includes(task.at('state')), task.text);
  (await server.post(task.at<string>('cancelUri'))).is(200);
  assert.equal(await count(), 2);
});

test('an upload is loaded once, by its owner, and then deleted; the rejected rows are a file', async () => {
  const text = `${csv}x,c\n`;
  const upload = (await server.post('/api/v2/uploads', { name: 'people.csv', bytes: text.length })).is(201);
  const source = { upload: upload.at<string>('uploadId') };
  (await post({ source })).is(400, 'INVALID_PARAMETER');
  (await post({ source: { upload: 'none' }, format: 'csv' })).is(400, 'INVALID_PARAMETER');
  const sent = await server.send('PUT', upload.at('link'), { body: text, headers: { 'content-type': undefined } });
  assert.equal(sent.status, 200, sent.text);
  const reply = await load({ source, errorsMax: 1 });
  assert.equal(reply.at('state'), 'succeeded', reply.text);
  assert.partialDeepStrictEqual(reply.at('result'), { rowsLoaded: 2, rowsRejected: 1 });
  const rejected = await server.send('GET', reply.at('rejectsLink'));
  assert.equal(rejected.status, 200);
  assert.partialDeepStrictEqual(JSON.parse(rejected.text), { row: 3, column: 'id', text: 'x,c' });
  (await server.get(upload.at('uri'))).is(404, 'OBJECT_NOT_FOUND');
  (await post({ source })).is(400, 'INVALID_PARAMETER');
  assert.equal(await count(), 2);
});

test('whether a label was loaded can be asked before the file is sent', async () => {
  const ask = { source: { upload: 'not-sent-yet' }, label: 'asked', mode: 'append' };
  const refused = (await post(ask)).is(400, 'INVALID_PARAMETER');
  assert.partialDeepStrictEqual(refused.at('violations'), [{ pointer: '/source/upload' }]);
  const before = Number(await count());
  const upload = (await server.post('/api/v2/uploads', { name: 'people.csv', bytes: csv.length })).is(201);
  const sent = await server.send('PUT', upload.at('link'), { body: csv, headers: { 'content-type': undefined } });
  assert.equal(sent.status, 200, sent.text);
  const loaded = await load({ ...ask, source: { upload: upload.at<string>('uploadId') } });
  assert.equal(loaded.at('state'), 'succeeded', loaded.text);
  assert.partialDeepStrictEqual((await load(ask)).at('result'), { rowsLoaded: 2, repeated: true });
  (await post({ ...ask, dryRun: true })).is(400, 'INVALID_PARAMETER');
  (await post({ ...ask, label: 'another' })).is(400, 'INVALID_PARAMETER');
  assert.equal(await count(), before + 2);
});

test('an object of an object store is loaded; its credentials are shown nowhere and deleted with the task', async () => {
  const location = { endpoint: store.endpoint, region: 'us-east-1', bucket: store.bucket, pathStyle: true };
  const rules = new HostAllowlist(['127.0.0.1']);
  const objectStore = await openObjectStore(location, store, rules);
  await objectStore.writeSmall('in/people é.csv', csv);
  objectStore.close();
  const { accessKeyId, secretAccessKey } = store;
  const s3 = { ...location, key: 'in/people é.csv', accessKeyId, secretAccessKey };
  const reply = await load({ source: { s3 } });
  assert.equal(reply.at('state'), 'succeeded', reply.text);
  assert.equal(reply.at('result', 'rowsLoaded'), 2);
  assert.ok(!reply.text.includes(secretAccessKey) && !reply.text.includes('secretAccessKey'), reply.text);
  const missing = await load({ source: { s3: { ...s3, key: 'in/none.csv' } } });
  assert.equal(missing.at('error', 'code'), 'REMOTE_REFUSED', missing.text);
  (await post({ source: { s3: { ...s3, secretAccessKey: undefined } } })).is(400, 'INVALID_PARAMETER');
  (await post({ source: { s3: { ...s3, endpoint: 'http://10.0.0.1' } } })).is(400, 'HOST_NOT_ALLOWED');
  await server.close();
  const database = new DatabaseSync(join(dataDir, storeFileName), { readOnly: true });
  const names = database.prepare('SELECT name FROM secrets').all();
  assert.ok(!JSON.stringify(names).includes('load/'), JSON.stringify(names));
  database.close();
});
