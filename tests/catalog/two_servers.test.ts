// Two servers on one store and one engine: a change that one of them works on is left alone by the recovery of the other. A server that
// has lost the lease of a change neither commits nor reverts it, and says that its outcome is unknown.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Change } from '../../src/engines/port/changes.ts';
import { Failure, outcomeOf } from '../../src/standard/failure.ts';
import { ChangeFeed } from '../../src/store/changes/change_feed.ts';
import { LeaseHolder, leaseMs } from '../../src/store/leases.ts';
import { eventually } from '../deadline.ts';
import { storesOf } from '../stores.ts';
import { definition, path, principal, WarehouseInTest } from './catalog_and_engine.ts';
import { EngineInMemory } from './engine_in_memory.ts';

type Moment = 'before' | 'after';

/** The next step waits before or after its work until it is released. */
class HoldingEngine extends EngineInMemory {
  #next: { readonly moment: Moment; readonly wait: () => Promise<void> } | undefined;

  holdNext(moment: Moment) {
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    this.#next = {
      moment,
      wait: async () => {
        reach();
        await released;
      },
    };
    return { reached, release };
  }

  override async apply(...[change, options]: Parameters<EngineInMemory['apply']>): Promise<undefined> {
    const held = this.#next;
    this.#next = undefined;
    if (held?.moment === 'before') await held.wait();
    await super.apply(change, options);
    if (held?.moment === 'after') await held.wait();
  }
}

interface Servers {
  readonly first: WarehouseInTest;
  readonly second: WarehouseInTest;
  readonly engine: HoldingEngine;
  readonly clock: { now: number };
}

const keepSeconds = 60;

/** By default leases are not renewed. */
async function twoServers({ renewEveryMs = 3_600_000 }: { readonly renewEveryMs?: number } = {}): Promise<Servers> {
  const clock = { now: Date.now() };
  const engine = new HoldingEngine();
  const ofServer = (serverId: string) => ({ holder: new LeaseHolder(serverId, renewEveryMs), clock: () => clock.now });
  const first = await WarehouseInTest.open(storesOf(import.meta.url), { engine, isShared: true, ...ofServer('first') });
  await first.createCatalog('c');
  await first.createDatabase('c', 'd');
  await first.createTable('c', 'd', 't');
  return { first, second: new WarehouseInTest(first, engine, ofServer('second')), engine, clock };
}

interface Scenario {
  readonly name: string;
  readonly prepare?: (servers: Servers) => Promise<unknown>;
  readonly run: (server: WarehouseInTest, servers: Servers) => Promise<unknown>;
  /** The contents after the change, with the columns of tables. */
  readonly after: readonly string[];
  /** The contents when the other server has recovered it; undefined: as after the change. */
  readonly recovered?: readonly string[];
  readonly state: string;
}

const before = ['c', 'c.d', 'c.d.t(a)'];
const scenarios: readonly Scenario[] = [
  {
    name: 'a create',
    run: (server) => server.createTable('c', 'd', 'new'),
    after: ['c', 'c.d', 'c.d.new(a)', 'c.d.t(a)'],
    recovered: before,
    state: 'creating',
  },
  {
    name: 'an update',
    run: (server) => server.alterTable(['c', 'd', 't'], definition('a', 'b')),
    after: ['c', 'c.d', 'c.d.t(a,b)'],
    state: 'altering',
  },
  {
    name: 'a truncate',
    run: async (server) => {
      const [catalog, , table] = await server.catalog.require(path('c', 'd', 't'));
      const ref = { catalog: { id: catalog!.id, name: 'c' }, database: 'd', table: 't' };
      return server.catalog.update(table!, {
        principal,
        warehouse: 'w',
        change: { kind: 'truncateTable', table: ref },
      });
    },
    after: before,
    state: 'altering',
  },
  {
    name: 'a rename',
    run: (server) => server.rename(['c', 'd', 't'], 'renamed'),
    after: ['c', 'c.d', 'c.d.renamed(a)'],
    state: 'altering',
  },
  {
    name: 'a drop',
    run: (server) => server.drop(['c', 'd', 't']),
    after: ['c', 'c.d'],
    state: 'dropping',
  },
  {
    name: 'a drop that can be undone',
    run: (server) => server.hide(['c', 'd', 't'], keepSeconds),
    after: ['c', 'c.d'],
    state: 'dropping',
  },
  {
    name: 'an undrop',
    prepare: ({ first }) => first.hide(['c', 'd', 't'], keepSeconds),
    run: (server) => server.undrop(['c', 'd', 't'], 'back'),
    after: ['c', 'c.d', 'c.d.back(a)'],
    state: 'restoring',
  },
];

