// What the store does about PostgreSQL's own failures: conflicts, lost connections, waits without an end, full disks, unusable databases.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { sql } from 'kysely';
import { codes } from '../../src/standard/codes.ts';
import { Failure, outcomeOf } from '../../src/standard/failure.ts';
import { openPostgresqlStore, type PostgresqlStoreOptions } from '../../src/store/postgresql/postgresql_store.ts';
import type { Store } from '../../src/store/store.ts';
import { StoreFull, StoreUnavailable, StoreUnchanged, StoreUnusable } from '../../src/store/store_errors.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { disconnect, missingPostgresql, newDatabase, newStoreDatabase } from '../postgresql.ts';

const open: Store[] = [];
after(() => Promise.all(open.map((store) => store.close())));

async function prepared(limits: PostgresqlStoreOptions['limits'] = {}) {
  const location = await newStoreDatabase();
  const store = await openPostgresqlStore({ location, limits });
  open.push(store);
  return { store, location };
}

async function another(location: PostgresqlStoreOptions['location']): Promise<Store> {
  const store = await openPostgresqlStore({ location });
  open.push(store);
  return store;
}

/** Resolves when two have called it. */
function meetingOfTwo(): () => Promise<void> {
  const met = Promise.withResolvers<void>();
  let waiting = 0;
  return () => {
    if (++waiting === 2) met.resolve();
    return met.promise;
  };
}

const setting = (key: string, value = '') => ({ key, value });
const keys = async ({ db }: Store): Promise<string[]> =>
  (await db.selectFrom('settings').select('key').orderBy('key').execute()).map(({ key }) => key);

/** In the outcome of a request, a store that does not respond is a failure with a code. */
function isUnavailable(error: unknown): boolean {
  assert(error instanceof StoreUnavailable, `${error}`);
  assert.deepEqual([codes[error.code].status, outcomeOf(error)], [503, 'unknown']);
  return true;
}

