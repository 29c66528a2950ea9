// Changes that the death of the engine interrupts (a real process, a real SIGKILL): recovered at once, before statements on their
// objects run; and set aside if recovering them ends the engine repeatedly, while everything else continues.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { eventually, statementWaitSeconds } from '../../deadline.ts';
import { start, type TestServer, uri } from '../../server.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'tabularium-recovery-'));
let server: TestServer;
let services: Services;
/** When the engine dies: during the change, or after the change and before it is reported. */
let deathOf: (change: Change) => 'during' | 'after' | undefined = () => undefined;
let deaths = 0;

function killOnApply(warehouse: EngineWarehouse, pidNow: () => number): EngineWarehouse {
  return new Proxy(warehouse, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (key !== 'apply') return typeof value === 'function' ? value.bind(target) : value;
      return async (...parameters: Parameters<EngineWarehouse['apply']>) => {
        const moment = deathOf(parameters[0]);
        // Stopped first, because a change may be complete before the following signal arrives.
        if (moment === 'during') process.kill(pidNow(), 'SIGSTOP');
        const applied = target.apply(...parameters);
        if (moment === undefined) return applied;
        if (moment === 'after') await applied;
        deaths++;
        process.kill(pidNow(), 'SIGKILL');
        if (moment === 'during') return applied;
        // Its response was on its way and gets lost.
        throw new Failure('WAREHOUSE_FAILED', 'the engine died before its answer arrived');
      };
    },
  });
}

const wrapEngine = (engine: Engine): Engine => ({
  ...engine,
  open: (options) => {
    let pid = 0;
    const observe: typeof options.observe = (event) => {
      if (event.kind === 'engineStarted') pid = event.pid;
      options.observe(event);
    };
    return killOnApply(engine.open({ ...options, observe }), () => pid);
  },
});