const withColumns = (contents: readonly string[]): string[] =>
  contents
    .map((line) => {
      const at = line.indexOf('=');
      if (at < 0) return line;
      const { columns } = JSON.parse(line.slice(at + 1)) as ReturnType<typeof definition>;
      return `${line.slice(0, at)}(${columns.map(({ name }) => name)})`;
    })
    .sort();

async function requireSettled({ first, second, engine }: Servers, expected: readonly string[]): Promise<void> {
  for (const server of [first, second]) assert.deepEqual(withColumns(await server.contents()), [...expected].sort());
  assert.deepEqual(withColumns(engine.contents()), [...expected].sort(), 'the engine agrees');
  assert.deepEqual(await first.store.db.selectFrom('intents').selectAll().execute(), [], 'no change is open');
  const states = await first.store.db.selectFrom('objects').select('state').distinct().execute();
  assert.deepEqual(
    states.filter(({ state }) => state !== 'ready' && state !== 'dropped'),
    [],
  );
}

const isUnknown = (error: unknown): boolean => {
  assert(error instanceof Failure, `${error}`);
  assert.deepEqual([error.code, outcomeOf(error)], ['CHANGE_IN_PROGRESS', 'unknown'], error.message);
  return true;
};

/** As if another server had taken over every open change. */
async function takeAway({ first, clock }: Servers): Promise<void> {
  const lease = { leased_by: 'third/1', lease_until: clock.now + leaseMs };
  await first.store.db.updateTable('intents').set(lease).execute();
}

const rowsOf = async ({ first: { store } }: Servers) => ({
  objects: await store.db.selectFrom('objects').selectAll().orderBy('id').execute(),
  intents: await store.db.selectFrom('intents').selectAll().execute(),
  dropped: await store.db.selectFrom('dropped_objects').selectAll().execute(),
  steps: await store.db.selectFrom('spent_steps').selectAll().execute(),
});

for (const scenario of scenarios) {
  describe(scenario.name, { concurrency: false }, () => {
    for (const moment of ['before', 'after'] as const)
      test(`is left alone while a server waits for the engine, ${moment} its work`, async () => {
        const servers = await twoServers();
        const { first, second, engine } = servers;
        await scenario.prepare?.(servers);
        const held = engine.holdNext(moment);
        const change = scenario.run(first, servers);
        await held.reached;
        await second.catalog.recover();
        assert.deepEqual(await second.catalog.openIntents(), [], 'it is not interrupted');
        held.release();
        await change;
        await requireSettled(servers, scenario.after);
        await first.close();
      });

    test('is recovered by the other server when its lease has expired; the late server commits nothing', async () => {
      const servers = await twoServers();
      const { first, second, engine, clock } = servers;
      await scenario.prepare?.(servers);
      const held = engine.holdNext('after');
      const change = scenario.run(first, servers);
      const lost = assert.rejects(change, isUnknown);
      await held.reached;
      clock.now += leaseMs + 1;
      await second.catalog.recover();
      await requireSettled(servers, scenario.recovered ?? scenario.after);
      const recovered = await rowsOf(servers);
      held.release();
      await lost;
      assert.deepEqual(await rowsOf(servers), recovered);
      await first.close();
    });

    test('is not reverted by a server that has lost its lease', async () => {
      const servers = await twoServers();
      const { first, engine } = servers;
      await scenario.prepare?.(servers);
      const held = engine.holdNext('before');
      engine.fault = () => {
        throw new Failure('CONSTRAINT_VIOLATED', 'no');
      };
      const lost = assert.rejects(scenario.run(first, servers), isUnknown);
      await held.reached;
      await takeAway(servers);
      const taken = await rowsOf(servers);
      held.release();
      await lost;
      assert.deepEqual(await rowsOf(servers), taken);
      assert.equal(taken.objects.filter(({ state }) => state === scenario.state).length > 0, true);
      await first.close();
    });

    test('is recovered at once when the engine has died under the server that made it', async () => {
      const servers = await twoServers();
      const { first, second, engine } = servers;
      await scenario.prepare?.(servers);
      engine.fault = ({ when }) => {
        if (when === 'after') throw new Error('the engine died');
      };
      await assert.rejects(scenario.run(first, servers));
      engine.fault = () => {};
      await second.catalog.recover();
      await requireSettled(servers, scenario.recovered ?? scenario.after);
      await first.close();
    });

    test('is refused by a server until the other one has recovered it', async () => {
      const servers = await twoServers();
      const { first, engine, clock } = servers;
      await scenario.prepare?.(servers);
      const { store } = first;
      const changes = await ChangeFeed.open({ store, serverId: 'second', observe: () => {} });
      const options = { holder: new LeaseHolder('second'), clock: () => clock.now };
      const second = new WarehouseInTest({ ...first, changes }, engine, options);
      engine.fault = () => {
        throw new Error('the engine died');
      };
      await assert.rejects(scenario.run(first, servers));
      await first.catalog.recover();
      const statement = () => first.catalog.requireNoOpenChange(['t', 'new', 'back'].map((table) => ['c', 'd', table]));
      assert.throws(statement, { code: 'CHANGE_IN_PROGRESS' });
      engine.fault = () => {};
      await second.catalog.recover();
      await first.changes.poll();
      statement();
      await first.close();
    });

    test('is recovered at once by the next process of the server that died', async () => {
      const servers = await twoServers();
      const { first, engine, clock } = servers;
      await scenario.prepare?.(servers);
      const held = engine.holdNext('after');
      const change = scenario.run(first, servers);
      const lost = assert.rejects(change, isUnknown);
      await held.reached;
      const options = { holder: new LeaseHolder('first'), clock: () => clock.now };
      await new WarehouseInTest(first, engine, options).catalog.recover();
      await requireSettled(servers, scenario.recovered ?? scenario.after);
      held.release();
      await lost;
      await first.close();
    });
  });
}

