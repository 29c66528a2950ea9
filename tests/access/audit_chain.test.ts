// The audit trail on a store of its own: tampering is detected, expired events are removed, floods are limited, and events that
// could not be written are written later.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { AuditTrail, chainSeal, eventDigest, firstDigest } from '../../src/access/audit/audit_log.ts';
import { listAudit, verifyAudit } from '../../src/access/audit/audit_reader.ts';
import type { Actor } from '../../src/model/principal.ts';
import type { Store } from '../../src/store/store.ts';
import { type StoreOptions, storesOf } from '../stores.ts';

const key = Buffer.alloc(32, 7);
const serverId = 'server-1';
const dayMs = 86_400_000;
const linesMade = 12;
const stores = storesOf(import.meta.url);
const ann: Actor = { id: 'a1', name: 'ann', action: 'tables.create', requestId: 'r', address: '::1', target: '/t' };

interface TrailedStore {
  readonly store: Store;
  readonly trail: AuditTrail;
  /** Milliseconds since 1970, as the trail sees it. */
  readonly time: { now: number };
  readonly errors: unknown[];
}

async function openTrail(options: StoreOptions = {}): Promise<TrailedStore> {
  const { store } = await stores.open(options);
  const time = { now: Date.UTC(2026, 0, 1) };
  const errors: unknown[] = [];
  const trail = new AuditTrail({
    store,
    serverId,
    key,
    retentionDays: 10,
    clock: () => time.now,
    observe: (observation) => errors.push(observation),
  });
  return { store, trail, time, errors };
}

const verify = (store: Store) => verifyAudit(store, key);
const faultsOf = async (store: Store) =>
  (await verify(store)).faults.map(({ sequence, fault }) => `${sequence} ${fault}`);
const count = async ({ db }: Store) =>
  Number(
    (
      await db
        .selectFrom('audit_events')
        .select((e) => e.fn.countAll().as('n'))
        .executeTakeFirstOrThrow()
    ).n,
  );

/** A chain of events; `removed`: the first ones have been removed already. */
async function storeWithLines(removed = false): Promise<Store> {
  const { store, trail, time } = await openTrail();
  for (let i = 0; i < linesMade; i++) {
    await trail.begin(ann, { objectId: `o${i}`, details: { i } });
    time.now += dayMs;
  }
  if (removed) assert.equal(await trail.sweep(), 2);
  return store;
}

