// Tables created from files by REST: the inferred definition, overrides by the caller, invisible until complete, no table after
// a failure, each label is loaded once, and progress.
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { newPerson } from '../../access/people.ts';
import { eventually } from '../../deadline.ts';
import { type Reply, start, type TestServer, uri } from '../../server.ts';
import { Receiver } from '../../tasks/receiver.ts';

const directory = realpathSync(mkdtempSync(join(tmpdir(), 'load ')));
let server: TestServer;
let web: Server;
let address: string;
/** The requests that wait for more of `/slow.csv`. */
const slow: ServerResponse[] = [];
let tableCount = 0;

const slowRows = Array.from({ length: 10 }, (_, i) => `${i},${'x'.repeat(1000)}\n`);
const slowBytes = 'id,name\n'.length + slowRows.join('').length;

before(async () => {
  web = createServer((request, response) => {
    if (request.url !== '/slow.csv') return void response.writeHead(404).end();
    response.writeHead(200, { 'content-length': String(slowBytes) });
    response.write('id,name\n');
    slow.push(response);
  });
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  server = await start({ loadDirectories: directory, loadHosts: '127.0.0.1', webhookHosts: '127.0.0.1' });
  (await server.put(uri`/databases/${'d'}`)).is(201);
});
after(async () => {
  await server.close();
  web.closeAllConnections();
  await new Promise((resolve) => web.close(resolve));
  rmSync(directory, { recursive: true, force: true });
});

function writeSource(name: string, bytes: string | Uint8Array): string {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
}

const newTableName = () => `t${++tableCount}`;
const post = (body: object, instance = server): Promise<Reply> => instance.post(uri`/databases/${'d'}/load`, body);
const load = async (body: object): Promise<Reply> => server.ended(await post(body));

async function loadSucceeding(body: object): Promise<Record<string, unknown>> {
  const reply = await load(body);
  assert.equal(reply.at('state'), 'succeeded', JSON.stringify(reply.at('error')));
  return reply.at('result');
}

async function failed(body: object): Promise<Reply> {
  const reply = await load(body);
  assert.equal(reply.at('state'), 'failed', reply.text);
  return reply;
}

const columnsOf = async (table: string) => {
  const columns = (await server.get(uri`/databases/${'d'}/tables/${table}`))
    .is(200)
    .at<Record<string, unknown>[]>('columns');
  return columns.map(({ name, type, nullable }) => `${name} ${type}${nullable ? '' : ' NOT NULL'}`);
};

/** The next request for it. */
async function startSlowLoad(): Promise<ServerResponse> {
  await pollUntil(
    async () => slow.length,
    (length) => length > 0,
  );
  return slow.shift() as ServerResponse;
}

/** Polled until it is true. */
async function pollUntil<T>(read: () => Promise<T>, isSo: (value: T) => boolean): Promise<T> {
  const readProgress = async () => {
    const value = await read();
    return isSo(value) ? { value } : undefined;
  };
  return (await eventually(String(isSo), readProgress, 60_000)).value;
}

const csv = 'id,name,born\n1,ann,2001-02-03\n2,bob,\n';

test('a table is created from the file and filled', async () => {
  const table = newTableName();
  const body = {
    table,
    source: { path: writeSource('a.csv.gz', gzipSync(csv)) },
    comment: 'people',
    primaryKey: ['id'],
  };
  const reply = await load(body);
  assert.deepEqual(reply.at('result'), {
    rowsLoaded: 2,
    rowsRejected: 0,
    bytes: csv.length,
    dryRun: false,
    repeated: false,
    rejectedRows: [],
    rejectsFileId: null,
    table,
  });
  assert.equal(reply.at('target'), uri`/catalogs/${'default'}/databases/${'d'}/tables/${table}`);
  assert.deepEqual(await columnsOf(table), ['id BIGINT NOT NULL', 'name STRING', 'born DATE']);
  assert.deepEqual(await server.rows('d', `SELECT * FROM ${table} ORDER BY id`), [
    [1, 'ann', '2001-02-03'],
    [2, 'bob', null],
  ]);
  const record = (await server.get(reply.at('target'))).is(200);
  assert.partialDeepStrictEqual(record.result, { comment: 'people', primaryKey: ['id'], statistics: { rowCount: 2 } });
  (await post(body)).is(400, 'OBJECT_ALREADY_EXISTS');
});

