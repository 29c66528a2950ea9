// Schedules that run actions of the API: loads and exports with credentials of an object store, changes of rows; secrets are not
// revealed, refusals are reported, and each time has one task despite failures.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { HostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { type ObjectStore, openObjectStore } from '../../src/outbound/object_store.ts';
import { categoriesWith } from '../../src/resources/index.ts';
import { newPerson } from '../access/people.ts';
import { eventually } from '../deadline.ts';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';
import { Receiver } from '../tasks/receiver.ts';
import { hour, insertRun, minute, path, ScheduleWorld } from './schedule_world.ts';

interface Shape {
  readonly writeOnly?: boolean;
  readonly anyOf?: readonly Shape[];
  readonly items?: Shape;
  readonly properties?: Readonly<Record<string, Shape>>;
}

const w = new ScheduleWorld('2026-04-01T00:30:00Z', { webhookHosts: '127.0.0.1' });
const table = '/api/v2/databases/shop/tables/ran';
const secret = 'a secret of the receiver';
let receiver: Receiver;
let s3: ObjectStoreServer;
let store: ObjectStore;

before(async () => {
  receiver = await new Receiver().listen();
  s3 = await startObjectStore();
  store = await openObjectStore({ ...s3, region: 'us-east-1', pathStyle: true }, s3, new HostAllowlist(['127.0.0.1']));
  await w.open();
});
after(async () => {
  store.close();
  await w.close();
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
    await w.make('loading', { ...loading, notify: notify(), priority: 'high' }),
    await w.make('exporting', exporting),
  ];
  schedules[0]?.is(201, '0', {
    query: null,
    request: { on: table, action: 'load', body: { mode: 'append', source: { s3: { key: 'in/ran.csv' } } } },
    notify: { host: `127.0.0.1:${receiver.port}`, signed: true },
  });
  for (let n = 1; n <= 2; n++) {
    await w.at(w.now + hour);
    assert.equal(await w.ran('loaded'), n);
    const loaded = await w.last('loading');
    loaded.is(200, '0', { state: 'succeeded', type: 'load_table', priority: 'high', submittedBy: 'root' });
    await eventually('told', () => receiver.of(loaded.at('taskId')).length > 0);
    assert.ok(receiver.of(loaded.at('taskId'))[0]?.headers['x-service-signature']);
    const exported = (await w.last('exporting')).is(200, '0', { state: 'succeeded', type: 'export' });
    assert.equal(exported.at('result', 'fileCount'), 1);
    schedules.push(loaded, exported, await w.show('loading'), await w.show('exporting'));
  }
  assert.equal((await Array.fromAsync(store.list('out'))).length, 4, 'two files with their manifests');
  for (const { text } of schedules)
    for (const hidden of [`"${s3.secretAccessKey}"`, secret, 'in+the+address']) assert.ok(!text.includes(hidden), text);
  for (const entry of await readdir(w.dataDir, { recursive: true, withFileTypes: true }))
    if (entry.isFile() && entry.name !== 'secret.key') {
      const bytes = (await readFile(join(entry.parentPath, entry.name))).toString('latin1');
      for (const hidden of [s3.secretAccessKey, secret, 'in+the+address'])
        assert.ok(!bytes.includes(hidden), `${entry.name} holds ${hidden}`);
    }
  const lines = (await w.server.post('/api/v2/audit_events/search', { action: 'schedules.run' })).is(200);
  assert.ok(lines.at<unknown[]>('auditEvents').length >= 4);
});

test('fields that are not given stay unchanged, credentials included; another action has none of the credentials of the previous one', async () => {
  (await w.server.patch(path('loading'), { comment: 'still' })).is(200, '0', { comment: 'still' });
  (await w.server.patch(path('loading'), { notify: null })).is(200, '0', { notify: null });
  const loaded = await w.ran('loaded');
  await w.at(w.now + hour);
  assert.equal(await w.ran('loaded'), loaded + 1);
  (await w.last('loading')).is(200, '0', { state: 'succeeded', notify: null });
  const [object] = (await w.services.catalog.find([{ category: 'schedules', name: 'loading' }])) ?? [];
  assert.ok(object);
  const storedSecrets = async () => JSON.stringify(await w.services.schedules.secretsOf(object.id));
  assert.ok((await storedSecrets()).includes(s3.secretAccessKey));
  const { secretAccessKey: _, accessKeyId: __, ...open } = target();
  const other = request('load', { source: { s3: { ...open, key: 'in/ran.csv' } } });
  (await w.server.patch(path('loading'), other)).is(200);
  assert.equal(await storedSecrets(), '{}');
  (await w.server.patch(path('loading'), { query: insertRun('sql') })).is(200, '0', {
    request: null,
    query: insertRun('sql'),
  });
  await w.at(w.now + hour);
  assert.equal(await w.ran('sql'), 1);
  (await w.server.patch(path('loading'), { notify: notify() })).is(200);
  assert.ok((await storedSecrets()).includes(secret));
  for (const name of ['loading', 'exporting']) (await w.server.delete(path(name))).is(200);
  assert.equal(await storedSecrets(), '{}');
});

