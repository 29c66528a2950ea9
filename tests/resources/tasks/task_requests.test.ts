// The `request` of a task, for every type of task that a request can create: the body of the caller, without internal fields.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TaskType } from '../../../src/api/tasks/task_types.ts';
import { redactedRequest } from '../../../src/resources/records/request_redaction.ts';
import { type BackupServer, startBackingUp } from '../../backups/backing_up.ts';
import { type ObjectStoreServer, startObjectStore } from '../../outbound/object_store_server.ts';
import { type TestServer, uri } from '../../server.ts';

let backing: BackupServer;
let server: TestServer;
let s3: ObjectStoreServer;
before(async () => {
  s3 = await startObjectStore();
  backing = await startBackingUp();
  server = backing.server;
  (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'note', type: 'STRING' },
  ];
  (await server.post(`${shop}/tables`, { name: 'items', primaryKey: ['id'], columns })).is(201);
  (await server.query('shop', `INSERT INTO items VALUES (1, 'one'), (2, 'two')`)).is(200);
});
after(async () => {
  await backing.close();
  await s3.close();
});

const shop = '/api/v2/databases/shop';
const items = uri`/databases/shop/tables/items`;
const now = { waitSeconds: 0 };
const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** The request of the task that a call created, after its end and as a list shows it. */
async function shownOf(path: string, body: object): Promise<unknown> {
  const accepted = await server.post(path, body);
  const task = (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
  const request = task.at('request');
  assert.deepEqual(accepted.at('request'), request);
  const { tasks } = (await server.get('/api/v2/tasks?pageSize=1000')).result as { tasks: Record<string, unknown>[] };
  assert.deepEqual(tasks.find(({ taskId }) => taskId === task.at('taskId'))?.request, request);
  const sent = JSON.stringify(body);
  const ids = JSON.stringify(request).match(uuid) ?? [];
  assert.deepEqual(
    ids.filter((id) => !sent.includes(id)),
    [],
  );
  assert.ok(!JSON.stringify(request).includes(server.dataDirectory));
  return request;
}

async function upload(text: string): Promise<string> {
  const upload = (await server.post('/api/v2/uploads', { name: 'rows.csv' })).is(201);
  const sent = await server.send('PUT', upload.at('link'), { body: text, headers: { 'content-type': undefined } });
  return (JSON.parse(sent.text) as { result: { uploadId: string } }).result.uploadId;
}

test('queries and profiles', async () => {
  const request = { sql: 'SELECT id FROM items WHERE id > $1', parameters: [1] };
  const expected = { ...request, numbers: 'number', catalog: 'default', database: 'shop' };
  assert.deepEqual(await shownOf(`${shop}/query`, { ...request, ...now, rowsMax: 10 }), { ...expected, rowsMax: 10 });
  assert.deepEqual(await shownOf(`${shop}/profile`, { ...request, ...now }), expected);
});

test('changes of rows by expressions show these, not the statement that was assembled from them', async () => {
  const update = { set: { note: 'note || $mark' }, where: 'id = 2', parameters: { mark: '!' } };
  assert.deepEqual(await shownOf(`${items}/update`, { ...update, ...now, priority: 'high' }), update);
  const filter = { where: 'id = 77' };
  assert.deepEqual(await shownOf(`${items}/delete_rows`, { ...filter, ...now }), filter);
  const insert = { sql: 'SELECT id + 10 FROM items WHERE id = ?', columns: ['id'], parameters: [1] };
  assert.deepEqual(await shownOf(`${items}/insert_select`, { ...insert, ...now }), insert);
  assert.deepEqual(await shownOf(`${items}/optimize`, {}), {});
  assert.deepEqual(await shownOf('/api/v2/catalogs/default/check', {}), {});
});

test('tables that are created with their rows', async () => {
  const asSelect = { sql: 'SELECT id FROM items WHERE id > ?', parameters: [1] };
  const body = { name: 'large', comment: 'of items', primaryKey: ['id'] };
  assert.deepEqual(await shownOf(`${shop}/tables`, { ...body, asSelect: { ...asSelect, ...now } }), {
    ...body,
    asSelect,
  });
  const clone = { newName: 'copy', catalog: 'default' };
  assert.deepEqual(await shownOf(`${items}/clone`, { ...clone, ...now }), clone);
});

test('loads', async () => {
  const source = { upload: await upload('id,note\n5,five\n') };
  const load = { source, format: 'csv', mode: 'upsert', errorsMax: 2, label: 'five' };
  const expectedRequest = { ...load, compression: 'none' };
  assert.deepEqual(await shownOf(`${items}/load`, { ...load, priority: 'low' }), expectedRequest);
  const expected = {
    source: { upload: await upload('id,note\n5,five\n') },
    table: 'loaded',
    format: 'csv',
    types: { note: 'STRING' },
    comment: 'as loaded',
    owner: 'root',
    primaryKey: ['id'],
  };
  assert.deepEqual(await shownOf(`${shop}/load`, expected), { ...expected, compression: 'none' });
  const looked = { source: { upload: await upload('id\n5\n') }, format: 'csv', inferOnly: true };
  assert.deepEqual(await shownOf(`${shop}/load`, { ...looked, ...now }), { ...looked, compression: 'none' });
});

test('exports', async () => {
  const csv = { delimiter: ';', header: false, nullText: '-' };
  const table = { columns: ['id'], format: 'csv', compression: 'gzip', csv };
  const download = { to: { download: true } };
  assert.deepEqual(await shownOf(`${items}/export`, table), { ...table, ...download });
  const location = { endpoint: s3.endpoint, region: 'us-east-1', bucket: s3.bucket, prefix: 'out/', pathStyle: true };
  const keys = { accessKeyId: s3.accessKeyId, secretAccessKey: s3.secretAccessKey };
  const query = { sql: 'SELECT id FROM items WHERE id > ?', parameters: [1], format: 'ndjson', numbers: 'string' };
  assert.deepEqual(await shownOf(`${shop}/export`, { ...query, to: { s3: { ...location, ...keys } } }), {
    ...query,
    catalog: 'default',
    database: 'shop',
    compression: 'none',
    to: { s3: location },
  });
  const arrow = { format: 'arrow', arrowLayout: 'stream', fileBytesMax: 1024 * 1024 };
  assert.deepEqual(await shownOf(`${items}/export`, arrow), { ...arrow, compression: 'none', ...download });
});

test('backups and restores', async () => {
  const target = { path: backing.directory };
  assert.deepEqual(await shownOf(`${shop}/backup`, { to: target }), { to: target });
  const database = { name: 'restored', from: target };
  assert.deepEqual(await shownOf('/api/v2/databases/restore', database), database);
  const store = { endpoint: s3.endpoint, region: 'us-east-1', bucket: s3.bucket };
  const to = { s3: { ...store, prefix: 'kept/', pathStyle: true } };
  const signed = { s3: { ...to.s3, accessKeyId: s3.accessKeyId, secretAccessKey: s3.secretAccessKey } };
  assert.deepEqual(await shownOf('/api/v2/catalogs/default/backup', { to: signed }), { to });
  assert.deepEqual(await shownOf('/api/v2/catalogs/restore', { name: 'again', from: signed }), {
    name: 'again',
    from: to,
    warehouse: 'default',
  });
});

test('changes of objects', async () => {
  const rename = { newName: 'things' };
  const first = (await server.query('shop', 'SELECT 1', now)).is(202).at<string>('taskId');
  const afterFirst = { after: [first] };
  assert.deepEqual(await shownOf(`${items}/columns`, { name: 'more', type: 'INT', ...afterFirst }), {
    kind: 'addColumn',
    column: { name: 'more', type: 'INT' },
  });
  assert.deepEqual(await shownOf(`${items}/rename`, { ...rename, ...afterFirst }), { kind: 'rename', ...rename });
  assert.deepEqual(await shownOf(`${shop}/rename`, { newName: 'store', ...afterFirst }), { newName: 'store' });
});

test('a task of an earlier release shows no statement that its caller did not send', () => {
  const fill = { sql: 'INSERT INTO made SELECT 1', numbers: 'number', catalog: 'default', database: 'shop' } as const;
  assert.deepEqual(redactedRequest({ type: 'create_filled_table', request: { fill } }), {});
  assert.deepEqual(redactedRequest({ type: 'toString' as TaskType, request: { a: 1 } }), { a: 1 });
});

test('the signature of a URL is not shown', () => {
  const source = { url: 'https://data.example.com/rows.csv?X-Amz-Signature=planted#there' };
  const expectedRequest = {
    format: 'csv',
    compression: 'none',
    source: { url: 'https://data.example.com/rows.csv?…' },
  };
  const request = { path: [], source, format: 'csv', compression: 'none' } as const;
  const table = { ...request, tableId: '1' };
  const database = { ...request, databaseId: '1', table: '', definition: {} };
  assert.deepEqual(redactedRequest({ type: 'load_table', request: table }), expectedRequest);
  assert.deepEqual(redactedRequest({ type: 'load_database', request: database }), expectedRequest);
});