async function open(): Promise<void> {
  const assembled = (all: Services) => {
    services = all;
  };
  server = await start({ dataDir, logLevel: 'silent', undropSeconds: 1 }, { wrapEngine, assembled });
}
before(open);
after(async () => {
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const isOf = (change: Change, table: string) => 'table' in change && change.table.table === table;
const column = { name: 'id', type: 'BIGINT' };

let created = 0;
/** In a warehouse of its own: an engine that dies often is restarted after ever longer delays. */
async function newCatalog(): Promise<string> {
  const name = `c${++created}`;
  await server.client.warehouses.create({ name });
  await server.client.catalogs.create({ name, warehouse: name });
  return name;
}

async function newTable(catalog: string, database = 'd'): Promise<{ tables: string; path: string }> {
  await server.client.catalogs(catalog).databases.create({ name: database });
  const tables = uri`/catalogs/${catalog}/databases/${database}/tables`;
  (await server.post(tables, { name: 't', columns: [column] })).is(201);
  (await query(catalog, database, 'INSERT INTO t VALUES (1)')).is(200);
  return { tables, path: `${tables}/t` };
}

const query = (catalog: string, database: string, sql: string) =>
  server.post(uri`/catalogs/${catalog}/databases/${database}/query`, { sql, waitSeconds: statementWaitSeconds() });

interface WarehouseRecord {
  readonly openChanges: number;
  readonly blockedChanges: number;
  readonly health: { readonly status: string; readonly message: string };
}

async function health(warehouse: string) {
  const { result } = (await server.get(uri`/warehouses/${warehouse}`)).is(200);
  const { openChanges, blockedChanges, health: now } = result as unknown as WarehouseRecord;
  return { openChanges, blockedChanges, ...now };
}

async function metric(state: string): Promise<number> {
  const { text } = await server.send('GET', '/metrics');
  const line = text
    .split('\n')
    .find((candidate) => candidate.startsWith('tabularium_open_intents{') && candidate.includes(state));
  return Number(line?.split(' ').at(-1) ?? 0);
}

const well = { openChanges: 0, blockedChanges: 0, status: 'healthy', message: 'running' };

for (const moment of ['during', 'after'] as const) {
  test(`a change whose engine dies ${moment} is ended before the next statement on its object runs`, async () => {
    const catalog = await newCatalog();
    const { tables, path } = await newTable(catalog);
    let remaining = 1;
    deathOf = (change) => (change.kind === 'renameTable' && remaining-- > 0 ? moment : undefined);
    (await server.post(`${path}/rename`, { newName: 'u' })).is(503, 'WAREHOUSE_FAILED', { outcome: 'unknown' });
    // Immediately: they wait for the engine and for the recovery.
    const [renamed, old] = await Promise.all([
      query(catalog, 'd', 'SELECT id FROM u'),
      query(catalog, 'd', 'SELECT id FROM t'),
    ]);
    assert.deepEqual(renamed.is(200).at('rows'), [[1]]);
    old.is(400, 'SQL_INVALID');
    (await server.get(`${tables}/u`)).is(200, '0', { state: 'ready', stateReason: null });
    assert.deepEqual(await health(catalog), well);
    assert.equal(await metric('open'), 0);

    remaining = 1;
    deathOf = (change) => (change.kind === 'createTable' && remaining-- > 0 ? moment : undefined);
    const body = { name: 'new', columns: [column] };
    (await server.post(tables, body)).is(503, 'WAREHOUSE_FAILED', { outcome: 'unknown' });
    (await server.post(tables, body)).is(201);
    assert.deepEqual((await query(catalog, 'd', 'SELECT count(*) FROM new')).is(200).at('rows'), [[0]]);
  });
}

test('a change whose recovery ends the engine twice is set aside; other work continues; a change of the object releases it', async () => {
  const catalog = await newCatalog();
  const { tables, path } = await newTable(catalog);
  const other = await newTable(catalog, 'other');
  deathOf = (change) => (change.kind === 'renameTable' && isOf(change, 't') ? 'during' : undefined);
  deaths = 0;
  (await server.post(`${path}/rename`, { newName: 'u' })).is(503, 'WAREHOUSE_FAILED', { outcome: 'unknown' });
  await eventually('the table is blocked', async () => (await server.get(path)).at('state') === 'blocked');
  assert.equal(deaths, 3, 'once by the request, twice by recovery');
  assert.match((await server.get(path)).at('stateReason'), /engine ended 2 times/);
  const { status, message, ...counts } = await health(catalog);
  assert.deepEqual(counts, { openChanges: 1, blockedChanges: 1 });
  assert.equal(status, 'degraded');
  assert.match(message, /1 change is blocked/);
  assert.equal(await metric('blocked'), 1);

  const refused = await query(catalog, 'd', 'SELECT * FROM t');
  refused.is(503, 'CHANGE_IN_PROGRESS', { outcome: 'notApplied' });
  assert.match(refused.message, /blocked/);
  (await query(catalog, 'd', 'SELECT * FROM u')).is(503, 'CHANGE_IN_PROGRESS', { outcome: 'notApplied' });
  const rows = await server.post(`${path}/rows`, { rows: [[2]] });
  rows.is(503, 'CHANGE_IN_PROGRESS', { outcome: 'notApplied' });
  const upload = (await server.post('/api/v2/uploads', { name: 'rows.csv', bytes: 5 })).is(201);
  assert.equal((await server.send('PUT', upload.at('link'), { body: 'id\n7\n' })).status, 200);
  const source = { upload: upload.at<string>('uploadId') };
  const load = (await server.post(`${path}/load`, { source })).is(202).at<string>('uri');
  const loadText = async () => String((await server.get(load)).at('progressText'));
  await eventually('the load waits for the table', async () => (await loadText()).includes('blocked'));
  (await server.post(`${load}/cancel`)).is(200);
  assert.deepEqual((await query(catalog, 'other', 'SELECT * FROM t')).is(200).at('rows'), [[1]]);
  (await server.post(tables, { name: 'more', columns: [column] })).is(201);
  (await server.post(`${other.path}/columns`, { name: 'c', type: 'INT' })).is(201);
  const all = uri`/catalogs/${catalog}/databases/d?cascade=true`;
  (await server.delete(all)).is(503, 'CHANGE_IN_PROGRESS', { outcome: 'notApplied' });
  assert.equal(deaths, 3, 'nobody tries it again by itself');

  deathOf = () => undefined;
  // It completes the rename, and is not applied to the object that has the name now.
  const released = await server.patch(path, { comment: 'released' });
  released.is(503, 'CHANGE_IN_PROGRESS', { outcome: 'notApplied', name: 't', newName: 'u' });
  (await server.get(path)).is(404, 'OBJECT_NOT_FOUND');
  (await server.get(`${tables}/u`)).is(200, '0', { comment: null });
  (await server.get(`${tables}/u`)).is(200, '0', { state: 'ready', stateReason: null });
  assert.deepEqual((await query(catalog, 'd', 'SELECT id FROM u')).is(200).at('rows'), [[1]]);
  assert.deepEqual(await health(catalog), well);
});

test('a blocked drop and a blocked creation stay blocked after a restart, and a DELETE ends them', async () => {
  const [dropping, creating] = [await newCatalog(), await newCatalog()];
  const { path } = await newTable(dropping);
  const { tables } = await newTable(creating);
  const created = `${tables}/made`;
  deathOf = (change) => (change.kind === 'dropTable' || isOf(change, 'made') ? 'during' : undefined);
  (await server.delete(`${path}?purge=true`)).is(503, 'WAREHOUSE_FAILED', { outcome: 'unknown' });
  await eventually('the drop is blocked', async () => (await server.get(path)).result.state === 'blocked');
  (await server.put(created, { columns: [column] })).is(503, 'WAREHOUSE_FAILED', { outcome: 'unknown' });
  await eventually('the creation is blocked', async () => (await server.get(created)).result.state === 'blocked');
  assert.equal(await metric('blocked'), 1, 'of each warehouse');
  await server.close();
  deaths = 0;
  await open();
  assert.deepEqual((await query(creating, 'd', 'SELECT id FROM t')).is(200).at('rows'), [[1]]);
  assert.equal(deaths, 0, 'a start leaves them alone');
  for (const catalog of [dropping, creating]) assert.equal((await health(catalog)).blockedChanges, 1);
  deathOf = () => undefined;
  for (const objectPath of [path, created]) {
    (await server.delete(objectPath)).is(200, '0', { deleted: true });
    (await server.get(objectPath)).is(404, 'OBJECT_NOT_FOUND');
  }
  (await server.put(created, { columns: [column] })).is(201);
});

test('a DELETE and an action that complete a blocked rename report that, and delete and change nothing', async () => {
  const requests = [
    (path: string) => server.delete(path),
    (path: string) => server.post(`${path}/columns`, { name: 'c', type: 'INT' }),
  ];
  for (const request of requests) {
    const catalog = await newCatalog();
    const { tables, path } = await newTable(catalog);
    deathOf = (change) => (change.kind === 'renameTable' && isOf(change, 't') ? 'during' : undefined);
    (await server.post(`${path}/rename`, { newName: 'u' })).is(503, 'WAREHOUSE_FAILED', { outcome: 'unknown' });
    await eventually('the table is blocked', async () => (await server.get(path)).at('state') === 'blocked');
    deathOf = () => undefined;
    (await request(path)).is(503, 'CHANGE_IN_PROGRESS', { outcome: 'notApplied' });
    (await server.get(`${tables}/u`)).is(200, '0', { state: 'ready' });
    assert.deepEqual((await query(catalog, 'd', 'FROM u')).is(200).at('rows'), [[1]]);
  }
});

test('a blocked purge is shown in its warehouse, and an operator can retry it', async () => {
  const catalog = await newCatalog();
  const { path } = await newTable(catalog);
  (await server.delete(path)).is(200);
  deathOf = (change) => (change.kind === 'purge' ? 'during' : undefined);
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  await services.catalog.purge();
  const warehouseRecord = async () => (await server.get(uri`/warehouses/${catalog}`)).is(200).result;
  await eventually('the purge is blocked', async () => (await warehouseRecord()).blockedChanges === 1);
  const { blocked } = (await warehouseRecord()) as { blocked: { reason: string }[] };
  assert.partialDeepStrictEqual(blocked, [{ category: 'tables', path: [catalog, 'd', 't'], change: 'purge' }]);
  assert.match(blocked[0]?.reason ?? '', /engine ended/);
  assert.equal((await health(catalog)).status, 'degraded');

  deathOf = () => undefined;
  const release = uri`/warehouses/${catalog}/release_blocked_changes`;
  (await server.post(release)).is(200, '0', { released: 1 });
  await eventually('the purge is done', async () => (await warehouseRecord()).openChanges === 0);
  assert.deepEqual(await health(catalog), well);
  (await server.post(release)).is(200, '0', { released: 0 });
});