describe('tampering with the store is detected:', () => {
  const last = linesMade;
  const run = ({ db }: Store, text: string) => sql.raw(text).execute(db);
  const chainAt = (store: Store, end: 'removed' | 'last', sequence: number) =>
    run(
      store,
      `UPDATE audit_chains SET ${end}_sequence = ${sequence},
       ${end}_digest = (SELECT digest FROM audit_events WHERE sequence = ${sequence})`,
    );
  const numbersFromTo = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, i) => `${from + i} changed`);
  const copy = async ({ db }: Store, from: number, to: number) => {
    const rows = db.selectFrom('audit_events').selectAll().where('sequence', '=', from);
    const row = await rows.executeTakeFirstOrThrow();
    await db
      .insertInto('audit_events')
      .values({ ...row, sequence: to, event_id: 'copied' })
      .execute();
  };
  type Tamper = (store: Store) => Promise<unknown>;
  const cases: readonly (readonly [what: string, found: readonly string[], change: Tamper])[] = [
    ...[
      'event_id',
      'at',
      'action',
      'outcome',
      'principal_id',
      'principal',
      'request_id',
      'address',
      'target',
      'object_id',
      'details',
      'digest',
    ].map(
      (column) =>
        [
          `another ${column}`,
          column === 'digest' ? ['5 changed', '6 changed'] : ['5 changed'],
          (store: Store) => run(store, `UPDATE audit_events SET ${column} = '9' WHERE sequence = 5`),
        ] as const,
    ),
    [
      'nobody in the place of somebody',
      ['5 changed'],
      (store) => run(store, 'UPDATE audit_events SET principal = NULL WHERE sequence = 5'),
    ],
    ['a line that is gone', ['5 missing'], (store) => run(store, 'DELETE FROM audit_events WHERE sequence = 5')],
    [
      'a line that is gone, and the others moved up',
      [...numbersFromTo(5, last - 1), `${last - 1} end`],
      async (store) => {
        await run(store, 'DELETE FROM audit_events WHERE sequence = 5');
        for (let i = 6; i <= last; i++)
          await run(store, `UPDATE audit_events SET sequence = ${i - 1} WHERE sequence = ${i}`);
      },
    ],
    [
      'two lines that changed places',
      ['5 changed', '6 changed', '7 changed'],
      async (store) => {
        for (const [from, to] of [
          [5, 99],
          [6, 5],
          [99, 6],
        ])
          await run(store, `UPDATE audit_events SET sequence = ${to} WHERE sequence = ${from}`);
      },
    ],
    [
      'a line put in between',
      [...numbersFromTo(6, last + 1), `${last + 1} end`],
      async (store) => {
        for (let i = last; i > 5; i--)
          await run(store, `UPDATE audit_events SET sequence = ${i + 1} WHERE sequence = ${i}`);
        await copy(store, 5, 6);
        await run(store, `UPDATE audit_chains SET last_sequence = last_sequence + 1`);
      },
    ],
    ['a line put at the end', [`${last} end`], (store) => copy(store, 5, last + 1)],
    ['a line put before the beginning', [`${last} end`], (store) => copy(store, 5, 0)],
    ['a cut end', [`${last - 3} end`], (store) => run(store, `DELETE FROM audit_events WHERE sequence > ${last - 3}`)],
    [
      'a truncated end, and the chain adjusted to it',
      [`${last - 3} end`],
      async (store) => {
        await chainAt(store, 'last', last - 3);
        await run(store, `DELETE FROM audit_events WHERE sequence > ${last - 3}`);
      },
    ],
    ['a cut beginning', ['1 missing'], (store) => run(store, 'DELETE FROM audit_events WHERE sequence <= 3')],
    [
      'a truncated beginning, and the chain adjusted to it',
      [`${last} end`],
      async (store) => {
        await chainAt(store, 'removed', 3);
        await run(store, 'DELETE FROM audit_events WHERE sequence <= 3');
      },
    ],
    ['every line', ['0 end'], (store) => run(store, 'DELETE FROM audit_events')],
    [
      'every line, and the chain adjusted to it',
      ['0 end'],
      async (store) => {
        await run(store, 'DELETE FROM audit_events');
        await run(store, `UPDATE audit_chains SET last_sequence = 0, last_digest = '${firstDigest}'`);
      },
    ],
    ['the chain', ['0 end'], (store) => run(store, 'DELETE FROM audit_chains')],
    [
      'all of it',
      ['0 end'],
      async (store) => {
        await run(store, 'DELETE FROM audit_events');
        await run(store, 'DELETE FROM audit_chains');
      },
    ],
    [
      'a trail by somebody who has another key',
      [...numbersFromTo(1, last), `${last} end`],
      async (store) => {
        const other = Buffer.alloc(32, 8);
        let digest = firstDigest;
        const { db } = store;
        for (const row of await db.selectFrom('audit_events').selectAll().orderBy('sequence').execute()) {
          digest = eventDigest(other, digest, row);
          await db.updateTable('audit_events').set({ digest }).where('sequence', '=', row.sequence).execute();
        }
        await chainAt(store, 'last', last);
        const chain = await db.selectFrom('audit_chains').selectAll().executeTakeFirstOrThrow();
        await db
          .updateTable('audit_chains')
          .set({ seal: chainSeal(other, chain) })
          .execute();
      },
    ],
  ];
  for (const [description, expectedFault, change] of cases)
    test(description, async () => {
      const store = await storeWithLines();
      try {
        await store.db.insertInto('settings').values({ key: 'server_id', value: serverId }).execute();
        await change(store);
        assert.deepEqual(await faultsOf(store), expectedFault);
      } finally {
        await store.close();
      }
    });

  test('nothing is reported for an unchanged store', async () => {
    for (const removed of [false, true]) {
      const store = await storeWithLines(removed);
      const { eventCount, faults, heads } = await verify(store);
      assert.deepEqual([eventCount, faults, heads.length], [removed ? linesMade - 2 : linesMade, [], 1]);
      await store.close();
    }
  });

  test('truncation is detected after older events were removed', async () => {
    const store = await storeWithLines(true);
    await run(store, 'DELETE FROM audit_events WHERE sequence <= 4');
    assert.deepEqual(await faultsOf(store), ['3 missing']);
    await store.close();
  });
});

test('events that begin at once are written in one transaction, and each caller gets its result', async () => {
  const { store, trail } = await openTrail();
  let transactions = 0;
  const { transaction } = store;
  store.transaction = (work) => {
    transactions++;
    return transaction.call(store, work) as ReturnType<typeof work>;
  };
  await Promise.all(Array.from({ length: 50 }, (_, i) => trail.begin(ann, { objectId: `o${i}` })));
  assert.equal(transactions, 1);
  const { eventCount, faults } = await verify(store);
  assert.deepEqual([eventCount, faults], [50, []]);
  await store.close();
  await assert.rejects(trail.begin(ann, {}));
});

