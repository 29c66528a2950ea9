// What a store must do, whichever database it uses: the same cases run on each. A killed server is simulated by copying its store while
// it is open.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { newId } from '../../src/model/ids.ts';
import { prepareQuery } from '../../src/store/prepared.ts';
import type { ObjectsTable } from '../../src/store/schema.ts';
import { getOrCreateSetting, type Store } from '../../src/store/store.ts';
import { afterCommit } from '../../src/store/transactions.ts';
import { storesOf } from '../stores.ts';

const stores = storesOf(import.meta.url);
/** All users of a SQLite store share a connection, and its migrations are cheap. */
const isSqlite = stores.name === 'SQLite';

const object = (name: string, more: Partial<ObjectsTable> = {}): ObjectsTable => ({
  id: newId(),
  category: 'things',
  parent_id: null,
  name,
  folded_name: name.toLowerCase(),
  state: 'ready',
  state_reason: null,
  spec: '{}',
  folded_comment: null,
  owner: 'root',
  version: 1,
  created_at: 1_790_000_000_123,
  created_by: 'root',
  updated_at: 1_790_000_000_123,
  updated_by: 'root',
  ...more,
});

/** Except the first user, who exists from the start. */
const names = async (store: Store): Promise<string[]> => {
  const rows = await store.db.selectFrom('objects').select('name').where('id', '!=', 'root').orderBy('name').execute();
  return rows.map((row) => row.name);
};

