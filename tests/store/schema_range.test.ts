// Releases side by side on one store: after an expansion the servers of the release before still start on it, after the contraction they do not;
// servers that start at once migrate once. On every database.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Kysely, sql } from 'kysely';
import { migrate, migrations, oldestServerOf, schemaVersion } from '../../src/store/migrations/migrate.ts';
import type { Migration } from '../../src/store/migrations/migration.ts';
import { postgresqlColumnTypes } from '../../src/store/postgresql/column_values.ts';
import { openPostgresqlStore } from '../../src/store/postgresql/postgresql_store.ts';
import type { Schema } from '../../src/store/schema.ts';
import { sqliteColumnTypes } from '../../src/store/sqlite/sqlite_dialect.ts';
import { openSqliteStore } from '../../src/store/sqlite/sqlite_store.ts';
import { missingPostgresql, newDatabase, newStoreDatabase, urlOfDatabase } from '../postgresql.ts';
import { start } from '../server.ts';

const expansion: Migration = {
  name: 'a column that this release does not know',
  servers: 'expand',
  async up(db, types) {
    await db.schema.alterTable('objects').addColumn('label', types.name).execute();
    await db.schema
      .createTable('labels')
      .addColumn('name', types.name, (c) => c.notNull().primaryKey())
      .execute();
  },
};
const contraction: Migration = {
  name: 'this release uses what is removed',
  servers: schemaVersion + 1,
  up: async (db) => db.schema.alterTable('objects').dropColumn('folded_comment').execute(),
};

test('the oldest server is that of the last change that is no expansion', () => {
  const of = (...servers: Migration['servers'][]) =>
    oldestServerOf(servers.map((each) => ({ name: '', up: async () => {}, ...(each && { servers: each }) })));
  assert.equal(of(undefined, undefined), 2);
  assert.equal(of(undefined, 'expand', 'expand'), 1);
  assert.equal(of(undefined, 'expand', 'expand', 2), 2);
  assert.equal(of(undefined, 'expand', undefined), 3);
});

const directory = mkdtempSync(join(tmpdir(), 'tabularium-range-'));
process.once('exit', () => rmSync(directory, { recursive: true, force: true }));

let files = 0;
const databases = {
  SQLite: {
    skip: false as const,
    types: sqliteColumnTypes,
    place: async () => {
      const file = join(directory, `${++files}.db`);
      return { open: () => openSqliteStore({ file }), store: '' };
    },
  },
  PostgreSQL: {
    skip: missingPostgresql,
    types: postgresqlColumnTypes,
    place: async () => {
      const location = await newStoreDatabase();
      return { open: () => openPostgresqlStore({ location }), store: urlOfDatabase(location) };
    },
  },
};

for (const [name, { skip, types, place }] of Object.entries(databases))
  test(`a store on ${name} is opened by this release after an expansion, and not after the contraction`, {
    skip,
  }, async () => {
    const { open } = await place();
    const change = async (list: readonly Migration[]) => {
      const store = await open();
      try {
        await migrate(store.db, types, list);
        await requireVersion(store.db, list.length);
      } finally {
        await store.close();
      }
    };
    await change([...migrations, expansion]);
    const store = await open();
    await requireVersion(store.db, schemaVersion + 1);
    await store.close();
    await change([...migrations, expansion, contraction]);
    const range = `the store has version ${schemaVersion + 2}, which servers from version ${schemaVersion + 1} can use, and this release has version ${schemaVersion}`;
    await assert.rejects(open(), (error: Error) => error.name === 'StoreTooNew' && error.message.startsWith(range));
  });

async function requireVersion(db: Kysely<Schema>, version: number): Promise<void> {
  const { rows } = await sql<{ last: number }>`select max(version) as last from schema_versions`.execute(db);
  assert.equal(rows[0]?.last, version);
}

test('a server serves while a later release migrates its store, and after a restart', {
  skip: missingPostgresql,
}, async (t) => {
  const { open, store } = await databases.PostgreSQL.place();
  const dataDir = join(directory, 'server');
  let server = await start({ store, dataDir });
  t.after(() => server.close());
  (await server.put('/api/v2/databases/before')).is(201);
  const later = await open();
  t.after(() => later.close());
  let isMigrated = false;
  const statuses = (async () => {
    const seen: number[] = [];
    for (let n = 0; !isMigrated || n < 5; n++) {
      seen.push((await server.put(`/api/v2/databases/during_${n}`)).status);
      seen.push((await server.get('/api/v2/databases/before')).status);
    }
    return seen;
  })();
  await migrate(later.db, postgresqlColumnTypes, [...migrations, expansion]);
  isMigrated = true;
  assert.deepEqual([...new Set(await statuses)].sort(), [200, 201]);
  await server.close();
  server = await start({ store, dataDir });
  (await server.get('/api/v2/databases/during_0')).is(200);
  (await server.put('/api/v2/databases/after')).is(201);
  (await server.delete('/api/v2/databases/before')).is(200);
});

test('a server waits while another one migrates, and gives up at its deadline', {
  skip: missingPostgresql,
}, async () => {
  const location = await newDatabase();
  const migrating = await openPostgresqlStore({ location });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { promise: locked, resolve: lock } = Promise.withResolvers<void>();
  const holding = migrating.db.connection().execute(async (db) => {
    await sql`select pg_advisory_lock(7104233190)`.execute(db);
    lock();
    await released;
    await sql`select pg_advisory_unlock(7104233190)`.execute(db);
  });
  await locked;
  await assert.rejects(openPostgresqlStore({ location, limits: { migrationMs: 1_000 } }), {
    name: 'StoreUnusable',
    message: /^another server has been migrating the database for 1 s/,
  });
  const waiting = openPostgresqlStore({ location });
  release();
  await holding;
  await (await waiting).close();
  await migrating.close();
});
