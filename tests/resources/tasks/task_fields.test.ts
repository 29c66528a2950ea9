// The task options (`priority`, `after`, `notify`) of every endpoint that may create a task: accepted, applied, and not shown if
// they are secret; a task after one that fails changes nothing.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { categoriesWith } from '../../../src/resources/index.ts';
import { codesOf } from '../../../src/standard/openapi/endpoint_codes.ts';
import { eventually } from '../../deadline.ts';
import { endOfTask, start, type TestServer, uri } from '../../server.ts';
import { Receiver } from '../../tasks/receiver.ts';

let server: TestServer;
let receiver: Receiver;
const secret = 'a secret of the receiver';
const endless = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';
const shop = '/api/v2/databases/shop';

before(async () => {
  receiver = await new Receiver().listen();
  server = await start({ webhookHosts: '127.0.0.1', warehouseThreads: 1 });
});
after(async () => {
  await server.close();
  receiver.close();
});

beforeEach(async () => {
  (await server.delete(`${shop}?cascade=true`)).is(200);
  (await server.put(shop)).is(201);
  const columns = [
    { name: 'id', type: 'INT' },
    { name: 'name', type: 'VARCHAR(16)' },
  ];
  for (const name of ['items', 'gone']) {
    (await server.post(`${shop}/tables`, { name, columns, primaryKey: ['id'] })).is(201);
    (await server.query('shop', `INSERT INTO ${name} VALUES (1, 'one'), (2, 'two')`)).is(200);
  }
  (await server.delete(`${shop}/tables/gone`)).is(200);
});

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body: object;
  /** The state after the change. */
  readonly done: () => Promise<void>;
}

const table = uri`/databases/shop/tables/items`;
const rowsAre = (sql: string, rows: unknown[][]) => async () => assert.deepEqual(await server.rows('shop', sql), rows);
const isThere = (path: string) => async () => void (await server.get(path)).is(200);

/** Every change of this database that may be a task, with its task options. */
function requests(fields: object): Record<string, Request> {
  const action = (path: string, body: object, requireDone: Request['done'], method = 'POST') => ({
    method,
    path,
    body,
    done: requireDone,
  });
  return {
    'tables.patch': action(table, { unique_key_constraints: ['name'], ...fields }, isThere(table), 'PATCH'),
    'tables.rename': action(`${table}/rename`, { newName: 'things', ...fields }, isThere(`${shop}/tables/things`)),
    'columns.create': action(
      `${table}/columns`,
      { name: 'note', type: 'INT', ...fields },
      isThere(`${table}/columns/note`),
    ),
    'columns.patch': action(
      `${table}/columns/name`,
      { type: 'VARCHAR(32)', ...fields },
      async () => void (await server.get(`${table}/columns/name`)).is(200, '0', { type: 'VARCHAR(32)' }),
      'PATCH',
    ),
    'columns.rename': action(
      `${table}/columns/name/rename`,
      { newName: 'title', ...fields },
      isThere(`${table}/columns/title`),
    ),
    'databases.rename': action(
      `${shop}/rename`,
      { newName: 'store', ...fields },
      async () => void (await server.post('/api/v2/databases/store/rename', { newName: 'shop' })).is(200),
    ),
    'tables.undrop': action(
      `${shop}/tables/undrop`,
      { name: 'gone', ...fields },
      rowsAre('SELECT count(*) FROM gone', [[2]]),
    ),
    'tables.create': action(
      `${shop}/tables`,
      { name: 'made', asSelect: { sql: 'SELECT id FROM items', ...fields } },
      rowsAre('SELECT id FROM made ORDER BY id', [[1], [2]]),
    ),
    'tables.clone': action(
      `${table}/clone`,
      { newName: 'made', ...fields },
      rowsAre('SELECT name FROM made ORDER BY id', [['one'], ['two']]),
    ),
    'catalogs.check': action('/api/v2/catalogs/default/check', fields, isThere(table)),
    'tables.optimize': action(`${table}/optimize`, fields, isThere(table)),
    'tables.update': action(
      `${table}/update`,
      { set: { name: "'x'" }, where: 'id = 1', ...fields },
      rowsAre('SELECT name FROM items WHERE id = 1', [['x']]),
    ),
    'tables.delete_rows': action(
      `${table}/delete_rows`,
      { where: 'id = 1', ...fields },
      rowsAre('SELECT id FROM items', [[2]]),
    ),
    'tables.insert_select': action(
      `${table}/insert_select`,
      { sql: 'SELECT id + 10, name FROM items', ...fields },
      rowsAre('SELECT count(*) FROM items', [[4]]),
    ),
  };
}

const names = Object.keys(requests({}));