describe('PostgreSQL', { skip: missingPostgresql }, () => {
  test('transactions of one server run one after the other, without conflicts', async () => {
    const { store } = await prepared();
    await store.db.insertInto('settings').values(setting('counter', '0')).execute();
    let attempts = 0;
    const countUp = () =>
      store.transaction(async (tx) => {
        attempts++;
        const { value } = await tx.selectFrom('settings').select('value').executeTakeFirstOrThrow();
        await tx
          .updateTable('settings')
          .set({ value: String(Number(value) + 1) })
          .execute();
      });
    await Promise.all(Array.from({ length: 32 }, countUp));
    assert.deepEqual(
      [attempts, (await store.db.selectFrom('settings').select('value').execute())[0]?.value],
      [32, '32'],
    );
  });

  test('a transaction waits for others of its server only for a time, and the next ones run', async () => {
    const { store } = await prepared({ turnMs: deadlineMs(100) });
    const add = (key: string) => store.transaction((tx) => tx.insertInto('settings').values(setting(key)).execute());
    const first = store.transaction(async () => {
      await assert.rejects(add('late'), (error) => isUnavailable(error) && error instanceof StoreUnchanged);
    });
    await first;
    await add('next');
    assert.deepEqual(await keys(store), ['next']);
  });

  test('transactions that deadlock all commit', async () => {
    const { store, location } = await prepared();
    const other = await another(location);
    await store.db
      .insertInto('settings')
      .values([setting('a'), setting('b')])
      .execute();
    const meet = meetingOfTwo();
    const updateBoth = (on: Store, names: readonly string[]) =>
      on.transaction(async (tx) => {
        for (const key of names) {
          await tx.updateTable('settings').set({ value: names.join() }).where('key', '=', key).execute();
          // The first attempts hold one row each before they wait for the other.
          await meet();
        }
      });
    await Promise.all([updateBoth(store, ['a', 'b']), updateBoth(other, ['b', 'a'])]);
    const values = await store.db.selectFrom('settings').select('value').distinct().execute();
    assert.equal(values.length, 1);
  });

  test('a conflict that the transaction catches is still repeated', async () => {
    const { store, location } = await prepared();
    await store.db.insertInto('settings').values(setting('counter', '0')).execute();
    const meet = meetingOfTwo();
    let attempts = 0;
    const countUp = (on: Store) =>
      on.transaction(async (tx) => {
        attempts++;
        const { value } = await tx.selectFrom('settings').select('value').executeTakeFirstOrThrow();
        await meet();
        const update = tx.updateTable('settings').set({ value: String(Number(value) + 1) });
        await update.execute().catch(() => {});
      });
    await Promise.all([store, await another(location)].map(countUp));
    assert.equal((await store.db.selectFrom('settings').select('value').executeTakeFirst())?.value, '2');
    assert.equal(attempts, 3);
  });

  test('conflicts without an end fail in time', async () => {
    const { store } = await prepared({ conflictsMs: 50 });
    const conflict = () => sql`do $$ begin raise exception 'conflict' using errcode = '40001'; end $$`;
    let attempts = 0;
    const run = store.transaction(async (tx) => {
      attempts++;
      await conflict().execute(tx);
    });
    await assert.rejects(run, isUnavailable);
    assert(attempts > 1);
    await assert.rejects(conflict().execute(store.db), isUnavailable);
  });

  test('a lost connection fails its transaction, and the store continues to work', async () => {
    const { store, location } = await prepared();
    const run = store.transaction(async (tx) => {
      await tx.insertInto('settings').values(setting('lost')).execute();
      await disconnect(location);
      await tx.insertInto('settings').values(setting('later')).execute();
    });
    await assert.rejects(run, isUnavailable);
    // Idle connections are lost, too.
    await disconnect(location);
    await eventually('a new connection is used', () =>
      keys(store).then(
        () => true,
        (error) => isUnavailable(error) && false,
      ),
    );
    await store.db.insertInto('settings').values(setting('next')).execute();
    assert.deepEqual(await keys(store), ['next']);
  });

  test('every wait ends: for a statement, for a lock, for a connection, for the next statement of a transaction', async () => {
    const ms = deadlineMs(100);
    const { store } = await prepared({ statementMs: ms });
    await assert.rejects(sql`select pg_sleep(3600)`.execute(store.db), isUnavailable);
    const locking = await prepared({ lockMs: ms, connectMs: ms, connectionsMax: 2 });
    await locking.store.db.insertInto('settings').values(setting('locked')).execute();
    const deleteIt = (tx: Store['db']) => tx.deleteFrom('settings').execute();
    const held = locking.store.transaction(async (tx) => {
      await deleteIt(tx);
      await assert.rejects(deleteIt(locking.store.db), isUnavailable);
      await locking.store.db.connection().execute(async (db) => {
        await sql`select 1`.execute(db);
        await assert.rejects(keys(locking.store), isUnavailable);
      });
    });
    await held;
    const idle = await prepared({ idleInTransactionMs: ms });
    const silent = idle.store.transaction(async (tx) => {
      await deleteIt(tx);
      const open = sql`select 1 from pg_stat_activity where datname = current_database() and xact_start < now()`;
      await eventually('its connection is ended', async () => (await open.execute(idle.store.db)).rows.length === 0);
      await deleteIt(tx);
    });
    await assert.rejects(silent, isUnavailable);
  });

  test('a full disk is STORAGE_FULL', async () => {
    const { store } = await prepared();
    const full = sql`do $$ begin raise exception 'no space' using errcode = 'disk_full'; end $$`;
    await assert.rejects(full.execute(store.db), StoreFull);
    const caught = store.transaction(async (tx) => {
      await full.execute(tx).catch(() => {});
    });
    await assert.rejects(caught, StoreFull);
  });

  test('an integer that a number cannot represent is an error, not another integer', async () => {
    const { store } = await prepared();
    const max = sql<{ n: number }>`select ${String(Number.MAX_SAFE_INTEGER)}::bigint as n`;
    assert.deepEqual((await max.execute(store.db)).rows, [{ n: Number.MAX_SAFE_INTEGER }]);
    await assert.rejects(sql`select ${'9007199254740993'}::bigint as n`.execute(store.db), RangeError);
  });

  test('servers that open an empty database at the same time migrate it once', async () => {
    const location = await newDatabase();
    const stores = await Promise.all([1, 2, 3].map(() => openPostgresqlStore({ location })));
    open.push(...stores);
    for (const store of stores) assert.deepEqual(await keys(store), []);
  });

  test('a database that cannot be used is refused with the reason', async () => {
    const location = await newDatabase();
    const refused = (changes: Partial<typeof location>, message: RegExp) =>
      assert.rejects(openPostgresqlStore({ location: { ...location, ...changes } }), (error: unknown) => {
        assert(error instanceof StoreUnusable, `${error}`);
        assert(!(error instanceof Failure));
        assert.match(error.message, message);
        return true;
      });
    await refused({ port: 1 }, /cannot be used: connect ENOENT/);
    await refused({ database: 'none' }, /database "none" does not exist/);
    await refused({ user: 'nobody' }, /role "nobody" does not exist/);
  });
});