test('columns, types and keys that the caller specifies take precedence', async () => {
  const path = writeSource('b.csv', csv);
  const typed = newTableName();
  await loadSucceeding({ table: typed, source: { path }, types: { id: 'STRING' }, unique_key_constraints: ['name'] });
  assert.deepEqual(await columnsOf(typed), ['id STRING', 'name STRING', 'born DATE']);
  const table = newTableName();
  const columns = [
    { name: 'who', source: 'name', type: 'VARCHAR(10)', nullable: false },
    { name: 'key', expression: 'id * 10' },
    { name: 'kind', type: 'STRING', defaultValue: "'new'", comment: 'not in the file' },
  ];
  await loadSucceeding({ table, source: { path }, columns, primaryKey: ['key'] });
  assert.deepEqual(await columnsOf(table), ['who VARCHAR(10) NOT NULL', 'key BIGINT NOT NULL', 'kind STRING']);
  assert.deepEqual(await server.rows('d', `SELECT * FROM ${table} ORDER BY key`), [
    ['ann', 10, 'new'],
    ['bob', 20, 'new'],
  ]);
});

test('inferOnly shows the table in the form of a definition, and creates nothing', async () => {
  const path = writeSource('c.csv', 'id;share;big\n1;0.5;170141183460469231731687303715884105727\n2;1;1\n');
  const request = { table: 'shown', source: { path }, primaryKey: ['id'], types: { big: 'LARGEINT' } };
  const reply = (await post({ ...request, inferOnly: true })).is(200);
  assert.partialDeepStrictEqual(reply.result, {
    table: 'shown',
    columns: [
      { name: 'id', type: 'BIGINT', nullable: false },
      { name: 'share', type: 'DOUBLE', nullable: true },
      { name: 'big', type: 'LARGEINT', nullable: true },
    ],
    primaryKey: ['id'],
    format: 'csv',
    csv: { delimiter: ';', header: true },
  });
  assert.match(reply.text, /"rows":\[\[1,0\.5,170141183460469231731687303715884105727\],\[2,1,1\]\]/);
  (await server.get(uri`/databases/${'d'}/tables/${'shown'}`)).is(404, 'OBJECT_NOT_FOUND');
  assert.deepEqual(reply.at('sample'), { rows: 2, rowsRejected: 0 });
  const { table: _, rows: __, bytes: ___, sample: ____, ...back } = reply.result;
  await loadSucceeding({ ...back, table: 'shown', source: { path } });
  assert.deepEqual(await columnsOf('shown'), ['id BIGINT NOT NULL', 'share DOUBLE', 'big LARGEINT']);
  // Also without a name, and with a name that is in use.
  (await post({ source: { path }, inferOnly: true })).is(200);
  (await post({ ...request, inferOnly: true })).is(200);
  const refusedPreview = await post({ source: { path: writeSource('c.parquet', csv) }, inferOnly: true });
  refusedPreview.is(400, 'DATA_INVALID');
  const task = await server.ended(await post({ ...request, inferOnly: true, waitSeconds: 0 }));
  assert.partialDeepStrictEqual(task.at('result'), { table: 'shown', format: 'csv' });
});

