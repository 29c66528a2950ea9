// Schedules that run actions of the API: loads and exports with credentials of an object store, changes of rows; secrets are not
// revealed, refusals are reported, and each scheduled time has one task despite failures.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { HostAllowlist } from '../../../src/outbound/host_allowlist.ts';
import { type ObjectStore, openObjectStore } from '../../../src/outbound/object_store.ts';
import { categoriesWith } from '../../../src/resources/index.ts';
import { newPerson } from '../../access/people.ts';
import { eventually } from '../../deadline.ts';
import { type ObjectStoreServer, startObjectStore } from '../../outbound/object_store_server.ts';
import { Receiver } from '../../tasks/receiver.ts';
import { hour, insertRun, minute, path, ScheduleWorld } from './schedule_world.ts';

interface Shape {
  readonly writeOnly?: boolean;
  readonly anyOf?: readonly Shape[];
  readonly items?: Shape;
  readonly properties?: Readonly<Record<string, Shape>>;
}

const world = new ScheduleWorld('2026-04-01T00:30:00Z', { webhookHosts: '127.0.0.1' });
const table = '/api/v2/databases/shop/tables/ran';
const secret = 'a secret of the receiver';
let receiver: Receiver;
let s3: ObjectStoreServer;
let store: ObjectStore;

before(async () => {
  receiver = await new Receiver().listen();
  s3 = await startObjectStore();
  store = await openObjectStore({ ...s3, region: 'us-east-1', pathStyle: true }, s3, new HostAllowlist(['127.0.0.1']));
  await world.open();
});
after(async () => {
  store.close();
  await world.close();
  await s3.close();
  receiver.close();
});

/** The credentials of an object store, with a token that only the store may see. */
const target = () => ({
  endpoint: s3.endpoint,
  bucket: s3.bucket,
  pathStyle: true,
  accessKeyId: s3.accessKeyId,
  secretAccessKey: s3.secretAccessKey,
});
const notify = () => ({ url: receiver.url, secret });
const request = (action: string, body: object, on = table) => ({ request: { on, action, body } });

test('a load and an export every hour, with credentials that are never shown', async () => {
  await store.writeSmall('in/ran.csv', 'who\nloaded\n', new AbortController().signal);
  const loading = request('load', { source: { s3: { ...target(), key: 'in/ran.csv' } }, mode: 'append' });
  const exporting = request('export', { format: 'csv', to: { s3: { ...target(), prefix: 'out' } } });
  const schedules = [
    await world.create('loading', { ...loading, notify: notify(), priority: 'high' }),
    await world.create('exporting', exporting),
  ];
  schedules[0]?.is(201, '0', {
    query: null,
    request: { on: table, action: 'load', body: { mode: 'append', source: { s3: { key: 'in/ran.csv' } } } },
    notify: { host: `127.0.0.1:${receiver.port}`, signed: true },
  });
  for (let n = 1; n <= 2; n++) {
    await world.setTime(world.now + hour);
    assert.equal(await world.countRuns('loaded'), n);
    const loaded = await world.lastTask('loading');
    loaded.is(200, '0', { state: 'succeeded', type: 'load_table', priority: 'high', submittedBy: 'root' });
    await eventually('notified', () => receiver.noticesOf(loaded.at('taskId')).length > 0);
    assert.ok(receiver.noticesOf(loaded.at('taskId'))[0]?.headers['x-service-signature']);
    const exported = (await world.lastTask('exporting')).is(200, '0', { state: 'succeeded', type: 'export' });
    assert.equal(exported.at('result', 'fileCount'), 1);
    schedules.push(loaded, exported, await world.get('loading'), await world.get('exporting'));
  }
  assert.equal((await Array.fromAsync(store.list('out'))).length, 4, 'two files with their manifests');
  for (const { text } of schedules)
    for (const hidden of [`"${s3.secretAccessKey}"`, secret, 'in+the+address']) assert.ok(!text.includes(hidden), text);
  for (const entry of await readdir(world.dataDir, { recursive: true, withFileTypes: true }))
    if (entry.isFile() && entry.name !== 'secret.key') {
      const bytes = (await readFile(join(entry.parentPath, entry.name))).toString('latin1');
      for (const hidden of [s3.secretAccessKey, secret, 'in+the+address'])
        assert.ok(!bytes.includes(hidden), `${entry.name} holds ${hidden}`);
    }
  const lines = (await world.server.post('/api/v2/audit_events/search', { action: 'schedules.run' })).is(200);
  assert.ok(lines.at<unknown[]>('auditEvents').length >= 4);
});

