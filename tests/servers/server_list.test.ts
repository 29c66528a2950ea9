// The category `servers`: one server alone, and two on one store of which one is lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../deadline.ts';
import { missingPostgresql } from '../postgresql.ts';
import { start } from '../server.ts';
import { kill, newPlaces, seeEachOther } from './two_servers.ts';

test('a server alone lists itself, with the warehouses of its data directory', async () => {
  const server = await start();
  try {
    const [own, ...others] = await server.client.servers.list().all();
    assert.deepEqual(others, []);
    assert.deepEqual([own?.state, own?.isCurrent, own?.warehouses], ['available', true, ['default']]);
    assert.ok(own && Date.parse(own.startedAt) <= Date.now());
    assert.equal((await server.client.servers(own.serverId).get()).release, own.release);
    (await server.get('/api/v2/servers/none')).is(404, 'OBJECT_NOT_FOUND', { category: 'servers', name: 'none' });
    await server.client.users.create({ name: 'ann' });
    const { secret } = await server.client.users('ann').tokens.create({ name: 'test' });
    const headers = { authorization: `Bearer ${secret}` };
    (await server.request('GET', '/api/v2/servers', { headers })).is(403, 'FORBIDDEN');
  } finally {
    await server.close();
  }
});

test('servers of one store list each other, and one that is lost as unavailable', {
  skip: missingPostgresql,
}, async () => {
  const places = await newPlaces();
  const one = await places.one.start();
  const two = await places.two.start();
  try {
    await two.client.warehouses.create({ name: 'second' });
    await seeEachOther(one, two, ['default', 'second']);
    const listed = () => one.client.servers.list().all();
    const states = async () =>
      Object.fromEntries((await listed()).map(({ warehouses: [name], state }) => [name, state]));
    assert.deepEqual(await states(), { default: 'available', second: 'available' });
    assert.deepEqual(
      (await listed()).filter(({ isCurrent }) => isCurrent).map(({ warehouses }) => warehouses),
      [['default']],
    );
    await kill(two);
    await eventually(
      'the lease of the lost server expires',
      async () => (await states()).second === 'unavailable',
      30_000,
    );
    const lost = (await listed()).find(({ state }) => state === 'unavailable');
    assert.deepEqual([lost?.warehouses, lost?.isCurrent], [['second'], false]);
  } finally {
    await one.close();
    await two.close();
    places.remove();
  }
});
