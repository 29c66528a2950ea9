// A server that is lost for good is removed by an operator: refused while it responds, and without consent while it has warehouses. Then
// nothing of it is left that anybody waits for, and its process can start as a new server.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually } from '../deadline.ts';
import { missingPostgresql } from '../postgresql.ts';
import { endOfTask, type ServerProcess } from '../server.ts';
import { kill, newPlaces, type Places, seeEachOther } from './two_servers.ts';

const far = '/api/v2/catalogs/far';
const silent = ['--log-level=silent'];
const endless = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3';

describe('a server that is lost for good', { skip: missingPostgresql }, () => {
  let places: Places;
  let one: ServerProcess;
  let two: ServerProcess;
  let lost = '';
  before(async () => {
    places = await newPlaces();
    one = await places.one.start(silent);
    two = await places.two.start(silent);
    (await two.post('/api/v2/warehouses', { name: 'second', queriesMax: 1 })).is(201);
    await seeEachOther(one, two, ['default', 'second']);
    (await one.post('/api/v2/catalogs', { name: 'far', warehouse: 'second' })).is(201);
    (await one.post('/api/v2/catalogs', { name: 'gone', warehouse: 'second' })).is(201);
    (await one.put(`${far}/databases/shop`)).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await one.post(`${far}/databases/shop/tables`, { name: 'orders', columns })).is(201);
    (await one.delete('/api/v2/catalogs/gone')).is(200);
    lost = `/api/v2/servers/${places.two.id()}`;
  });
  after(async () => {
    await one?.close();
    await two?.close();
    places?.remove();
  });

  const isLost = () =>
    eventually('its lease is over', async () => (await one.get(lost)).at('state') === 'unavailable', 30_000);

  test('is removed with its warehouses, their contents, its tasks, files and statements', async () => {
    const sql = 'SELECT range AS n FROM range(10)';
    const ended = (await one.post(`${far}/query`, { sql, waitSeconds: 0 })).is(202).at<string>('uri');
    const page = (await endOfTask(one, ended)).is(200, undefined, { state: 'succeeded' }).at<string>('firstPage');
    const upload = (await two.post('/api/v2/uploads', { name: 'u.csv' })).is(201).at<string>('uri');
    const submit = async () =>
      (await one.post(`${far}/query`, { sql: endless, waitSeconds: 0 })).is(202).at<string>('uri');
    const tasks = [await submit(), await submit()];
    const statements = () => one.post('/api/v2/queries/search', { text: 'a.range', state: 'running' });
    await eventually('one of them runs', async () => (await statements()).at<unknown[]>('queries').length === 1);

    for (const server of [one, two])
      for (const query of ['', '?cascade=true']) (await server.delete(lost + query)).is(400, 'SERVER_AVAILABLE');
    await kill(two);
    await isLost();
    (await one.delete(lost)).is(400, 'NOT_EMPTY', { category: 'warehouses', warehouses: ['second'] });
    (await one.delete('/api/v2/warehouses/second')).is(503, 'WAREHOUSE_ON_ANOTHER_SERVER');
    (await one.get(`${far}/databases/shop/tables/orders`)).is(200);

    (await one.post('/api/v2/users', { name: 'ann' })).is(201);
    const token = (await one.post('/api/v2/users/ann/tokens', { name: 't' })).is(201).at<string>('secret');
    (await one.post('/api/v2/users/ann/grants', { privilege: 'operate', on: '/api/v2/servers' })).is(201);
    const headers = { authorization: `Bearer ${token}` };
    (await one.request('DELETE', `${lost}?cascade=true`, { headers })).is(403, 'FORBIDDEN');
    (await one.request('DELETE', `${lost}?cascade=true`, { headers: { 'if-match': '"other"' } })).is(
      400,
      'VERSION_CONFLICT',
    );

    (await one.delete(`${lost}?cascade=true`)).is(200, '0', { deleted: true });
    (await one.delete(`${lost}?cascade=true`)).is(200, '0', { deleted: false });
    (await one.get(lost)).is(404, 'OBJECT_NOT_FOUND');
    for (const uri of ['/api/v2/warehouses/second', far, `${far}/databases/shop/tables/orders`, upload])
      (await one.get(uri)).is(404, 'OBJECT_NOT_FOUND');
    for (const task of tasks)
      (await one.get(task)).is(200, '0', { state: 'failed', error: { code: 'TASK_INTERRUPTED' } });
    (await one.get(ended)).is(200, '0', { state: 'succeeded' });
    (await one.get(page)).is(400, 'RESULT_EXPIRED');
    for (const task of [ended, ...tasks]) (await one.delete(task)).is(200, '0', { deleted: true });
    await eventually('no statement runs', async () => (await statements()).at<unknown[]>('queries').length === 0);
    assert.deepEqual((await one.post('/api/v2/catalogs/undrop', { name: 'gone' })).status, 404);

    const events = (await one.post('/api/v2/audit_events/search', { action: 'servers.delete', outcome: '0' })).is(200);
    const all = events.at<{ details: object | null }[]>('auditEvents');
    const index = all.findIndex(({ details }) => details && 'warehouses' in details);
    const detail = (...path: string[]) => events.at('auditEvents', index, 'details', ...path);
    assert.deepEqual([detail('warehouses'), detail('catalogs')], [['second'], ['far']]);
    assert.ok(Number(detail('lastEvent', 'sequence')) > 0);
    assert.deepEqual((await one.post('/api/v2/audit_events/verify', {})).is(200).at('faults'), []);

    const client = new Client(places.storeUrl);
    await client.connect();
    try {
      for (const table of ['tasks', 'files', 'queries', 'running_queries', 'intents', 'dropped_objects']) {
        const column = table === 'intents' || table === 'dropped_objects' ? 'warehouse' : 'server_id';
        const value = column === 'warehouse' ? 'second' : places.two.id();
        const { rows } = await client.query(`select 1 from ${table} where ${column} = $1`, [value]);
        assert.deepEqual(rows, [], table);
      }
    } finally {
      await client.end();
    }
  });

  test('starts again as a new one, and its names are free', async () => {
    rmSync(places.two.directory, { recursive: true });
    two = await places.two.start(silent);
    (await two.post('/api/v2/warehouses', { name: 'second' })).is(201);
    await seeEachOther(one, two, ['second']);
    (await one.post('/api/v2/catalogs', { name: 'far', warehouse: 'second' })).is(201);
    (await one.put(`${far}/databases/shop`)).is(201);
  });

  test('one that was removed while it could not reach the store is listed again when it can', async () => {
    two.child.kill('SIGSTOP');
    lost = `/api/v2/servers/${places.two.id()}`;
    await isLost();
    (await one.delete(`${lost}?cascade=true`)).is(200, '0', { deleted: true });
    two.child.kill('SIGCONT');
    await eventually('it is back', async () => (await one.get(lost)).status === 200, 30_000);
    (await one.get(lost)).is(200, '0', { warehouses: [] });
    (await two.get('/api/v2/warehouses/second')).is(404, 'OBJECT_NOT_FOUND');
  });
});
