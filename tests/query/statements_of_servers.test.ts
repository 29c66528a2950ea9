// How often the statements of a server are written to a shared store: short ones once, at their end; long ones when they run for long, when
// that has changed, and at their end.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Insertable } from 'kysely';
import { QueryHistory } from '../../src/query/statements/history.ts';
import type { QueryEntry } from '../../src/query/statements/history_entry.ts';
import { StatementsOfServers } from '../../src/query/statements/statements_of_servers.ts';
import { LeaseHolder } from '../../src/store/leases.ts';
import type { QueriesTable } from '../../src/store/schema.ts';
import type { Store } from '../../src/store/store.ts';
import { storesOf } from '../stores.ts';

const emptyOutcome = {
  endedAt: null,
  elapsedMs: null,
  queuedMs: null,
  rowCount: null,
  resultBytes: null,
  errorCode: null,
  errorMessage: null,
  plan: null,
};

const entryOf = (queryId: string, ranMs: number, taskId: string | null = null): QueryEntry => ({
  queryId,
  sql: 'SELECT 1',
  kind: 'select',
  state: 'running',
  warehouse: 'w',
  catalog: 'c',
  database: null,
  submittedBy: 'ann',
  owner: 'u',
  submittedAt: Date.now() - ranMs,
  startedAt: Date.now() - ranMs,
  taskId,
  ...emptyOutcome,
});

test('only statements that run for long, or belong to a task, are written before they end', async (t) => {
  const statements: string[] = [];
  const inject = ({ sql }: { readonly sql: string }) => {
    // Without those that count the bytes of what is retained.
    const isOfEntries = /^(insert into|update|select).*"queries"/.test(sql) && !sql.includes('octet_length');
    if (isOfEntries) statements.push(sql.split(' ')[0] as string);
  };
  const { store } = await storesOf(import.meta.url).open({ isShared: true, inject });
  t.after(() => store.close());
  const ofServer = (serverId: string) => {
    const shared = new StatementsOfServers({
      store,
      servers: { serverId, isStarted: true },
      holder: new LeaseHolder(serverId),
    });
    return new QueryHistory({ db: store.db, entriesMax: 100, observe: () => undefined, shared });
  };
  const [one, two] = [ofServer('one'), ofServer('two')];
  const writes = async (work: () => void): Promise<string[]> => {
    statements.length = 0;
    work();
    await one.flush();
    return statements.slice();
  };
  const statesThrough = async (history: QueryHistory): Promise<Record<string, string>> =>
    Object.fromEntries((await history.list({ limit: 10 })).items.map(({ queryId, state }) => [queryId, state]));

  // The first flush sweeps.
  await one.flush();
  assert.deepEqual(await writes(() => one.begin(entryOf('short', 0), () => {})), []);
  assert.deepEqual(await writes(() => one.end('short', { state: 'succeeded', endedAt: Date.now() })), ['insert']);
  assert.deepEqual(await statesThrough(two), { short: 'succeeded' });

  assert.deepEqual(await writes(() => one.begin(entryOf('long', 1000), () => {})), ['insert']);
  assert.deepEqual(await writes(() => {}), ['select']);
  assert.deepEqual(await writes(() => one.update('long', { rowCount: 7 })), ['select', 'insert']);
  assert.deepEqual(await statesThrough(two), { short: 'succeeded', long: 'running' });
  assert.deepEqual(await statesThrough(one), { short: 'succeeded', long: 'running' });
  assert.equal((await two.get('long'))?.runsOn, 'one');
  assert.deepEqual(await writes(() => one.begin(entryOf('task', 0, 't'), () => {})), ['select', 'insert']);

  // What another server has ended by mistake is written again.
  await two.takeOver();
  assert.deepEqual(await statesThrough(two), { short: 'succeeded', long: 'failed', task: 'failed' });
  assert.deepEqual(await writes(() => {}), ['select', 'insert']);
  assert.deepEqual(await statesThrough(two), { short: 'succeeded', long: 'running', task: 'running' });

  const end = (id: string) => one.end(id, { state: 'succeeded', endedAt: Date.now() });
  assert.deepEqual(await writes(() => ['long', 'task'].forEach(end)), ['insert']);
  for (const history of [one, two])
    assert.deepEqual(await statesThrough(history), { short: 'succeeded', long: 'succeeded', task: 'succeeded' });
  assert.deepEqual(await writes(() => {}), []);
});

/** The first insertion is committed, and its answer is lost. */
function withLostAnswer(db: Store['db']): Store['db'] {
  let isFirst = true;
  return new Proxy(db, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (name !== 'insertInto' || !isFirst) return typeof value === 'function' ? value.bind(target) : value;
      isFirst = false;
      return () => ({
        values: (rows: readonly Insertable<QueriesTable>[]) => ({
          async execute() {
            await target.insertInto('queries').values(rows).execute();
            throw new Error('the answer was lost');
          },
        }),
      });
    },
  });
}

test('statements are stored once, also if the answer to their insertion was lost', async (t) => {
  const { store } = await storesOf(import.meta.url).open();
  t.after(() => store.close());
  const observed: unknown[] = [];
  const observe = (observation: unknown) => void observed.push(observation);
  const history = new QueryHistory({ db: withLostAnswer(store.db), entriesMax: 100, observe });
  const run = (queryId: string) => {
    history.begin(entryOf(queryId, 0), () => {});
    history.end(queryId, { state: 'succeeded', endedAt: Date.now() });
  };
  run('first');
  await history.flush();
  assert.equal(observed.length, 1);
  run('second');
  await history.flush();
  assert.equal(observed.length, 1);
  const rows = await store.db.selectFrom('queries').select('query_id').orderBy('query_id').execute();
  assert.deepEqual(
    rows.map(({ query_id }) => query_id),
    ['first', 'second'],
  );
});

test('running statements are published to the other servers also while those that ended cannot be written', async (t) => {
  const { store } = await storesOf(import.meta.url).open({ isShared: true });
  t.after(() => store.close());
  const holder = new LeaseHolder('one');
  const shared = new StatementsOfServers({ store, servers: { serverId: 'one', isStarted: true }, holder });
  const observed: unknown[] = [];
  const observe = (observation: unknown) => void observed.push(observation);
  const history = new QueryHistory({ db: withLostAnswer(store.db), entriesMax: 100, observe, shared });
  history.begin(entryOf('short', 0), () => {});
  history.end('short', { state: 'succeeded', endedAt: Date.now() });
  history.begin(entryOf('long', 1000), () => {});
  await history.flush();
  assert.equal(observed.length, 1);
  const rows = await store.db.selectFrom('queries').select(['query_id', 'state']).orderBy('query_id').execute();
  assert.deepEqual(
    rows.map(({ query_id, state }) => `${query_id} ${state}`),
    ['long running', 'short succeeded'],
  );
});