test('inferOnly with a table needs no more than the right to write that table', async () => {
  for (const name of ['written', 'unwritten'])
    (await server.post('/api/v2/databases/d/tables', { name, columns: [{ name: 'id', type: 'INT' }] })).is(201);
  const table = '/catalogs/default/databases/d/tables/written';
  const writer = await newPerson(server, 'one_table', [
    ['write', table],
    ['use', '/warehouses/default'],
  ]);
  const source = { path: writeSource('one_table.csv', 'id\n7\n') };
  const load = (body: object) => writer.post('/api/v2/databases/d/load', { source, ...body });
  (await load({ table: 'written', inferOnly: true })).is(200, '0', { columns: [{ name: 'id' }], rows: [[7]] });
  (await load({ table: 'written', inferOnly: true, waitSeconds: 0 })).is(202);
  for (const refused of [
    { inferOnly: true },
    { table: 'unwritten', inferOnly: true },
    { table: 'missing', inferOnly: true },
    { table: 'written', dryRun: true },
    { table: 'new' },
  ])
    (await load(refused)).is(403, 'FORBIDDEN');
});

test('a dry run does everything and leaves nothing', async () => {
  const table = newTableName();
  const body = { table, source: { path: writeSource('dry.csv', `${csv}x,c,\n`) }, types: { id: 'INT' }, dryRun: true };
  const reply = await failed(body);
  assert.partialDeepStrictEqual(reply.at('error'), { code: 'DATA_INVALID', result: { row: 3, column: 'id' } });
  const loaded = await loadSucceeding({ ...body, errorsMax: 1 });
  assert.partialDeepStrictEqual(loaded, { rowsLoaded: 2, rowsRejected: 1, dryRun: true, table });
  (await server.get(uri`/databases/${'d'}/tables/${table}`)).is(404, 'OBJECT_NOT_FOUND');
  await loadSucceeding({ ...body, errorsMax: 1, dryRun: false });
  (await post({ ...body, errorsMax: 1 })).is(400, 'OBJECT_ALREADY_EXISTS');
  // Views share the namespace of tables.
  (await server.put(uri`/databases/${'d'}/views/${'seen'}`, { sql: 'SELECT 1 AS a' })).is(201);
  for (const dryRun of [true, false]) (await post({ ...body, table: 'Seen', dryRun })).is(400, 'OBJECT_ALREADY_EXISTS');
});

test('requests that are refused at once', async () => {
  const path = writeSource('e.csv', csv);
  const source = { path };
  const refused: Readonly<Record<string, readonly object[]>> = {
    INVALID_PARAMETER: [
      { source },
      { table: 'r', source: { path: '/etc/passwd' }, format: 'csv' },
      { table: 'r', source, types: { id: 'NUMBER' } },
      { table: 'r', source, types: { id: 'INT' }, columns: [{ name: 'id' }] },
      { table: 'r', source, columns: [{ name: 'id', type: 'NUMBER' }] },
      { table: 'r', source, columns: [{ name: 'id' }, { name: 'ID' }] },
      { table: 'r', source, columns: [{ name: 'id' }], primaryKey: ['other'] },
      { table: 'r', source, columns: [{ name: 'id', source: 'id', expression: 'id' }] },
      { table: 'r', source, columns: [{ name: 'id', defaultValue: 1 }] },
      { table: 'r', source, columns: [{ name: 'n', type: 'INT', defaultValue: 'nothing such' }] },
      { table: 'r', source, waitSeconds: 1 },
      { table: 'r', source, inferOnly: true, dryRun: true },
      { table: 'r', source, owner: 'nobody' },
      { table: 'r', source, after: ['none'] },
    ],
    UNKNOWN_FIELD: [{ table: 'r', source, mode: 'append' }],
    INVALID_NAME: [
      { table: '', source },
      { table: 'a\u0000b', source },
      { table: '..', source },
    ],

    HOST_NOT_ALLOWED: [
      { table: 'r', source: { url: 'http://10.0.0.1/a.csv' } },
      { table: 'r', source, notify: { url: 'http://10.0.0.1/a' } },
    ],
  };
  for (const [code, bodies] of Object.entries(refused)) for (const body of bodies) (await post(body)).is(400, code);
  (await server.post(uri`/databases/${'none'}/load`, { table: 'r', source })).is(404, 'OBJECT_NOT_FOUND');
  (await post({ table: 'r', source, replicationNum: 3 })).is(503, 'NOT_ENOUGH_BACKENDS');
});

