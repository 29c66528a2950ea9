// `x-service-read-after`: a response of one server names a position in the feed of changes, and another server that is sent it knows by then
// what the first one knew.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createClient } from '../../src/client/index.ts';
import { ChangeFeed } from '../../src/store/changes/change_feed.ts';
import { openPostgresqlStore } from '../../src/store/postgresql/postgresql_store.ts';
import { freezePostgresql, missingPostgresql, newStoreDatabase, urlOfDatabase } from '../postgresql.ts';
import { start, type TestServer } from '../server.ts';

const header = 'x-service-read-after';
const rounds = 20;

test('a server without others sends no position, and serves a request with one', async () => {
  const server = await start();
  try {
    const created = (await server.put('/api/v2/catalogs/default/databases/shop')).is(201);
    assert.equal(created.headers[header], undefined);
    (await server.request('GET', '/api/v2/catalogs', { headers: { [header]: '999999' } })).is(200);
    for (const value of ['-1', '1.5', 'x', '1, 2', '1'.repeat(16)])
      (await server.request('GET', '/api/v2/catalogs', { headers: { [header]: value } })).is(400, 'INVALID_READ_AFTER');
  } finally {
    await server.close();
  }
});

describe('servers that share a store', { skip: missingPostgresql }, () => {
  let one: TestServer;
  let other: TestServer;
  before(async () => {
    const store = urlOfDatabase(await newStoreDatabase());
    one = await start({ store });
    other = await start({ store, secretKeyFile: join(one.dataDirectory, 'secret.key') });
  });
  after(async () => {
    await other?.close();
    await one?.close();
  });

  test('a change is in force where its position is sent', async () => {
    const shop = '/api/v2/catalogs/default/databases/shop';
    (await one.put(shop)).is(201);
    (await one.post('/api/v2/users', { name: 'ann' })).is(201);
    const token = (await one.post('/api/v2/users/ann/tokens', { name: 'laptop' })).is(201).at<string>('secret');
    const statusOnOther = async (position: string | undefined) =>
      (await other.send('GET', shop, { headers: { authorization: `Bearer ${token}`, [header]: position } })).status;
    for (let round = 0; round < rounds; round++) {
      const granted = (await one.post('/api/v2/users/ann/grants', { privilege: 'read', on: shop })).is(201);
      assert.equal(await statusOnOther(granted.headers[header] as string), 200);
      const revoked = (await one.delete(granted.at<string>('uri'))).is(200);
      assert.notEqual(await statusOnOther(revoked.headers[header] as string), 200);
    }
    (await other.request('GET', shop, { headers: { [header]: '999999999' } })).is(200);
  });

  test('the typed client sends the position by itself', async () => {
    let isOnOther = false;
    const client = createClient({
      url: one.url,
      token: () => (isOnOther ? other.token : one.token),
      fetch: (url, init) => fetch(isOnOther ? String(url).replace(one.url, other.url) : url, init),
      retryForMs: 0,
    });
    for (let round = 0; round < rounds; round++) {
      const name = `user${round}`;
      isOnOther = round % 2 === 0;
      await client.users.create({ name });
      isOnOther = !isOnOther;
      assert.equal((await client.users(name).get()).name, name);
    }
  });

  test('a server that does not follow the feed reads it for a position, or refuses', async () => {
    const location = await newStoreDatabase();
    const stores = [await openPostgresqlStore({ location }), await openPostgresqlStore({ location })] as const;
    try {
      const [writing, reading] = [
        await ChangeFeed.open({ store: stores[0], serverId: 'writing', observe: () => {} }),
        await ChangeFeed.open({ store: stores[1], serverId: 'reading', observe: () => {} }),
      ];
      const seen: string[] = [];
      reading.follow({
        changed: (change) => void seen.push(change.kind),
        reload: () => assert.fail('nothing was lost'),
      });
      const change = () =>
        stores[0].transaction(async (tx) => writing.append(tx, { kind: 'members', roleId: 'r', userIds: [] }));
      await change();
      await reading.upToDate(writing.position);
      assert.deepEqual(seen, ['members']);
      await change();
      const thaw = await freezePostgresql();
      try {
        await assert.rejects(Promise.resolve(reading.upToDate(writing.position)), { code: 'STORE_UNAVAILABLE' });
      } finally {
        thaw();
      }
    } finally {
      for (const store of stores) await store.close();
    }
  });
});