test('PATCH merges the action and the notification; credentials stay with the action and the object that they are for', async () => {
  await world.create('merged', { query: { ...insertRun('merged'), catalog: 'default' } });
  const merged = path('merged');
  const sql = "INSERT INTO ran VALUES ('changed')";
  const changed = (await world.server.patch(merged, { query: { sql } })).is(200);
  assert.deepEqual(changed.at('query'), { sql, catalog: 'default', database: 'shop' });
  const withoutDatabase = (await world.server.patch(merged, { query: { database: null } })).is(200);
  assert.deepEqual(withoutDatabase.at('query'), { sql, catalog: 'default' });
  (await world.server.patch(merged, { request: { action: 'load' } })).is(400, 'INVALID_PARAMETER');
  (await world.server.patch(merged, { notify: { secret } })).is(400, 'INVALID_PARAMETER');
  const host = `127.0.0.1:${receiver.port}`;
  (await world.server.patch(merged, { notify: { url: receiver.url } })).is(200, '0', {
    notify: { host, signed: false },
  });
  (await world.server.patch(merged, { notify: { secret } })).is(200, '0', { notify: { host, signed: true } });
  (await world.server.patch(merged, { notify: { secret: null } })).is(200, '0', { notify: { host, signed: false } });
  const loading = request('load', { source: { s3: { ...target(), key: 'in/ran.csv' } }, mode: 'append' });
  (await world.server.patch(merged, loading)).is(200, '0', { query: null });
  const [object] = (await world.services.catalog.find([{ category: 'schedules', name: 'merged' }])) ?? [];
  assert.ok(object);
  const storedSecrets = async () => JSON.stringify(await world.services.schedules.secretsOf(object.id));
  (await world.server.patch(merged, { request: { action: 'load' } })).is(200);
  assert.ok((await storedSecrets()).includes(s3.secretAccessKey));
  (await world.server.patch(merged, { request: { on: `${table}_2` }, notify: null })).is(200);
  assert.equal(await storedSecrets(), '{}');
  (await world.server.delete(merged)).is(200);
});

test('fields that are not given stay unchanged, credentials included; another action has none of the credentials of the previous one', async () => {
  (await world.server.patch(path('loading'), { comment: 'still' })).is(200, '0', { comment: 'still' });
  (await world.server.patch(path('loading'), { notify: null })).is(200, '0', { notify: null });
  const loaded = await world.countRuns('loaded');
  await world.setTime(world.now + hour);
  assert.equal(await world.countRuns('loaded'), loaded + 1);
  (await world.lastTask('loading')).is(200, '0', { state: 'succeeded', notify: null });
  const [object] = (await world.services.catalog.find([{ category: 'schedules', name: 'loading' }])) ?? [];
  assert.ok(object);
  const storedSecrets = async () => JSON.stringify(await world.services.schedules.secretsOf(object.id));
  assert.ok((await storedSecrets()).includes(s3.secretAccessKey));
  const { secretAccessKey: _, accessKeyId: __, ...open } = target();
  const other = request('load', { source: { s3: { ...open, key: 'in/ran.csv' } } });
  (await world.server.patch(path('loading'), other)).is(200);
  assert.equal(await storedSecrets(), '{}');
  (await world.server.patch(path('loading'), { query: insertRun('sql') })).is(200, '0', {
    request: null,
    query: insertRun('sql'),
  });
  await world.setTime(world.now + hour);
  assert.equal(await world.countRuns('sql'), 1);
  (await world.server.patch(path('loading'), { notify: notify() })).is(200);
  assert.ok((await storedSecrets()).includes(secret));
  for (const name of ['loading', 'exporting']) (await world.server.delete(path(name))).is(200);
  assert.equal(await storedSecrets(), '{}');
});

