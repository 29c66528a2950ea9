// Sources that fail while a load fetches them, by URL and from an object store: after a transient error the load is retried and
// applied once, completely; otherwise it fails with the reason, and the table is unchanged. And callers that disconnect while they
// send or fetch a file.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { createServer, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';
import { closeExternalSystems, externalSystems, sourceKey } from './injection/external_systems.ts';

const validCsv = 'id,v\n1,one\n2,two\n';
const table = '/api/v2/databases/d/tables/t';
/** The next responses of the web server; the last one is repeated. */
let answers: ((response: ServerResponse) => void)[] = [];
let requests = 0;
let web: Server;
let url: string;
let server: TestServer;

before(async () => {
  web = createServer((_request, response) => {
    requests++;
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    answer?.(response);
  });
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(web.address() as AddressInfo).port}/people.csv`;
  server = await start(
    { logLevel: 'silent', webhookHosts: '127.0.0.1', loadFetchSeconds: 1 },
    {
      taskRetryPauseMs: 2,
    },
  );
  await server.client.databases.create({ name: 'd' });
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'v', type: 'STRING' },
  ];
  await server.client.databases('d').tables.create({ name: 't', columns }).done();
});
after(async () => {
  await server.close();
  await closeExternalSystems();
  web.closeAllConnections();
  await new Promise((resolve) => web.close(resolve));
});

const sendComplete = (response: ServerResponse) => void response.end(validCsv);
const refuseWith = (status: number) => (response: ServerResponse) => void response.writeHead(status).end();
const cutOff = (response: ServerResponse) => {
  response.writeHead(200, { 'content-length': validCsv.length });
  response.write(validCsv.slice(0, 10), () => response.destroy());
};
/** Without a length, only the chunks show that a body is truncated. */
const cutOffInChunks = (response: ServerResponse) => {
  response.write('id,v\n9,nine\n', () => response.destroy());
};
const sendOtherFile = (response: ServerResponse) => {
  response.writeHead(200, { 'content-length': 1000, etag: '"other"' });
  response.write('id,v\n7,seven\n', () => response.destroy());
};
const sendPartially = (response: ServerResponse) => void response.write('id,v\n');

const rows = () => server.rows('d', 'SELECT id, v FROM t ORDER BY id');
const spooledLoads = async () => (await readdir(join(server.dataDirectory, 'spool', 'loads')).catch(() => [])).length;

async function load(source: object, next: typeof answers, more: object = {}) {
  await server.post(`${table}/truncate`);
  answers = [...next];
  requests = 0;
  return server.ended(await server.post(`${table}/load`, { source, ...more }));
}

for (const [name, first] of Object.entries({
  'is cut off': cutOff,
  'is cut off without a length': cutOffInChunks,
  'is another file each time': sendOtherFile,
  'is unavailable for a while': refuseWith(503),
  'responds that it has too many callers': refuseWith(429),
  stalls: sendPartially,
})) {
  test(`a source that ${name}, then is complete`, async () => {
    const task = await load({ url }, [first, first, sendComplete]);
    assert.equal(task.at('state'), 'succeeded', task.text);
    assert.equal(requests, 3);
    assert.equal(task.at('attempt'), 3);
    const expected = [
      [1, 'one'],
      [2, 'two'],
    ];
    assert.deepEqual(await rows(), expected);
    assert.equal(await spooledLoads(), 0);
  });

  test(`a source that always ${name}`, async () => {
    const task = await load({ url }, [first]);
    assert.equal(task.at('state'), 'failed', task.text);
    assert.equal(task.at('error', 'code'), 'TASK_ATTEMPTS_EXHAUSTED', task.text);
    assert.deepEqual(await rows(), []);
    assert.equal(await spooledLoads(), 0);
  });
}

test('a source that is permanently missing is requested once', async () => {
  const task = await load({ url }, [refuseWith(410)]);
  assert.equal(task.at('error', 'code'), 'REMOTE_REFUSED', task.text);
  assert.equal(requests, 1);
});

test('an object store that fails for a while, and one that stays unavailable', async () => {
  const external = await externalSystems();
  const source = { s3: { ...external.objectStore, key: sourceKey } };
  let failures = 4;
  external.hit = () => {
    if (failures-- > 0) throw new Error('injected');
  };
  const columns = [{ name: 'id' }, { name: 'v', source: 'note' }];
  const timedOut = await load(source, [], { columns });
  assert.equal(timedOut.at('state'), 'succeeded', timedOut.text);
  assert.equal((await rows()).length, 2);
  failures = Number.POSITIVE_INFINITY;
  const unreachable = await load(source, [], { columns });
  assert.equal(unreachable.at('error', 'code'), 'TASK_ATTEMPTS_EXHAUSTED', unreachable.text);
  external.hit = () => {};
  assert.equal(await spooledLoads(), 0);
});

test('a caller that disconnects during an upload resumes it, and can disconnect during a download', async () => {
  const bytes = 6_000_000;
  const upload = (await server.post('/api/v2/uploads', { name: 'a.csv', bytes })).is(201);
  const link = upload.at<string>('link');
  const sending = request(`${server.url}${link}`, { method: 'PUT', headers: { 'content-length': bytes } });
  sending.on('error', () => undefined);
  sending.write('x'.repeat(bytes / 2), () => sending.destroy());
  const received = async () => (await server.get(upload.at('uri'))).at<number>('receivedBytes');
  await eventually('some of it has come', async () => (await received()) > 0);
  // Until the server knows that the caller has disconnected, more may arrive from the broken connection, which changes the offset.
  await eventually('the rest is taken', async () => {
    const offset = await received();
    const rest = await server.send('PUT', link, {
      body: 'x'.repeat(bytes - offset),
      headers: { 'content-type': undefined, 'content-range': `bytes ${offset}-${bytes - 1}/${bytes}` },
    });
    if (rest.status !== 200) assert.match(rest.text, /CHANGE_IN_PROGRESS/);
    return rest.status === 200;
  });
  const ready = (await server.get(upload.at('uri'))).is(200, '0', { state: 'ready', receivedBytes: bytes });
  const fetching = request(`${server.url}${ready.at('link')}`, (response) => {
    response.once('data', () => response.destroy());
  });
  fetching.on('error', () => undefined);
  fetching.end();
  await new Promise((resolve) => fetching.once('close', resolve));
  const retried = await server.send('GET', ready.at('link'), { headers: { range: 'bytes=0-9' } });
  assert.equal(retried.text, 'xxxxxxxxxx');
});
