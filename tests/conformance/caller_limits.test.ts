// The limits of callers: rates, failed logins and statements at once, of one server in memory and of servers that share a store; and what
// two servers on one store know of each other.
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { type FailedLogins, FailedLoginsInMemory } from '../../src/access/authentication/failed_logins.ts';
import { SharedFailedLogins } from '../../src/access/authentication/failed_logins_of_servers.ts';
import type { FailedLoginSettings } from '../../src/access/authentication/login_rules.ts';
import { SharedQueryCounts } from '../../src/access/limits/queries_of_servers.ts';
import { Quotas } from '../../src/access/limits/quotas.ts';
import { type RateLimits, RateLimitsInMemory } from '../../src/access/limits/rate_limits.ts';
import { SharedRateLimits } from '../../src/access/limits/rate_limits_of_servers.ts';
import { networkOf } from '../../src/http/connection/client_address.ts';
import { readSettings } from '../../src/settings/read_settings.ts';
import { Failure } from '../../src/standard/failure.ts';
import type { Store } from '../../src/store/store.ts';
import { storesOf } from '../stores.ts';

const stores = storesOf(import.meta.url);
const opened: Store[] = [];
after(() => Promise.all(opened.map((store) => store.close())));

async function openShared(): Promise<Store> {
  const { store } = await stores.open({ isShared: true });
  opened.push(store);
  return store;
}

const loginSettings: FailedLoginSettings = readSettings([], {});
const rateSettings = {
  principalCostPerSecondMax: 10,
  principalCostBurstMax: 30,
  addressCostPerSecondMax: 20,
  addressCostBurstMax: 100,
};
const quotaSettings = {
  principalQueriesMax: 3,
  principalTasksMax: 0,
  principalSpillBytesMax: 0,
};
const start = Date.UTC(2026, 0, 1);
const observe = (observation: unknown) => assert.fail(JSON.stringify(observation));

interface Server {
  readonly rates: RateLimits;
  readonly logins: FailedLogins;
  readonly quotas: Quotas;
  /** Exchanges numbers with the other servers, as its timers do. */
  merge(): Promise<void>;
  sweep(): Promise<void>;
}

interface Time {
  ms: number;
}

function inMemory(time: Time): Server {
  const clock = () => time.ms;
  return {
    rates: new RateLimitsInMemory({ settings: rateSettings, networkOf, clock }),
    logins: new FailedLoginsInMemory({ settings: loginSettings, networkOf, clock }),
    quotas: quotasWith(),
    merge: async () => {},
    sweep: async () => {},
  };
}

function sharing(store: Store, serverId: string, time: Time): Server {
  const clock = () => time.ms;
  const rates = new SharedRateLimits({ settings: rateSettings, networkOf, clock, store, observe });
  const logins = new SharedFailedLogins({ settings: loginSettings, networkOf, clock, store });
  const counts = new SharedQueryCounts({ store, serverId, observe, clock });
  after(() => Promise.all([rates.stop(), counts.stop()]));
  return {
    rates,
    logins,
    quotas: quotasWith(counts),
    merge: async () => void (await Promise.all([rates.merge(), counts.merge()])),
    sweep: async () => void (await Promise.all([rates.sweep(), logins.sweep(), counts.sweep()])),
  };
}

function quotasWith(elsewhere?: SharedQueryCounts): Quotas {
  return new Quotas({ settings: quotaSettings, spilledBytes: async () => 0, elsewhere });
}

async function isRefused(work: () => unknown, code = 'RATE_LIMITED'): Promise<boolean> {
  try {
    await work();
    return false;
  } catch (error) {
    assert(error instanceof Failure && error.code === code, `${error}`);
    return true;
  }
}

/** The required wait in seconds; 0 if the attempt was made and ended as given. */
async function attempt({ logins }: Server, address: string, user: string | undefined, isGood = false): Promise<number> {
  try {
    await logins.beginAttempt(address, user);
  } catch (error) {
    assert(error instanceof Failure && error.code === 'RATE_LIMITED', `${error}`);
    return error.retryAfterSeconds as number;
  }
  if (isGood) await logins.recordSuccess(address, user as string);
  else await logins.recordFailure(address, user);
  return 0;
}

/** How many requests in a row are admitted, at most 200. */
function admitted({ rates }: Server, principal: string, address = '192.0.2.1'): number {
  for (let count = 0; count < 200; count++)
    try {
      rates.charge(principal, address, 1);
    } catch (error) {
      assert(error instanceof Failure && error.code === 'RATE_LIMITED', `${error}`);
      return count;
    }
  return 200;
}

const implementations = [
  ['in memory', async (time: Time) => inMemory(time)],
  [`in ${stores.name}`, async (time: Time) => sharing(await openShared(), 'one', time)],
] as const;