test('the end of a statement is notified; a rename keeps the notification', async () => {
  await world.create('notified', { notify: notify() });
  (await world.server.post(`${path('notified')}/rename`, { newName: 'renamed' })).is(200, '0', {
    name: 'renamed',
    uri: '/api/v2/schedules/renamed',
  });
  (await world.server.get(path('notified'))).is(404, 'OBJECT_NOT_FOUND');
  await world.create('notified');
  (await world.server.post(`${path('notified')}/rename`, { newName: 'renamed' })).is(400, 'OBJECT_ALREADY_EXISTS');
  await world.setTime(world.now + hour);
  assert.equal(await world.countRuns('notified'), 2);
  const last = (await world.lastTask('renamed')).is(200, '0', { target: '/api/v2/schedules/renamed' });
  await eventually('notified', () => receiver.noticesOf(last.at('taskId')).length > 0);
  for (const name of ['notified', 'renamed']) (await world.server.delete(path(name))).is(200);
});

test('a backup every night, with the credentials of an object store', async () => {
  const to = { s3: { ...target(), prefix: 'backups' } };
  const schedule = await world.create('backing', {
    ...request('backup', { to }, '/api/v2/databases/shop'),
    cron: '@daily',
  });
  assert.ok(!schedule.text.includes(`"${s3.secretAccessKey}"`), schedule.text);
  await world.setTime(world.now + 24 * hour);
  const { backupId } = (await world.lastTask('backing'))
    .is(200, '0', { state: 'succeeded' })
    .at<{ backupId: string }>('result');
  assert.ok((await Array.fromAsync(store.list('backups'))).some(({ key }) => key.includes(backupId)));
  (await world.server.delete(path('backing'))).is(200);
});

test('every credential and secret field of any scheduled call is write-only', () => {
  const looksSecret = /secret|password|accessKeyId|sessionToken|credential/i;
  const pointers: string[] = [];
  const visitSchema = (schema: Shape, pointer: string): void => {
    for (const member of schema.anyOf ?? []) visitSchema(member, pointer);
    if (schema.items) visitSchema(schema.items, `${pointer}/*`);
    for (const [name, inner] of Object.entries(schema.properties ?? {})) {
      if (looksSecret.test(name)) {
        assert.equal(inner.writeOnly, true, `${pointer}/${name} is shown again`);
        pointers.push(name);
      }
      visitSchema(inner, `${pointer}/${name}`);
    }
  };
  for (const { name, endpoints } of categoriesWith({ rowsBodyBytesMax: 1 }))
    for (const { action, body, schedulable } of endpoints)
      if (schedulable) visitSchema(body as unknown as Shape, `${name}.${action}`);
  for (const name of ['secretAccessKey', 'accessKeyId', 'sessionToken', 'secret'])
    assert.ok(pointers.includes(name), name);
});

test('actions that change rows run once for each missed time', async () => {
  await world.create('adding', { ...request('insert_select', { sql: `SELECT 'added'` }), missedRuns: 'all' });
  await world.create('changing', request('update', { set: { who: "'changed'" }, where: `who = 'never'` }));
  await world.create('deleting', request('delete_rows', { where: `who = 'never'` }));
  await world.create('tidying', request('optimize', {}));
  await world.create('asking', request('query', { sql: 'SELECT count(*) FROM ran' }, '/api/v2/databases/shop'));
  await world.setTime(world.now + 3 * hour);
  for (const name of ['adding', 'changing', 'deleting', 'tidying', 'asking'])
    (await world.lastTask(name)).is(200, '0', { state: 'succeeded' });
  assert.equal(await world.countRuns('added'), 3);
  for (const name of ['adding', 'changing', 'deleting', 'tidying', 'asking'])
    (await world.server.delete(path(name))).is(200);
});