test('a change that the recovery of one server has blocked is refused by the other', async () => {
  const { first, engine, clock } = await twoServers();
  const changes = await ChangeFeed.open({ store: first.store, serverId: 'second', observe: () => {} });
  const options = { holder: new LeaseHolder('second'), clock: () => clock.now };
  const second = new WarehouseInTest({ ...first, changes }, engine, options);
  const statement = () => second.catalog.requireNoOpenChange([['c', 'd', 't']]);
  engine.fault = () => {
    throw new Failure('WAREHOUSE_FAILED', 'the engine died', {}, { outcome: 'unknown' });
  };
  await assert.rejects(first.alterTable(['c', 'd', 't'], definition('a', 'b')));
  for (let round = 0; round < 2; round++) await first.catalog.recover();
  assert.equal((await first.catalog.openIntents())[0]?.reason?.includes('2 times'), true);
  await changes.poll();
  assert.throws(statement, { code: 'CHANGE_IN_PROGRESS', message: /it is blocked/ });
  engine.fault = () => {};
  await first.catalog.releaseBlocked('w');
  await first.catalog.recover();
  await changes.poll();
  statement();
  await first.close();
});

test('a purge is left alone by the other server, and after its lease has expired the late server commits nothing', async () => {
  for (const isLost of [false, true]) {
    const servers = await twoServers();
    const { first, second, engine, clock } = servers;
    await first.hide(['c', 'd', 't'], keepSeconds);
    clock.now += keepSeconds * 1000 + 1;
    const held = engine.holdNext('before');
    const purge = first.catalog.purge();
    await held.reached;
    if (isLost) clock.now += leaseMs + 1;
    await second.catalog.recover();
    await second.catalog.purge();
    const rows = await rowsOf(servers);
    assert.equal(rows.dropped.length, isLost ? 0 : 1);
    held.release();
    await purge;
    if (isLost) assert.deepEqual(await rowsOf(servers), rows);
    assert.equal(engine.hidden.size, 0);
    await requireSettled(servers, ['c', 'c.d']);
    await first.close();
  }
});

test('while its server works on a change it renews the lease', async () => {
  const servers = await twoServers({ renewEveryMs: 5 });
  const { first, second, engine, clock } = servers;
  const held = engine.holdNext('after');
  const change = first.createTable('c', 'd', 'new');
  await held.reached;
  for (let n = 0; n < 5; n++) {
    clock.now += leaseMs - 1;
    await eventually('the lease is renewed', async () => {
      const [intent] = await first.store.db.selectFrom('intents').select('lease_until').execute();
      return intent?.lease_until === clock.now + leaseMs;
    });
    await second.catalog.recover();
  }
  held.release();
  await change;
  await requireSettled(servers, ['c', 'c.d', 'c.d.new(a)', 'c.d.t(a)']);
  await first.close();
});

test('a server that learns from a renewal that it lost its lease cancels the step', async () => {
  const servers = await twoServers({ renewEveryMs: 5 });
  const { first, engine } = servers;
  const reached = engine.workUntilCancelled();
  const lost = assert.rejects(first.createTable('c', 'd', 'new'), isUnknown);
  await reached;
  await takeAway(servers);
  await lost;
  assert.deepEqual(withColumns(engine.contents()), before);
  await first.close();
});

