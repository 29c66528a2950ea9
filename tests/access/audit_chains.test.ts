// The audit trails of two servers on one store: each writes a chain of its own, and readers have the events of both.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import { AuditJournal, lostLines, StoreBehind } from '../../src/access/audit/audit_journal.ts';
import { AuditTrail } from '../../src/access/audit/audit_log.ts';
import { listAudit, verifyAudit } from '../../src/access/audit/audit_reader.ts';
import type { Actor } from '../../src/model/principal.ts';
import type { Store } from '../../src/store/store.ts';
import { storesOf } from '../stores.ts';

const stores = storesOf(import.meta.url);
const key = Buffer.alloc(32, 7);
const dayMs = 86_400_000;
const ann: Actor = { id: 'a1', name: 'ann', action: 'tables.create', requestId: 'r', address: '::1', target: '/t' };
const directory = mkdtempSync(join(tmpdir(), 'tabularium-chains-'));
after(() => rmSync(directory, { recursive: true, force: true }));

interface Writer {
  readonly trail: AuditTrail;
  readonly time: { now: number };
  /** Writes an event as part of a change. */
  change(objectId: string): Promise<void>;
}

function writerOn(store: Store, serverId: string, journal?: AuditJournal): Writer {
  const time = { now: Date.UTC(2026, 0, 1) };
  const observe = () => assert.fail('all events are written');
  const trail = new AuditTrail({ store, serverId, key, retentionDays: 10, clock: () => time.now, observe, journal });
  const change = (objectId: string) =>
    store.transaction(async (tx) => {
      // As every change, it has taken its view of the store before its event is written.
      await tx.selectFrom('settings').select('value').executeTakeFirst();
      await trail.append(tx, ann, { outcome: '0', objectId });
    });
  return { trail, time, change };
}

const twoOn = (store: Store) => [writerOn(store, 'one'), writerOn(store, 'two')] as const;
const faultsOf = async (store: Store) =>
  (await verifyAudit(store, key)).faults.map(({ serverId, sequence, fault }) => `${serverId} ${sequence} ${fault}`);
const headsOf = async (store: Store) =>
  (await verifyAudit(store, key)).heads.map(({ serverId, sequence }) => `${serverId} ${sequence}`);
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

test('chains that are written and removed at the same time stay complete', async () => {
  const { store } = await stores.open();
  const both = twoOn(store);
  const write = async ({ trail, change, time }: Writer) => {
    for (const i of numbers(3)) {
      const begun = numbers(4).map((n) => trail.begin(ann, { objectId: `b${n}` }));
      for (const n of numbers(5)) trail.enqueue(ann, { outcome: '0', objectId: `e${n}` });
      await Promise.all([...begun, ...numbers(6).map((n) => change(`c${n}`)), trail.flush()]);
      time.now += 8 * dayMs;
      if (i > 0) await trail.sweep();
    }
  };
  await Promise.all(both.map(write));
  assert.deepEqual(await faultsOf(store), []);
  assert.deepEqual(await headsOf(store), ['one 45', 'two 45']);
  await store.close();
});

test('events are listed by time, whichever server wrote them', async () => {
  const { store } = await stores.open();
  const [one, two] = twoOn(store);
  for (const i of numbers(6)) {
    const writer = i % 2 === 0 ? one : two;
    one.time.now += 1000;
    two.time.now += 1000;
    await writer.change(`o${i}`);
  }
  const events = (await listAudit(store, { limit: 4 })).items;
  assert.deepEqual(
    events.map(({ server_id, object_id, sequence }) => `${server_id} ${object_id} ${sequence}`),
    ['two o5 3', 'one o4 3', 'two o3 2', 'one o2 2'],
  );
  const rest = (await listAudit(store, { limit: 4, after: events.at(-1)?.event_id })).items;
  assert.deepEqual(
    rest.map(({ object_id }) => object_id),
    ['o1', 'o0'],
  );
  await store.close();
});

test('a fault is in the chain of its server, and a chain that is gone is missed', async () => {
  const { store } = await stores.open({ isShared: true });
  const [one, two] = twoOn(store);
  for (const i of numbers(3)) await Promise.all([one.change(`a${i}`), two.change(`b${i}`)]);
  assert.deepEqual(await faultsOf(store), []);
  await store.db.deleteFrom('audit_events').where('server_id', '=', 'two').where('sequence', '=', 2).execute();
  assert.deepEqual(await faultsOf(store), ['two 2 missing']);
  await store.db.deleteFrom('audit_events').where('server_id', '=', 'two').execute();
  await store.db.deleteFrom('audit_chains').where('server_id', '=', 'two').execute();
  assert.deepEqual(await faultsOf(store), ['two 0 end']);
  await store.close();
});

for (const read of numbers(8))
  test(`a chain that begins after read ${read + 1} of a verification is not missed`, async () => {
    const { store } = await stores.open({ isShared: true });
    const [one, two] = twoOn(store);
    await one.change('a');
    let reads = 0;
    const begins: KyselyPlugin = {
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        if (reads++ === read) await two.change('b');
        return result;
      },
    };
    const { faults } = await verifyAudit({ ...store, db: store.db.withPlugin(begins) } as Store, key);
    assert.deepEqual(faults, []);
    await store.close();
  });

test('expired events of a server that no longer runs are removed by the others', async () => {
  const { store } = await stores.open();
  const [one, two] = twoOn(store);
  await two.change('old');
  two.time.now += 6 * dayMs;
  await two.change('new');
  one.time.now += 11 * dayMs;
  await one.change('newest');
  assert.equal(await one.trail.sweep(), 1);
  assert.deepEqual(await faultsOf(store), []);
  assert.deepEqual(
    (await listAudit(store, { limit: 9 })).items.map(({ object_id }) => object_id),
    ['newest', 'new'],
  );
  await store.close();
});

test('a journal has the events of its server only, and misses those in an older copy of the store', async () => {
  const { store, place } = await stores.open();
  const directories = ['one', 'two'].map((name) => mkdtempSync(join(directory, name)));
  const journals = await Promise.all(directories.map((path) => AuditJournal.open(path, store)));
  const [one, two] = ['one', 'two'].map((name, i) => writerOn(store, name, journals[i]));
  await Promise.all([one?.change('a'), two?.change('a'), one?.change('b')]);
  await store.close();
  const older = await stores.afterKill(place);
  const { store: again } = await stores.open({ place });
  const failing = again.transaction(async (tx) => {
    await writerOn(again, 'one', journals[0]).trail.append(tx, ann, { outcome: '0' });
    throw new Error('not committed');
  });
  await assert.rejects(failing, /not committed/);
  const writer = writerOn(again, 'two', journals[1]);
  await Promise.all(numbers(4).map((i) => writer.change(`later ${i}`)));
  for (const journal of journals) journal.close();
  const lostIn = async (store: Store) =>
    Promise.all(
      directories.map(async (path) =>
        (await lostLines(path, store)).map(({ serverId, sequence }) => `${serverId} ${sequence}`).sort(),
      ),
    );
  assert.deepEqual(await lostIn(again), [[], []]);
  await again.close();
  const { store: behind } = await stores.open({ place: older });
  assert.deepEqual(await lostIn(behind), [[], ['two 2', 'two 3', 'two 4', 'two 5']]);
  await assert.rejects(AuditJournal.open(directories[1] as string, behind), StoreBehind);
  (await AuditJournal.open(directories[0] as string, behind)).close();
  await behind.close();
});