test('a schedule runs as its owner, with the privileges at that time; a refusal is reported, and the next run starts as usual', async () => {
  const ann = await newPerson(world.server, 'ann', [
    ['create', '/schedules'],
    ['use', '/warehouses/default'],
  ]);
  const body = { where: `who = 'ann'` };
  const annsSchedule = { name: 'ann', cron: '0 * * * *', ...request('delete_rows', body), notify: notify() };
  (await ann.post('/api/v2/schedules', annsSchedule)).is(201, '0', { owner: 'ann' });
  const requireSubmissionRefused = async (code: string) => {
    await world.setTime(world.now + hour);
    const last = (await world.lastTask('ann')).is(200, '0', { state: 'failed', error: { code }, submittedBy: 'ann' });
    await eventually('notified', () => receiver.noticesOf(last.at('taskId')).length > 0);
    assert.partialDeepStrictEqual(receiver.noticesOf(last.at('taskId'))[0]?.task.error, { code });
    return last;
  };
  (await requireSubmissionRefused('FORBIDDEN')).is(200, '0', {
    type: 'scheduled_request',
    request: { action: 'delete_rows' },
  });
  for (const privilege of ['read', 'write'])
    (await world.server.post('/api/v2/users/ann/grants', { privilege, on: table })).is(201);
  await world.setTime(world.now + hour);
  (await world.lastTask('ann')).is(200, '0', { state: 'succeeded', submittedBy: 'ann' });
  (await world.server.post(`${table}/rename`, { newName: 'away' })).is(200);
  await requireSubmissionRefused('FORBIDDEN');
  (await world.server.post('/api/v2/databases/shop/tables/away/rename', { newName: 'ran' })).is(200);
  (await world.server.patch('/api/v2/users/ann', { disabled: true })).is(200);
  await requireSubmissionRefused('FORBIDDEN');
  (await world.get('ann')).is(200, '0', { error: 'the owner of the schedule is disabled' });
  (await world.server.patch('/api/v2/users/ann', { disabled: false })).is(200);
  await world.setTime(world.now + hour);
  (await world.lastTask('ann')).is(200, '0', { state: 'succeeded' });
  (await world.get('ann')).is(200, '0', { error: null });
  (await world.server.delete(path('ann'))).is(200);
});

test('a schedule that is run on request has one task for each idempotency key, and a failed task if it is refused', async () => {
  const call = (where: string) => request('insert_select', { sql: `SELECT 'at once'${where}` });
  const { nextRunAt } = (await world.create('at once', call(''))).result;
  const run = (key: string) =>
    world.server.request('POST', `${path('at once')}/run`, { body: {}, headers: { 'x-service-idempotency-key': key } });
  const first = (await run('a')).is(202, '0', { submittedBy: 'root', request: { sql: "SELECT 'at once'" } });
  (await run('a')).is(202, '0', { taskId: first.at('taskId') });
  (await run('b')).is(202);
  await world.setTime(world.now);
  assert.equal(await world.countRuns('at once'), 2);
  (await world.get('at once')).is(200, '0', { nextRunAt, error: null });
  (await world.server.post(`${table}/rename`, { newName: 'away' })).is(200);
  const refused = (await run('c')).is(202, '0', { state: 'failed', error: { code: 'OBJECT_NOT_FOUND' } });
  (await run('c')).is(202, '0', { taskId: refused.at('taskId') });
  (await world.get('at once')).is(200, '0', { nextRunAt, lastTask: refused.at('uri') });
  (await world.server.post('/api/v2/databases/shop/tables/away/rename', { newName: 'ran' })).is(200);
  (await world.server.delete(path('at once'))).is(200);
});