describe(`store: ${stores.name}`, () => {
  test('written rows exist after it is opened again', async () => {
    const { store, place } = await stores.open();
    await store.db
      .insertInto('objects')
      .values(object('ä'.repeat(128)))
      .execute();
    const rows = await store.db.selectFrom('objects').selectAll().execute();
    await store.close();
    const reopened = await stores.open({ place });
    assert.deepEqual(await reopened.store.db.selectFrom('objects').selectAll().execute(), rows);
    await reopened.store.close();
  });

  test('a transaction is all or nothing, and its error is thrown', async () => {
    const { store } = await stores.open();
    const error = new Error('mine');
    const failing = store.transaction(async (tx) => {
      await tx.insertInto('objects').values(object('a')).execute();
      throw error;
    });
    await assert.rejects(failing, error);
    assert.deepEqual(await names(store), []);
    await store.close();
  });

  test('uncommitted changes are invisible, and transactions on one connection are exclusive', async () => {
    const { store } = await stores.open();
    let insideCount = 0;
    const write = (name: string) =>
      store.transaction(async (tx) => {
        insideCount++;
        if (isSqlite) assert.equal(insideCount, 1);
        await tx
          .insertInto('objects')
          .values(object(`${name}1`))
          .execute();
        await tx
          .insertInto('objects')
          .values(object(`${name}2`))
          .execute();
        insideCount--;
      });
    const counts = Array.from({ length: 20 }, async (_, n) => {
      let writing = true;
      const written = write(`n${n}`).finally(() => {
        writing = false;
      });
      while (writing) assert.equal((await names(store)).length % 2, 0, 'half a transaction was seen');
      await written;
    });
    await Promise.all(counts);
    assert.equal((await names(store)).length, 40);
    await store.close();
  });

  test('concurrent transactions have the effect of one after the other', async () => {
    const { store } = await stores.open();
    const addUnlessFull = (name: string) =>
      store.transaction(async (tx) => {
        const { count } = await tx
          .selectFrom('objects')
          .select((e) => e.fn.countAll<number>().as('count'))
          .where('category', '=', 'things')
          .executeTakeFirstOrThrow();
        if (count >= 3) return false;
        await tx.insertInto('objects').values(object(name)).execute();
        return true;
      });
    const added = await Promise.all(Array.from({ length: 8 }, (_, n) => addUnlessFull(`n${n}`)));
    assert.equal(added.filter((isAdded) => isAdded).length, 3);
    assert.equal((await names(store)).length, 3);
    await store.close();
  });

  test('effects after a commit run once, and not after a rollback', async () => {
    const { store } = await stores.open();
    const effects: string[] = [];
    const add = (name: string, error?: Error) =>
      store.transaction(async (tx) => {
        afterCommit(tx, () => effects.push(name));
        await tx.insertInto('objects').values(object(name)).execute();
        if (error) throw error;
      });
    await add('a');
    await assert.rejects(add('b', new Error('no')), /no/);
    await Promise.all([add('c'), add('d')]);
    assert.deepEqual(effects.sort(), ['a', 'c', 'd']);
    await store.close();
  });

  test('a vacuum retains the rows', async () => {
    const { store } = await stores.open();
    const row = { name: 'one', key_id: 'k', sealed: 'x'.repeat(10_000) };
    await store.db.insertInto('secrets').values(row).execute();
    await store.db.updateTable('secrets').set({ sealed: 'y' }).execute();
    await store.vacuum('secrets');
    const rows = await store.db.selectFrom('secrets').selectAll().execute();
    assert.deepEqual(
      rows.map((each) => ({ ...each })),
      [{ ...row, sealed: 'y' }],
    );
    await store.close();
  });

  test('if any statement of a transaction fails, the transaction has no effect and the store continues to work', async () => {
    const fault = { at: 0, count: 0 };
    const { store } = await stores.open({
      inject: () => {
        if (++fault.count === fault.at) throw new Error('the disk is gone');
      },
    });
    const write = () =>
      store.transaction(async (tx) => {
        await tx.insertInto('objects').values(object('a')).execute();
        await tx.insertInto('objects').values(object('b')).execute();
      });
    for (let n = 1; n <= 4; n++) {
      Object.assign(fault, { at: n, count: 0 });
      await assert.rejects(write(), /the disk is gone/);
      Object.assign(fault, { at: 0 });
      assert.deepEqual(await names(store), [], `after a failure of statement ${n}`);
    }
    await write();
    assert.deepEqual(await names(store), ['a', 'b']);
    // The rollback itself fails.
    Object.assign(fault, { at: 3, count: 0 });
    const refused = store.transaction(async (tx) => {
      await tx.insertInto('objects').values(object('c')).execute();
      fault.count = 2;
      throw new Error('changed my mind');
    });
    await assert.rejects(refused);
    assert.deepEqual(await names(store), ['a', 'b']);
    await store.close();
  });

  test('committed changes survive a kill, uncommitted ones do not', async () => {
    const { store, place } = await stores.open();
    await store.db.insertInto('objects').values(object('kept')).execute();
    let copy = '';
    const open = store.transaction(async (tx) => {
      await tx.insertInto('objects').values(object('open')).execute();
      copy = await stores.afterKill(place);
    });
    // A copy for which connections must end fails it.
    await Promise.allSettled([open]);
    const reopened = await stores.open({ place: copy });
    assert.deepEqual(await names(reopened.store), ['kept']);
    await reopened.store.close();
    await store.close();
  });

  test('names sort by code points', async () => {
    const { store } = await stores.open();
    const all = ['b', 'B', 'ä', 'Z', 'a', '\uffee', '😀'];
    for (const name of all)
      await store.db
        .insertInto('objects')
        .values(object(name, { category: name }))
        .execute();
    assert.deepEqual(await names(store), ['B', 'Z', 'a', 'b', 'ä', '\uffee', '😀']);
    await store.close();
  });

  test('siblings with the same folded name are refused, with a parent and without', async () => {
    const { store } = await stores.open();
    const parent = object('p');
    await store.db.insertInto('objects').values(parent).execute();
    await assert.rejects(store.db.insertInto('objects').values(object('P')).execute());
    const child = { parent_id: parent.id };
    await store.db.insertInto('objects').values(object('c', child)).execute();
    await assert.rejects(store.db.insertInto('objects').values(object('C', child)).execute());
    await store.db
      .insertInto('objects')
      .values(object('c', { ...child, category: 'others' }))
      .execute();
    await store.close();
  });

  test('rows that depend on an object are deleted with it; rows that refer to a missing one are refused', async () => {
    const { store } = await stores.open();
    const parent = object('p');
    const child = object('c', { parent_id: parent.id });
    await store.db.insertInto('objects').values([parent, child]).execute();
    const statistics = { object_id: child.id, row_count: 2 ** 40, data_bytes: 1, as_of: 1 };
    await store.db.insertInto('table_statistics').values(statistics).execute();
    await assert.rejects(
      store.db
        .insertInto('objects')
        .values(object('x', { parent_id: newId() }))
        .execute(),
    );
    await store.db.deleteFrom('objects').where('id', '=', parent.id).execute();
    assert.deepEqual(await names(store), []);
    assert.deepEqual(await store.db.selectFrom('table_statistics').selectAll().execute(), []);
    await store.close();
  });

  test('a prepared query uses the values of each call, in and out of transactions', async () => {
    const { store } = await stores.open();
    await store.db
      .insertInto('objects')
      .values([object('a'), object('b', { owner: 'ann' })])
      .execute();
    const byName = prepareQuery<{ name: string; owner: string }>()(store.db, (db, slot) =>
      db
        .selectFrom('objects')
        .select(['name', sql<number>`2`.as('two')])
        .where('owner', '=', slot('owner'))
        .where('name', '=', slot('name')),
    );
    assert.deepEqual({ ...(await byName.first(store.db, { name: 'a', owner: 'root' })) }, { name: 'a', two: 2 });
    assert.equal(await byName.first(store.db, { name: 'a', owner: 'ann' }), undefined);
    await store.transaction(async (tx) => {
      assert.equal((await byName.all(tx, { name: 'b', owner: 'ann' })).length, 1);
    });
    const touch = prepareQuery<{ owner: string }>()(store.db, (db, slot) =>
      db.updateTable('objects').set({ version: 2 }).where('owner', '=', slot('owner')),
    );
    assert.equal(await touch.run(store.db, { owner: 'nobody' }), 0);
    assert.equal(await touch.run(store.db, { owner: 'ann' }), 1);
    await store.close();
  });

  test('a setting is generated once', async () => {
    const { store, place } = await stores.open();
    assert.equal(await getOrCreateSetting(store, 'key', () => 'first'), 'first');
    assert.equal(await getOrCreateSetting(store, 'key', () => 'second'), 'first');
    await store.close();
    const reopened = await stores.open({ place });
    assert.equal(await getOrCreateSetting(reopened.store, 'key', () => 'third'), 'first');
    await reopened.store.close();
  });

  test('a store of a later release is refused and not changed', async () => {
    const { store, place } = await stores.open();
    await sql`insert into schema_versions (version, name, applied_at) values (999, 'later', 0)`.execute(store.db);
    await sql`update schema_range set oldest_server = 999`.execute(store.db);
    await store.close();
    await assert.rejects(stores.open({ place }), { name: 'StoreTooNew', message: /999/ });
    // Refused again: so the first refusal released the lock.
    await assert.rejects(stores.open({ place }), { name: 'StoreTooNew' });
  });

  test('a migration that is interrupted at any statement can be repeated', async () => {
    const counter = { count: 0 };
    const completed = await stores.open({ place: await stores.newPlace(), inject: () => void counter.count++ });
    await completed.store.close();
    const step = isSqlite ? 1 : Math.ceil(counter.count / 10);
    for (let n = 1; n <= counter.count; n += step) {
      const place = await stores.newPlace();
      let count = 0;
      const inject = () => {
        if (++count >= n) throw new Error('killed');
      };
      await assert.rejects(stores.open({ place, inject }), /killed/);
      const reopened = await stores.open({ place });
      assert.deepEqual(await names(reopened.store), []);
      await reopened.store.close();
    }
  });
});

if (isSqlite)
  describe('a store of SQLite', () => {
    test('a second server on the same file is refused, in this process and in another', async () => {
      const { store, place } = await stores.open();
      await assert.rejects(stores.open({ place }), { name: 'StoreInUse', message: /another server/ });
      const script = `import { openSqliteStore } from '${new URL('../../src/store/sqlite/sqlite_store.ts', import.meta.url)}';
        await openSqliteStore({ file: ${JSON.stringify(place)} }).catch((error) => console.log(error.name));`;
      const other = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
      assert.equal(other.stdout.trim(), 'StoreInUse', other.stderr);
      await store.close();
      const reopened = await stores.open({ place });
      await reopened.store.close();
    });

    test('every commit is flushed', async () => {
      const { store } = await stores.open();
      const pragma = async (name: string) =>
        Object.values((await sql<Record<string, unknown>>`pragma ${sql.raw(name)}`.execute(store.db)).rows[0] ?? {})[0];
      assert.equal(await pragma('synchronous'), 2);
      assert.equal(await pragma('journal_mode'), 'wal');
      assert.equal(await pragma('foreign_keys'), 1);
      await store.close();
    });
  });