test('a request waits for a change of another server that is in its way', async () => {
  const servers = await twoServers();
  const { first, second, engine } = servers;
  const whileCreating = async (name: string, request: () => Promise<unknown>) => {
    const held = engine.holdNext('after');
    const change = first.createTable('c', 'd', name);
    await held.reached;
    const requested = request();
    held.release();
    await Promise.all([change, requested]);
  };
  await whileCreating('new', () =>
    assert.rejects(second.createTable('c', 'd', 'NEW'), { code: 'OBJECT_ALREADY_EXISTS' }),
  );
  await whileCreating('newer', () => second.drop(['c', 'd'], true));
  await requireSettled(servers, ['c']);
  await first.close();
});

describe('the change of a task', { concurrency: false }, () => {
  const task = { type: 'alter_table', target: '/t', request: {} } as const;
  const signal = new AbortController().signal;
  const scenarios = {
    'an update': {
      async submit({ first, engine }: Servers) {
        engine.costs = 'rewrite';
        return (await first.alterTable(['c', 'd', 't'], definition('a', 'b'), { asTask: true })).taskId;
      },
      run: ({ catalog }: WarehouseInTest, taskId: string) => catalog.runIntent(taskId, { signal }),
      after: ['c', 'c.d', 'c.d.t(a,b)'],
    },
    'a creation': {
      async submit({ first }: Servers) {
        const [catalog, parent] = await first.catalog.require(path('c', 'd'));
        const table = { catalog: { id: catalog!.id, name: 'c' }, database: 'd', table: 'new' };
        const change: Change = { kind: 'createTable', table, definition: definition('a') };
        const undo: Change = { kind: 'dropTable', table };
        const object = { parent: parent!, category: 'tables', name: 'new', spec: definition('a') } as const;
        const request = { ...object, principal, warehouse: 'w', change, undo, ifExists: 'fail' } as const;
        return (await first.catalog.createLater({ ...request, task: { ...task, principal } })).taskId;
      },
      run: ({ catalog }: WarehouseInTest, taskId: string) =>
        catalog.runCreation(taskId, {
          signal,
          define: async () => undefined,
          fill: async () => undefined,
        }),
      after: ['c', 'c.d', 'c.d.new(a)', 'c.d.t(a)'],
    },
  };
  for (const [name, scenario] of Object.entries(scenarios))
    test(`${name} is committed by the server that runs the task now, and not by the one that lost it`, async () => {
      const servers = await twoServers();
      const { first, second, engine } = servers;
      const taskId = await scenario.submit(servers);
      assert(taskId);
      const held = engine.holdNext('after');
      const lost = assert.rejects(scenario.run(first, taskId), isUnknown);
      await held.reached;
      await second.catalog.recover();
      const { version } = await scenario.run(second, taskId);
      const committed = await rowsOf(servers);
      held.release();
      await lost;
      assert.deepEqual(await rowsOf(servers), committed);
      await requireSettled(servers, scenario.after);
      assert.equal((await scenario.run(first, taskId)).version, version, 'the next attempt finds the work done');
      await first.close();
    });

  test('a definition is not stored by a server that lost the task', async () => {
    const servers = await twoServers();
    const { first, second } = servers;
    const taskId = await scenarios['a creation'].submit(servers);
    assert(taskId);
    const defining = Promise.withResolvers<void>();
    const defined = Promise.withResolvers<{ spec: unknown; change: Change }>();
    const work = {
      signal,
      fill: async () => undefined,
      define: () => {
        defining.resolve();
        return defined.promise;
      },
    };
    const lost = assert.rejects(first.catalog.runCreation(taskId, work), isUnknown);
    await defining.promise;
    await scenarios['a creation'].run(second, taskId);
    const committed = await rowsOf(servers);
    const [catalog] = await first.catalog.require(path('c'));
    const table = { catalog: { id: catalog!.id, name: 'c' }, database: 'd', table: 'new' };
    const other = definition('x');
    defined.resolve({ spec: other, change: { kind: 'createTable', table, definition: other } });
    await lost;
    assert.deepEqual(await rowsOf(servers), committed);
    await first.close();
  });
});

test('an engine that dies under recovery blocks no object of a change that another server has taken over', async () => {
  const servers = await twoServers();
  const { first, second, engine, clock } = servers;
  const dead = new Failure('WAREHOUSE_FAILED', 'the engine died');
  engine.fault = () => {
    throw dead;
  };
  await assert.rejects(first.alterTable(['c', 'd', 't'], definition('a', 'b')), { code: 'WAREHOUSE_FAILED' });
  await second.catalog.recover();
  const held = engine.holdNext('before');
  const recovery = second.catalog.recover();
  await held.reached;
  clock.now += leaseMs + 1;
  await takeAway(servers);
  const taken = await rowsOf(servers);
  held.release();
  await recovery;
  assert.deepEqual(await rowsOf(servers), taken);
  await first.close();
});