for (const [name, create] of implementations)
  describe(`limits of callers ${name}`, () => {
    const opening = async () => {
      const time = { ms: start };
      return { time, server: await create(time) };
    };

    it('admit a burst, then a constant rate', async () => {
      const { server, time } = await opening();
      assert.equal(admitted(server, 'ann'), 30);
      await server.merge();
      assert.equal(admitted(server, 'ann'), 0);
      time.ms += 500;
      await server.merge();
      assert.equal(admitted(server, 'ann'), 5);
      assert.equal(admitted(server, 'bob', '192.0.2.2'), 30, 'others are not affected');
      // Otherwise the timer may charge it at the later time.
      await server.merge();
      time.ms += 60_000;
      await server.sweep();
      assert.equal(admitted(server, 'ann'), 30, 'no more than a burst is saved up');
    });

    it('limit an address, whoever sends its requests', async () => {
      const { server } = await opening();
      const counts = ['a', 'b', 'c', 'd', 'e'].map((user) => admitted(server, user));
      assert.deepEqual(counts, [30, 30, 30, 10, 0]);
      await server.merge();
      assert(await isRefused(() => server.rates.chargeAddress('192.0.2.1', 1)));
      assert(!(await isRefused(() => server.rates.chargeAddress('2001:db8::1', 1))));
    });

    it('let failed logins of a pair of user and address wait 1, 2, 4 and so on up to a minute', async () => {
      const { server, time } = await opening();
      for (let i = 0; i < 6; i++) assert.equal(await attempt(server, '192.0.2.1', 'ann'), 0);
      const waits: number[] = [];
      for (let i = 0; i < 8; i++) {
        const seconds = await attempt(server, '192.0.2.1', 'ann');
        waits.push(seconds);
        time.ms += seconds * 1000 - 1;
        assert.equal(await attempt(server, '192.0.2.1', 'ann'), 1, 'not before its time');
        time.ms += 1;
        assert.equal(await attempt(server, '192.0.2.1', 'ann'), 0, `after ${seconds} s`);
      }
      assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
      assert.equal(await attempt(server, '192.0.2.2', 'ann', true), 0, 'from elsewhere');
      assert.equal(await attempt(server, '192.0.2.1', 'bob', true), 0, 'as somebody else');
    });

    it('reset failed logins at a success, and let them expire', async () => {
      const { server, time } = await opening();
      for (let i = 0; i < 5; i++) await attempt(server, '192.0.2.1', 'ann');
      assert.equal(await attempt(server, '192.0.2.1', 'ann', true), 0);
      for (let i = 0; i < 6; i++) assert.equal(await attempt(server, '192.0.2.1', 'ann'), 0, 'after a success');
      assert.notEqual(await attempt(server, '192.0.2.1', 'ann'), 0);
      time.ms += 3 * 3_600_000;
      await server.sweep();
      for (let i = 0; i < 6; i++) assert.equal(await attempt(server, '192.0.2.1', 'ann'), 0, 'after hours');
    });

    it('let an attack on a user not affect him where he is known', async () => {
      const { server } = await opening();
      assert.equal(await attempt(server, '192.0.2.1', 'ann', true), 0);
      for (let i = 0; i < 60; i++) await attempt(server, `198.51.100.${i}`, 'ann');
      assert.notEqual(await attempt(server, '192.0.2.9', 'ann'), 0, 'an unknown address waits for its turn');
      assert.equal(await attempt(server, '192.0.2.1', 'ann', true), 0);
    });

    it('admit as many statements at once as the limit, and let those of tasks wait', async () => {
      const { server } = await opening();
      const releases = [1, 2, 3].map(() => server.quotas.startQuery('ann'));
      assert(await isRefused(() => server.quotas.startQuery('ann'), 'TOO_MANY_QUERIES'));
      const waiting = server.quotas.waitForQuerySlot('ann', new AbortController().signal);
      server.quotas.startQuery('bob')();
      releases[0]?.();
      const release = await waiting;
      assert(await isRefused(() => server.quotas.startQuery('ann'), 'TOO_MANY_QUERIES'));
      for (const end of [...releases, release]) end();
      server.quotas.startQuery('ann')();
    });
  });