test('a file that cannot be loaded leaves no table, and the name is free', async () => {
  const lateInvalid = `id\n${'1\n'.repeat(30_000)}x\n`;
  const cases: Readonly<Record<string, readonly [string | Uint8Array, object, object]>> = {
    'f1.csv': [`${csv}3\n`, {}, { code: 'DATA_INVALID', result: { row: 3 } }],
    'f2.csv': [lateInvalid, {}, { code: 'DATA_INVALID', result: { row: 30_001, column: 'id', text: 'x' } }],
    'f3.csv': ['', {}, { code: 'DATA_INVALID' }],
    'f4.json': [csv, {}, { code: 'DATA_INVALID' }],
    'f5.csv.gz': [csv, {}, { code: 'DATA_INVALID' }],
    'f6.csv': [`${csv}1,again,\n`, { primaryKey: ['id'] }, { code: 'CONSTRAINT_VIOLATED' }],
    'f7.csv': [csv, { primaryKey: ['other'] }, { code: 'INVALID_PARAMETER' }],
    'f8.csv': [csv, { columns: [{ name: 'a', source: 'other' }] }, { code: 'INVALID_PARAMETER' }],
    'f9.csv': [csv, { columns: [{ name: 'a', expression: `getenv('X')` }] }, { code: 'SQL_FORBIDDEN_FUNCTION' }],
    'f10.csv': [`"a\u0001b",c\n1,2\n`, { csv: { header: true } }, { code: 'DATA_INVALID' }],
    'f11.csv': [csv, { columns: [{ name: 'born', nullable: false }] }, { code: 'DATA_INVALID', result: { row: 2 } }],
  };
  const table = newTableName();
  for (const [file, [bytes, more, error]] of Object.entries(cases)) {
    const reply = await failed({ table, source: { path: writeSource(file, bytes) }, ...more });
    assert.partialDeepStrictEqual(reply.at('error'), error, `${file}: ${reply.text}`);
    const { request: _, ...result } = reply.result;
    assert.doesNotMatch(JSON.stringify(result), /spool|data-|load \//, file);
    (await server.get(uri`/databases/${'d'}/tables/${table}`)).is(404, 'OBJECT_NOT_FOUND');
  }
  assert.deepEqual(
    await loadSucceeding({ table, source: { path: writeSource('f2.csv', lateInvalid) }, inferFrom: 'all' }),
    {
      rowsLoaded: 30_001,
      rowsRejected: 0,
      bytes: lateInvalid.length,
      dryRun: false,
      repeated: false,
      rejectedRows: [],
      rejectsFileId: null,
      table,
    },
  );
  assert.deepEqual(await columnsOf(table), ['id STRING']);
});

test('an upload is consumed by the load that creates the table; rejected rows are stored', async () => {
  const table = newTableName();
  const text = `${csv}x,c,\n`;
  const upload = (await server.post('/api/v2/uploads', { name: 'people.csv', bytes: text.length })).is(201);
  const sent = await server.send('PUT', upload.at('link'), { body: text, headers: { 'content-type': undefined } });
  assert.equal(sent.status, 200, sent.text);
  const source = { upload: upload.at<string>('uploadId') };
  const types = { id: 'INT' };
  (await post({ table, source, types, inferOnly: true })).is(200);
  await loadSucceeding({ table, source, types, errorsMax: 1, dryRun: true });
  await failed({ table, source, types });
  const reply = await load({ table, source, types, errorsMax: 1 });
  assert.partialDeepStrictEqual(reply.at('result'), { rowsLoaded: 2, rowsRejected: 1 });
  const rejected = await server.send('GET', reply.at('rejectsLink'));
  assert.partialDeepStrictEqual(JSON.parse(rejected.text), { row: 3, column: 'id', text: 'x,c,' });
  (await server.get(upload.at('uri'))).is(404, 'OBJECT_NOT_FOUND');
});

test('the table is invisible before it is complete; the task shows its progress, and its webhook is called', async (t) => {
  const receiver = await new Receiver().listen();
  t.after(() => receiver.close());
  const table = newTableName();
  const label = 'slow';
  const request = { table, source: { url: `${address}/slow.csv` }, label, notify: { url: receiver.url } };
  const first = await post(request);
  const task = async () => (await server.get(first.at<string>('uri'))).is(200);
  const untilProgress = (fraction: number) => pollUntil(task, (reply) => reply.at<number>('progress') >= fraction);
  const response = await startSlowLoad();
  const unseenSource = async () => {
    (await server.get(uri`/databases/${'d'}/tables/${table}`)).is(404, 'OBJECT_NOT_FOUND');
    (await server.query('d', `SELECT * FROM ${table}`)).is(400, 'SQL_INVALID');
  };
  for (let i = 0; i < 4; i++) response.write(slowRows[i]);
  await untilProgress(0.19);
  await unseenSource();
  for (let i = 4; i < 8; i++) response.write(slowRows[i]);
  const then = await untilProgress(0.39);
  assert.equal(then.at('state'), 'running');
  assert.equal(then.at('progressText'), `fetching: ${8 + 8 * 1003} of ${slowBytes} bytes`);
  assert.ok(Date.parse(then.at('expectedEndAt')) >= Date.parse(then.at('startedAt')), then.text);
  await unseenSource();
  // An identical request returns that task; any other request with the name has to wait.
  assert.equal((await post(request)).is(202).at('taskId'), first.at('taskId'));
  (await post({ ...request, label: 'another' })).is(503, 'CHANGE_IN_PROGRESS');
  (await server.put(uri`/databases/${'d'}/tables/${table}`, { columns: [{ name: 'a', type: 'INT' }] })).is(
    503,
    'CHANGE_IN_PROGRESS',
  );
  response.write(slowRows[8]);
  response.end(slowRows[9]);
  const ended = await server.ended(first);
  assert.partialDeepStrictEqual(ended.at('result'), { rowsLoaded: 10, repeated: false });
  assert.equal(ended.at('progress'), 1);
  assert.deepEqual(await server.rows('d', `SELECT count(*) FROM ${table}`), [[10]]);
  await pollUntil(
    async () => receiver.notices,
    ({ length }) => length > 0,
  );
  assert.equal(receiver.notices[0]?.task.taskId, first.at('taskId'));
});

test('a cancelled load leaves no table, whether it had begun or not', async () => {
  const table = newTableName();
  const first = await post({ table, source: { url: `${address}/slow.csv` } });
  const second = await post({
    table: `${table}_after`,
    source: { path: writeSource('g.csv', csv) },
    after: [first.at('taskId')],
  });
  await startSlowLoad();
  for (const reply of [second, first]) {
    (await server.post(reply.is(202).at('cancelUri'))).is(200);
    assert.equal((await server.ended(reply)).at('state'), 'cancelled');
  }
  for (const name of [table, `${table}_after`]) {
    (await server.get(uri`/databases/${'d'}/tables/${name}`)).is(404, 'OBJECT_NOT_FOUND');
    const reload = () => post({ table: name, source: { path: writeSource('g.csv', csv) } });
    const reply = await pollUntil(reload, ({ code }) => code !== 'CHANGE_IN_PROGRESS');
    assert.equal((await server.ended(reply)).at('state'), 'succeeded');
  }
});

test('a label is loaded once: its task is returned, or its result if the task no longer exists', async () => {
  const table = newTableName();
  const body = { table, source: { path: writeSource('h.csv', csv) }, label: 'day 1' };
  const first = await load(body);
  const retried = (await post(body)).is(202);
  assert.equal(retried.at('taskId'), first.at('taskId'));
  assert.equal(retried.at('state'), 'succeeded');
  // The same applies to a load of the table.
  const table2 = await server.post(uri`/databases/${'d'}/tables/${table}/load`, {
    source: body.source,
    label: 'day 1',
  });
  assert.partialDeepStrictEqual((await server.ended(table2)).at('result'), { rowsLoaded: 2, repeated: true });
  (await post({ ...body, label: 'day 2' })).is(400, 'OBJECT_ALREADY_EXISTS');
  (await server.delete(first.at('uri'))).is(200);
  const repeated = await load(body);
  assert.notEqual(repeated.at('taskId'), first.at('taskId'));
  assert.partialDeepStrictEqual(repeated.at('result'), { rowsLoaded: 2, repeated: true, table });
  // Also asked before the file is sent.
  const unsent = { ...body, source: { upload: 'not-sent-yet' } };
  assert.partialDeepStrictEqual((await load(unsent)).at('result'), { rowsLoaded: 2, repeated: true, table });
  (await post({ ...unsent, label: 'day 2' })).is(400, 'INVALID_PARAMETER');
  (await post({ ...unsent, inferOnly: true })).is(400, 'INVALID_PARAMETER');
  assert.deepEqual(await server.rows('d', `SELECT count(*) FROM ${table}`), [[2]]);
  (await server.delete(uri`/databases/${'d'}/tables/${table}`)).is(200);
  assert.partialDeepStrictEqual(await loadSucceeding(body), { rowsLoaded: 2, repeated: false });
  // A table that existed before its load was not created by it.
  const other = newTableName();
  (await server.put(uri`/databases/${'d'}/tables/${other}`, { columns: [{ name: 'id', type: 'INT' }] })).is(201);
  const columns = [{ name: 'id' }];
  await server.ended(
    await server.post(uri`/databases/${'d'}/tables/${other}/load`, { ...body, table: undefined, columns }),
  );
  (await post({ ...body, table: other })).is(400, 'OBJECT_ALREADY_EXISTS');
});

test('another principal gets the result of a label if it may write the table, with the privileges at that time', async () => {
  const table = newTableName();
  const body = { table, source: { path: writeSource('i.csv', csv) }, label: 'theirs' };
  await loadSucceeding(body);
  const database = `/catalogs/default/databases/d`;
  const use = ['use', '/warehouses/default'] as const;
  const columns = ['id', 'name'].map((name) => ({ name, type: 'TEXT' }));
  (await server.put(`/api/v2${database}/tables/slow`, { columns })).is(201);
  const maker = await newPerson(server, 'maker', [['create', database], ['write', `${database}/tables/slow`], use]);
  const writer = await newPerson(server, 'writer', [['create', database], ['write', database], use]);
  const path = uri`/databases/${'d'}/load`;
  (await maker.post(path, body)).is(400, 'OBJECT_ALREADY_EXISTS');
  const repeated = (await writer.post(path, body)).is(202);
  const ended = await server.ended(repeated);
  assert.partialDeepStrictEqual(ended.at('result'), { rowsLoaded: 2, repeated: true });

  const slow = { source: { url: `${address}/slow.csv` } };
  const first = (await maker.post(`/api/v2${database}/tables/slow/load`, slow)).is(202);
  const tableWithLabel = newTableName();
  const second = await maker.post(path, { table: tableWithLabel, source: body.source, after: [first.at('taskId')] });
  const response = await startSlowLoad();
  const grants = (await server.get(uri`/users/${'maker'}/grants`)).at<{ grantId: string; privilege: string }[]>(
    'grants',
  );
  const create = grants.find(({ privilege }) => privilege === 'create')?.grantId as string;
  (await server.delete(uri`/users/${'maker'}/grants/${create}`)).is(200);
  for (const row of slowRows) response.write(row);
  response.end();
  await server.ended(first);
  const refused = await server.ended(second);
  assert.equal(refused.at('error', 'code'), 'FORBIDDEN', refused.text);
  (await server.get(uri`/databases/${'d'}/tables/${tableWithLabel}`)).is(404, 'OBJECT_NOT_FOUND');
});
