// Servers on PostgreSQL are notified of each other's changes, and lose none when the connection is lost on which they are notified.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { ChangeFeed } from '../../src/store/changes/change_feed.ts';
import { openPostgresqlStore, type PostgresqlLocation } from '../../src/store/postgresql/postgresql_store.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../deadline.ts';
import { endNotifications, freezePostgresql, missingPostgresql, newStoreDatabase } from '../postgresql.ts';

/** Longer than any test: what is read was notified. */
const neverMs = 2 ** 31 - 1;
const open: { close: () => Promise<void> }[] = [];
after(() => Promise.all(open.map(({ close }) => close())));

class ServerInTest {
  readonly store: Store;
  readonly feed: ChangeFeed;
  readonly seen = new Set<string>();

  constructor(store: Store, feed: ChangeFeed) {
    this.store = store;
    this.feed = feed;
    feed.follow({
      changed: (change) => void this.seen.add(change.kind === 'members' ? change.roleId : change.kind),
      reload: () => assert.fail('nothing was lost'),
    });
    feed.start();
  }

  static async start(location: PostgresqlLocation, serverId: string, pollEveryMs?: number): Promise<ServerInTest> {
    const store = await openPostgresqlStore({ location });
    const options = { store, serverId, observe: () => {} };
    const feed = await ChangeFeed.open(pollEveryMs === undefined ? options : { ...options, pollEveryMs });
    const server = new ServerInTest(store, feed);
    open.push({ close: () => feed.stop().then(() => store.close()) });
    await eventually('the server is notified', () => store.feed?.isNotified === true);
    return server;
  }

  change(roleId: string): Promise<void> {
    return this.store.transaction(async (tx) => this.feed.append(tx, { kind: 'members', roleId, userIds: [] }));
  }

  async sees(roleId: string): Promise<void> {
    await eventually(`the change of ${roleId} is followed`, () => this.seen.has(roleId));
  }
}

describe('notifications of changes', { skip: missingPostgresql }, () => {
  test('a change is read at its notification', async () => {
    const location = await newStoreDatabase();
    const one = await ServerInTest.start(location, 'one', neverMs);
    const other = await ServerInTest.start(location, 'other', neverMs);
    for (const role of ['a', 'b', 'c']) await one.change(role);
    await other.sees('c');
    await other.change('d');
    await one.sees('d');
    assert.deepEqual([...other.seen].sort(), ['a', 'b', 'c', 'd']);
  });

  test('no change is lost when the notifying connection is', async () => {
    const location = await newStoreDatabase();
    const one = await ServerInTest.start(location, 'one');
    const other = await ServerInTest.start(location, 'other');
    const roles: string[] = [];
    for (let round = 0; round < 5; round++) {
      const ended = endNotifications(location);
      for (let n = 0; n < 5; n++) {
        const role = `${round} ${n}`;
        roles.push(role);
        await one.change(role);
      }
      await ended;
    }
    for (const role of roles) await other.sees(role);
    await eventually('the server is notified again', () => other.store.feed?.isNotified === true);
  });

  test('a server that cannot read the feed is not up to date, until it can again', async () => {
    const location = await newStoreDatabase();
    const one = await ServerInTest.start(location, 'one');
    const other = await ServerInTest.start(location, 'other');
    await one.change('before');
    await other.sees('before');
    const thaw = await freezePostgresql();
    try {
      const isRefused = () =>
        Promise.resolve(other.feed.upToDate()).then(
          () => false,
          (error: { code?: unknown }) => error.code === 'STORE_UNAVAILABLE',
        );
      await eventually('the server is silent', isRefused);
    } finally {
      thaw();
    }
    await one.change('after');
    await other.sees('after');
    await other.feed.upToDate();
  });
});