test('a statement whose end is notified; a rename keeps everything', async () => {
  await w.make('told', { notify: notify() });
  (await w.server.post(`${path('told')}/rename`, { newName: 'renamed' })).is(200, '0', {
    name: 'renamed',
    uri: '/api/v2/schedules/renamed',
  });
  (await w.server.get(path('told'))).is(404, 'OBJECT_NOT_FOUND');
  await w.make('told');
  (await w.server.post(`${path('told')}/rename`, { newName: 'renamed' })).is(400, 'OBJECT_ALREADY_EXISTS');
  await w.at(w.now + hour);
  assert.equal(await w.ran('told'), 2);
  const last = (await w.last('renamed')).is(200, '0', { target: '/api/v2/schedules/renamed' });
  await eventually('told', () => receiver.of(last.at('taskId')).length > 0);
  for (const name of ['told', 'renamed']) (await w.server.delete(path(name))).is(200);
});

test('a backup every night, with the credentials of an object store', async () => {
  const to = { s3: { ...target(), prefix: 'backups' } };
  const schedule = await w.make('backing', { ...request('backup', { to }, '/api/v2/databases/shop'), cron: '@daily' });
  assert.ok(!schedule.text.includes(`"${s3.secretAccessKey}"`), schedule.text);
  await w.at(w.now + 24 * hour);
  const { backupId } = (await w.last('backing'))
    .is(200, '0', { state: 'succeeded' })
    .at<{ backupId: string }>('result');
  assert.ok((await Array.fromAsync(store.list('backups'))).some(({ key }) => key.includes(backupId)));
  (await w.server.delete(path('backing'))).is(200);
});

test('every credential and secret field of any scheduled call is write-only', () => {
  const looksSecret = /secret|password|accessKeyId|sessionToken|credential/i;
  const seen: string[] = [];
  const look = (schema: Shape, pointer: string): void => {
    for (const member of schema.anyOf ?? []) look(member, pointer);
    if (schema.items) look(schema.items, `${pointer}/*`);
    for (const [name, inner] of Object.entries(schema.properties ?? {})) {
      if (looksSecret.test(name)) {
        assert.equal(inner.writeOnly, true, `${pointer}/${name} is shown again`);
        seen.push(name);
      }
      look(inner, `${pointer}/${name}`);
    }
  };
  for (const { name, endpoints } of categoriesWith({ rowsBodyBytesMax: 1 }))
    for (const { action, body, schedulable } of endpoints)
      if (schedulable) look(body as unknown as Shape, `${name}.${action}`);
  for (const name of ['secretAccessKey', 'accessKeyId', 'sessionToken', 'secret']) assert.ok(seen.includes(name), name);
});

test('changes of rows, once for each of several missed times', async () => {
  await w.make('adding', { ...request('insert_select', { sql: `SELECT 'added'` }), missedRuns: 'all' });
  await w.make('changing', request('update', { set: { who: "'changed'" }, where: `who = 'never'` }));
  await w.make('deleting', request('delete_rows', { where: `who = 'never'` }));
  await w.make('tidying', request('optimize', {}));
  await w.make('asking', request('query', { sql: 'SELECT count(*) FROM ran' }, '/api/v2/databases/shop'));
  await w.at(w.now + 3 * hour);
  for (const name of ['adding', 'changing', 'deleting', 'tidying', 'asking'])
    (await w.last(name)).is(200, '0', { state: 'succeeded' });
  assert.equal(await w.ran('added'), 3);
  for (const name of ['adding', 'changing', 'deleting', 'tidying', 'asking'])
    (await w.server.delete(path(name))).is(200);
});