test('another user can change neither the action of a schedule nor who is notified', async () => {
  const eve = await newPerson(world.server, 'eve', [['create', '/schedules']]);
  await world.create('mine', request('delete_rows', { where: 'false' }));
  (await world.server.post('/api/v2/users/eve/grants', { privilege: 'alter', on: '/api/v2/schedules/mine' })).is(201);
  const before = receiver.notices.length;
  for (const change of [{ notify: notify() }, request('delete_rows', { where: 'true' })]) {
    (await eve.request('PATCH', path('mine'), change)).is(200, '0', { needsConfirmation: true });
    await world.setTime(world.now + hour);
    (await world.get('mine')).is(200, '0', {
      error: 'the owner of the schedule has not confirmed its action',
      lastTask: null,
    });
  }
  assert.equal(receiver.notices.length, before);
  (await world.server.delete(path('mine'))).is(200);
});

test('whichever statement of the store fails, each scheduled time has one task', async () => {
  await world.create('struck', { ...request('insert_select', { sql: `SELECT 'struck'` }), notify: notify() });
  await world.requireOneRunEach('struck');
  (await world.server.delete(path('struck'))).is(200);
});

test('a restarted server catches up on missed times, once', async () => {
  await world.create('again', { ...request('insert_select', { sql: `SELECT 'again'` }), notify: notify() });
  await world.server.close();
  world.now += 5 * hour;
  await world.restart();
  await world.setTime(world.now);
  assert.equal(await world.countRuns('again'), 1);
  await world.server.close();
  await world.restart();
  await world.setTime(world.now + minute);
  assert.equal(await world.countRuns('again'), 1);
  (await world.server.delete(path('again'))).is(200);
});

test('a schedule whose request the API would refuse is refused, with a pointer to the field', async () => {
  const requireScheduleRefused = async (more: object, pointer: string, code = 'INVALID_PARAMETER') =>
    (await world.server.post('/api/v2/schedules', { name: 'no', cron: '0 * * * *', ...more })).is(400, code, {
      violations: [{ pointer }],
    });
  await requireScheduleRefused({}, '/query');
  await requireScheduleRefused({ query: insertRun('no'), ...request('optimize', {}) }, '/request');
  await requireScheduleRefused(request('rename', { newName: 'x' }), '/request/action');
  await requireScheduleRefused(request('optimize', {}, '/api/v2/warehouses/default'), '/request/on');
  await requireScheduleRefused(request('optimize', {}, 'https://example.com/'), '/request/on');
  await requireScheduleRefused(request('load', {}), '/request/body/source');
  await requireScheduleRefused(request('query', {}, '/api/v2/databases/shop'), '/request/body/sql');
  await requireScheduleRefused({ request: { ...request('load', {}).request, body: undefined } }, '/request/body');
  await requireScheduleRefused(request('update', { set: { who: '1' } }), '/request/body/where');
  await requireScheduleRefused(
    request('delete_rows', { where: 'true', what: 1 }),
    '/request/body/what',
    'UNKNOWN_FIELD',
  );
  for (const field of ['waitSeconds', 'priority', 'after', 'notify'])
    await requireScheduleRefused(request('delete_rows', { where: 'true', [field]: 1 }), `/request/body/${field}`);
  await requireScheduleRefused({ query: insertRun('no'), notify: { url: 'ftp://127.0.0.1/' } }, '/notify/url');
  const unreachable = {
    name: 'no',
    cron: '@daily',
    query: insertRun('no'),
    notify: { url: 'http://elsewhere.example/' },
  };
  (await world.server.post('/api/v2/schedules', unreachable)).is(400, 'HOST_NOT_ALLOWED');
});