describe(`two servers on one store in ${stores.name}`, () => {
  async function twoServers() {
    const time = { ms: start };
    const store = await openShared();
    const servers = [sharing(store, 'one', time), sharing(store, 'two', time)] as const;
    const merge = async () => {
      // What the first writes last is read by the second, and the reverse.
      for (const server of [...servers, ...servers]) await server.merge();
    };
    return { time, store, servers, merge };
  }

  /** A server that was killed while it ran as many statements as one principal may. */
  const addEndedServer = (store: Store) =>
    store.db
      .insertInto('running_queries')
      .values({ server_id: 'ended', principal_id: 'ann', running: 3, counts_until: start + 30_000 })
      .execute();

  it('count the same failed logins: an attacker who changes servers has no more attempts', async () => {
    const { servers, time } = await twoServers();
    const [one, two] = servers;
    const made: number[] = [];
    for (let i = 0; i < 6; i++) made.push(await attempt(i % 2 === 0 ? one : two, '192.0.2.1', 'ann'));
    assert.deepEqual(made, [0, 0, 0, 0, 0, 0]);
    assert.deepEqual([await attempt(one, '192.0.2.1', 'ann'), await attempt(two, '192.0.2.1', 'ann')], [1, 1]);
    time.ms += 1000;
    assert.equal(await attempt(two, '192.0.2.1', 'ann', true), 0);
    for (let i = 0; i < 5; i++) assert.equal(await attempt(one, '192.0.2.1', 'ann'), 0, 'a success elsewhere resets');
  });

  it('count attempts that both begin at the same time', async () => {
    const { servers } = await twoServers();
    const [one, two] = servers;
    for (let i = 0; i < 3; i++) await attempt(one, '192.0.2.1', 'ann');
    const begun = await Promise.all(
      [one, two, one, two, one, two].map(({ logins }) => isRefused(() => logins.beginAttempt('192.0.2.1', 'ann'))),
    );
    assert.equal(begun.filter((refused) => !refused).length, 2);
  });

  it('know the addresses of a user that another server saw', async () => {
    const { servers } = await twoServers();
    const [one, two] = servers;
    assert.equal(await attempt(one, '192.0.2.1', 'ann', true), 0);
    for (let i = 0; i < 60; i++) await attempt(two, `198.51.100.${i}`, 'ann');
    assert.notEqual(await attempt(two, '192.0.2.2', 'ann'), 0);
    assert.equal(await attempt(two, '192.0.2.1', 'ann', true), 0);
  });

  it('owe together what each admitted, and admit at most one burst more', async () => {
    const { servers, time, merge } = await twoServers();
    const [one, two] = servers;
    assert.deepEqual([admitted(one, 'ann', '192.0.2.1'), admitted(two, 'ann', '192.0.2.2')], [30, 30]);
    await merge();
    let total = 60;
    for (let second = 1; second <= 20; second++) {
      time.ms += 1000;
      total += admitted(one, 'ann', '192.0.2.1') + admitted(two, 'ann', '192.0.2.2');
      await merge();
      assert(total <= 60 + 10 * second, `${total} after ${second} s`);
    }
    assert(total >= 30 + 10 * 20 - 10, `${total}`);
  });

  it('learn with the next exchange what the other admitted', async () => {
    const { servers, merge } = await twoServers();
    const [one, two] = servers;
    assert.equal(admitted(one, 'ann'), 30);
    await merge();
    two.rates.charge('ann', '192.0.2.2', 1);
    await merge();
    assert.equal(admitted(two, 'ann', '192.0.2.2'), 0);
  });

  it('admit together no more statements than the limit, once they know of each other', async () => {
    const { servers, merge } = await twoServers();
    const [one, two] = servers;
    const releases = [one, one, two].map(({ quotas }) => quotas.startQuery('ann'));
    await merge();
    for (const { quotas } of servers) assert(await isRefused(() => quotas.startQuery('ann'), 'TOO_MANY_QUERIES'));
    let isBegun = false;
    const waiting = two.quotas.waitForQuerySlot('ann', new AbortController().signal).then((release) => {
      isBegun = true;
      return release;
    });
    await merge();
    assert(!isBegun);
    releases[0]?.();
    await merge();
    (await waiting)();
    for (const release of releases) release();
    await merge();
    for (const { quotas } of servers) quotas.startQuery('ann')();
  });

  it('do not count the statements of a server that ended', async () => {
    const { servers, time, store } = await twoServers();
    const [one] = servers;
    await addEndedServer(store);
    one.quotas.startQuery('bob');
    await one.merge();
    assert(await isRefused(() => one.quotas.startQuery('ann'), 'TOO_MANY_QUERIES'));
    time.ms += 31_000;
    await one.merge();
    one.quotas.startQuery('ann');
  });

  it('delete what no longer counts', async () => {
    const { servers, time, store, merge } = await twoServers();
    const [one] = servers;
    await attempt(one, '192.0.2.1', 'ann');
    await attempt(one, '192.0.2.1', 'ann', true);
    admitted(one, 'ann');
    await addEndedServer(store);
    await merge();
    const rowsOf = async () => {
      const tables = ['failed_logins', 'rate_charges', 'running_queries'] as const;
      return Promise.all(tables.map(async (table) => (await store.db.selectFrom(table).selectAll().execute()).length));
    };
    assert.deepEqual(await rowsOf(), [4, 2, 1]);
    time.ms += 3 * 3_600_000;
    await one.sweep();
    assert.deepEqual(await rowsOf(), [1, 0, 0], 'a known address stays');
    time.ms += 24 * 3_600_000;
    await one.sweep();
    assert.deepEqual(await rowsOf(), [0, 0, 0]);
  });
});