for (const name of names)
  test(`${name}: it waits for its dependency, is then applied, and its end is notified`, async () => {
    const first = (await server.query('shop', endless, { waitSeconds: 0 })).is(202);
    const quick = (await server.query('shop', 'SELECT 1', { waitSeconds: 0 })).is(202);
    (await endOfTask(server, quick.at<string>('uri'))).is(200, '0', { state: 'succeeded' });
    const fields = (taskId: string) => ({ priority: 'low', after: [taskId], notify: { url: receiver.url, secret } });
    const createTaskAfter = (taskId: string) => {
      const { method, path, body } = requests(fields(taskId))[name] as Request;
      return server.request(method, path, { body });
    };
    const failing = (await createTaskAfter(first.at('taskId'))).is(202, '0', { state: 'pending', priority: 'low' });
    assert.deepEqual(failing.at('after'), [first.at('taskId')]);
    (await server.post(`${first.at<string>('uri')}/cancel`)).is(200);
    const failed = await server.ended(failing);
    failed.is(200, '0', { state: 'failed', error: { code: 'TASK_DEPENDENCY_FAILED' }, attempt: 0 });
    await eventually('its failure is notified', () => receiver.noticesOf(failing.at('taskId')).length > 0);
    // The object is unchanged and not blocked: the same request is sent again.
    const repeatAsk = () => createTaskAfter(quick.at('taskId'));
    let accepted = await repeatAsk();
    for (let i = 0; accepted.code === 'CHANGE_IN_PROGRESS' && i < 50; i++) accepted = await repeatAsk();
    const ended = await server.ended(accepted);
    ended.is(200, '0', { state: 'succeeded', priority: 'low' });
    for (const { text } of [accepted, ended, failed])
      assert.ok(!text.includes(secret) && !text.includes('in+the+address'), text);
    await requests({})[name]?.done();
    await eventually('its success is notified', () => receiver.noticesOf(ended.at('taskId')).length > 0);
    assert.ok(receiver.noticesOf(ended.at('taskId'))[0]?.headers['x-service-signature']);
  });

test('a dropped database is restored after another task', async () => {
  (await server.delete(`${shop}?cascade=true`)).is(200);
  const quick = (await server.post('/api/v2/catalogs/default/query', { sql: 'SELECT 1', waitSeconds: 0 })).is(202);
  const body = { name: 'shop', after: [quick.at('taskId')], notify: { url: receiver.url } };
  const ended = await server.ended(await server.post('/api/v2/databases/undrop', body));
  ended.is(200, '0', { state: 'succeeded', type: 'undrop_database' });
  await rowsAre('SELECT count(*) FROM items', [[2]])();
});

test('without `after` a small change is made at once, whatever other fields are given', async () => {
  for (const name of ['tables.patch', 'tables.update', 'tables.clone', 'columns.rename']) {
    const { method, path, body } = requests({ priority: 'high', notify: { url: receiver.url } })[name] as Request;
    const reply = await server.request(method, path, { body });
    assert.ok([200, 201].includes(reply.status), reply.text);
  }
});

test('every endpoint that may submit a task accepts the fields and documents their codes', () => {
  let count = 0;
  for (const category of categoriesWith({ rowsBodyBytesMax: 1 }))
    for (const endpoint of category.endpoints) {
      // A DELETE has no body (rest-standard A2).
      if (endpoint.task === undefined || endpoint.body === undefined) continue;
      // The schedule has them.
      if (category.name === 'schedules') continue;
      const operationName = `${category.name}.${endpoint.action ?? endpoint.verb}`;
      const properties = endpoint.body.properties as Record<string, { properties?: Record<string, unknown> }>;
      const schema = properties.asSelect?.properties ?? properties;
      for (const field of ['priority', 'after', 'notify'])
        assert.ok(field in schema, `${operationName} has no ${field}`);
      for (const code of ['HOST_NOT_ALLOWED', 'TOO_MANY_TASKS'] as const)
        assert.ok(
          codesOf(endpoint as Parameters<typeof codesOf>[0]).includes(code),
          `${operationName} does not declare ${code}`,
        );
      count++;
    }
  assert.ok(count > names.length, `${count}`);
});

test('invalid fields are refused, with their position', async () => {
  const quick = (await server.query('shop', 'SELECT 1', { waitSeconds: 0 })).is(202).at<string>('taskId');
  const requireTaskRefused = async (method: string, path: string, body: object, pointer: string) =>
    (await server.request(method, path, { body })).is(400, 'INVALID_PARAMETER', { violations: [{ pointer }] });
  await requireTaskRefused('PATCH', table, { comment: 'x', after: [quick] }, '/after');
  await requireTaskRefused('POST', `${table}/clone`, { newName: 'c', after: [quick], waitSeconds: 1 }, '/waitSeconds');
  await requireTaskRefused('POST', `${table}/rename`, { newName: 'c', after: [quick, 'none'] }, '/after/1');
  const asSelect = { sql: 'SELECT 1 AS x', after: ['none'] };
  await requireTaskRefused('POST', `${shop}/tables`, { name: 'c', asSelect }, '/asSelect/after/0');
  const unreachable = { ...asSelect, after: undefined, notify: { url: 'nowhere' } };
  await requireTaskRefused('POST', `${shop}/tables`, { name: 'c', asSelect: unreachable }, '/asSelect/notify/url');
  (await server.post(`${table}/optimize`, { notify: { url: 'http://elsewhere.example/' } })).is(
    400,
    'HOST_NOT_ALLOWED',
  );
});