describe('expired events', () => {
  test('are removed, and the chain continues', async () => {
    const { store, trail, time } = await openTrail();
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 30; i++) await trail.begin(ann, { objectId: `${round} ${i}` });
      time.now += 8 * dayMs;
      await trail.sweep();
      assert.deepEqual(await faultsOf(store), [], `round ${round}`);
    }
    assert.equal(await count(store), 30);
    time.now += 100 * dayMs;
    assert.equal(await trail.sweep(), 30);
    assert.equal(await trail.sweep(), 0);
    assert.deepEqual([await count(store), await faultsOf(store)], [0, []]);
    await trail.begin(ann, {});
    const { eventCount, faults, heads } = await verify(store);
    assert.deepEqual([eventCount, faults, heads[0]?.sequence], [1, [], 91]);
    await store.close();
  });

  test('are removed in several steps if there are many', async () => {
    const { store, trail, time } = await openTrail();
    const all = 12_345;
    for (let inserted = 0; inserted < all; inserted += 1500) {
      for (let i = inserted; i < Math.min(all, inserted + 1500); i++) trail.enqueue(ann, { outcome: '0' });
      await trail.flush();
    }
    time.now += 11 * dayMs;
    await trail.begin(ann, {});
    assert.equal(await trail.sweep(), all);
    const { eventCount, faults } = await verify(store);
    assert.deepEqual([eventCount, faults], [1, []]);
    await store.close();
  });

  test('can be removed while the trail is verified and events are added', async () => {
    const { store, trail, time } = await openTrail();
    for (let i = 0; i < 3000; i++) trail.enqueue(ann, { outcome: '0' });
    await trail.flush();
    time.now += 11 * dayMs;
    let isOver = false;
    const writing = (async () => {
      for (let i = 0; !isOver; i++) {
        await trail.begin(ann, {});
        if (i === 3) await trail.sweep();
      }
    })();
    for (let i = 0; i < 10; i++) assert.deepEqual((await verify(store)).faults, []);
    isOver = true;
    await writing;
    await store.close();
  });
});

describe('a flood', () => {
  const refused = { outcome: 'UNAUTHENTICATED' } as const;
  const countEvents = async (store: Store) =>
    (await listAudit(store, { limit: 100_000 })).items
      .map(({ details }) => (details === null ? 1 : (JSON.parse(details) as { count: number }).count))
      .reduce((sum, n) => sum + n, 0);

  test('of unauthenticated refusals is counted by address and outcome', async () => {
    const { store, trail, time } = await openTrail();
    for (let i = 0; i < 10_000; i++) {
      trail.enqueue({ action: 'tables.get', address: `10.0.0.${i % 4}` }, refused);
      time.now += 12;
      if (i % 20 === 0) await trail.flush();
    }
    await trail.stop();
    const lines = await count(store);
    assert.ok(lines < 250, `${lines} lines for two minutes`);
    assert.equal(await countEvents(store), 10_000);
    assert.deepEqual(await faultsOf(store), []);
    const events = (await listAudit(store, { limit: 1000, action: 'refusals' })).items;
    assert.deepEqual(new Set(events.map(({ address }) => address)).size, 4);
    await store.close();
  });

  test('from many addresses is counted too', async () => {
    const { store, trail } = await openTrail();
    for (let i = 0; i < 20_000; i++)
      trail.enqueue({ action: 'tables.get', address: `10.1.${i >> 8}.${i & 255}` }, refused);
    await trail.stop();
    assert.ok((await count(store)) < 250, `${await count(store)} lines`);
    assert.equal(await countEvents(store), 20_000);
    await store.close();
  });

  test('of one user does not hide the refusals of others', async () => {
    const { store, trail } = await openTrail();
    for (let i = 0; i < 4000; i++) trail.enqueue(ann, { outcome: 'FORBIDDEN' });
    trail.enqueue({ ...ann, id: 'b1', name: 'bob' }, { outcome: 'FORBIDDEN' });
    await trail.stop();
    assert.equal((await listAudit(store, { limit: 10, principal: 'bob' })).items.length, 1);
    const [number] = (await listAudit(store, { limit: 10, action: 'refusals' })).items;
    assert.deepEqual([number?.principal, number?.outcome, number?.details], ['ann', 'FORBIDDEN', '{"count":3000}']);
    await store.close();
  });

  test('of changes is logged one by one, however many arrive at once', async () => {
    const { store, trail } = await openTrail();
    for (let i = 0; i < 4500; i++) trail.enqueue(ann, { outcome: '0', details: { i } });
    await trail.flush();
    assert.equal(await count(store), 4500);
    assert.deepEqual(await faultsOf(store), []);
    await store.close();
  });
});

test('events that could not be written are written later, and those beyond the limit are counted', async () => {
  let isBroken = false;
  const { store, trail, errors } = await openTrail({
    inject: () => {
      if (isBroken) throw new Error('the disk is full');
    },
  });
  isBroken = true;
  for (let i = 0; i < 3000; i++) trail.enqueue(ann, { outcome: '0', objectId: `${i}` });
  await trail.flush();
  for (let i = 3000; i < 6000; i++) trail.enqueue(ann, { outcome: '0', objectId: `${i}` });
  await trail.flush();
  assert.equal(errors.length, 2);
  isBroken = false;
  await trail.flush();
  await trail.flush();
  const events = (await listAudit(store, { limit: 10_000 })).items.toReversed();
  const lost = events.filter(({ action }) => action === 'refusals').map(({ details }) => details);
  assert.deepEqual([events.length - lost.length, lost], [5000, ['{"count":1000}']]);
  assert.deepEqual(
    events.slice(0, 3).map((event) => event.object_id),
    ['0', '1', '2'],
  );
  assert.deepEqual(await faultsOf(store), []);
  await store.close();
});