test('runs as its owner, with the privileges of that time; a refusal is reported, and the next time follows', async () => {
  const ann = await newPerson(w.server, 'ann', [
    ['create', '/schedules'],
    ['use', '/warehouses/default'],
  ]);
  const body = { where: `who = 'ann'` };
  const mine = { name: 'ann', cron: '0 * * * *', ...request('delete_rows', body), notify: notify() };
  (await ann.post('/api/v2/schedules', mine)).is(201, '0', { owner: 'ann' });
  const refused = async (code: string) => {
    await w.at(w.now + hour);
    const last = (await w.last('ann')).is(200, '0', { state: 'failed', error: { code }, submittedBy: 'ann' });
    await eventually('told', () => receiver.of(last.at('taskId')).length > 0);
    assert.partialDeepStrictEqual(receiver.of(last.at('taskId'))[0]?.task.error, { code });
    return last;
  };
  (await refused('FORBIDDEN')).is(200, '0', { type: 'scheduled_request', request: { action: 'delete_rows' } });
  for (const privilege of ['read', 'write'])
    (await w.server.post('/api/v2/users/ann/grants', { privilege, on: table })).is(201);
  await w.at(w.now + hour);
  (await w.last('ann')).is(200, '0', { state: 'succeeded', submittedBy: 'ann' });
  (await w.server.post(`${table}/rename`, { newName: 'away' })).is(200);
  await refused('FORBIDDEN');
  (await w.server.post('/api/v2/databases/shop/tables/away/rename', { newName: 'ran' })).is(200);
  (await w.server.patch('/api/v2/users/ann', { disabled: true })).is(200);
  await refused('FORBIDDEN');
  (await w.show('ann')).is(200, '0', { error: 'the owner of the schedule is disabled' });
  (await w.server.patch('/api/v2/users/ann', { disabled: false })).is(200);
  await w.at(w.now + hour);
  (await w.last('ann')).is(200, '0', { state: 'succeeded' });
  (await w.show('ann')).is(200, '0', { error: null });
  (await w.server.delete(path('ann'))).is(200);
});

test('nobody else determines its call, nor who is notified', async () => {
  const eve = await newPerson(w.server, 'eve', [['create', '/schedules']]);
  await w.make('mine', request('delete_rows', { where: 'false' }));
  (await w.server.post('/api/v2/users/eve/grants', { privilege: 'alter', on: '/api/v2/schedules/mine' })).is(201);
  const before = receiver.notices.length;
  for (const change of [{ notify: notify() }, request('delete_rows', { where: 'true' })]) {
    (await eve.request('PATCH', path('mine'), change)).is(200, '0', { needsConfirmation: true });
    await w.at(w.now + hour);
    (await w.show('mine')).is(200, '0', {
      error: 'the owner of the schedule has not confirmed its action',
      lastTask: null,
    });
  }
  assert.equal(receiver.notices.length, before);
  (await w.server.delete(path('mine'))).is(200);
});

test('whichever statement of the store fails, each time has one task', async () => {
  await w.make('struck', { ...request('insert_select', { sql: `SELECT 'struck'` }), notify: notify() });
  await w.requireOneRunEach('struck');
  (await w.server.delete(path('struck'))).is(200);
});

test('a restarted server catches up on missed times, once', async () => {
  await w.make('again', { ...request('insert_select', { sql: `SELECT 'again'` }), notify: notify() });
  await w.server.close();
  w.now += 5 * hour;
  await w.startAgain();
  await w.at(w.now);
  assert.equal(await w.ran('again'), 1);
  await w.server.close();
  await w.startAgain();
  await w.at(w.now + minute);
  assert.equal(await w.ran('again'), 1);
  (await w.server.delete(path('again'))).is(200);
});

test('a call that the API would refuse is refused, with its position', async () => {
  const refused = async (more: object, pointer: string, code = 'INVALID_PARAMETER') =>
    (await w.server.post('/api/v2/schedules', { name: 'no', cron: '0 * * * *', ...more })).is(400, code, {
      violations: [{ pointer }],
    });
  await refused({}, '/query');
  await refused({ query: insertRun('no'), ...request('optimize', {}) }, '/request');
  await refused(request('rename', { newName: 'x' }), '/request/action');
  await refused(request('optimize', {}, '/api/v2/warehouses/default'), '/request/on');
  await refused(request('optimize', {}, 'https://example.com/'), '/request/on');
  await refused(request('load', {}), '/request/body');
  await refused(request('update', { set: { who: '1' } }), '/request/body/where');
  await refused(request('delete_rows', { where: 'true', what: 1 }), '/request/body/what', 'UNKNOWN_FIELD');
  for (const field of ['waitSeconds', 'priority', 'after', 'notify'])
    await refused(request('delete_rows', { where: 'true', [field]: 1 }), `/request/body/${field}`);
  await refused({ query: insertRun('no'), notify: { url: 'ftp://127.0.0.1/' } }, '/notify/url');
  const far = { name: 'no', cron: '@daily', query: insertRun('no'), notify: { url: 'http://elsewhere.example/' } };
  (await w.server.post('/api/v2/schedules', far)).is(400, 'HOST_NOT_ALLOWED');
});
