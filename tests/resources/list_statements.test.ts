// A page of a list costs as many statements of the store as it has kinds of rows, however many records it has.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Settings } from '../../src/settings/read_settings.ts';
import { missingPostgresql, newDatabase, urlOfDatabase } from '../postgresql.ts';
import { type Reply, start } from '../server.ts';

const recordCount = 40;
/** Fewer than one for each record, with those of what the server does meanwhile. */
const statementsMax = recordCount - 1;

async function requireFewStatements(store: Partial<Settings>): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'tabularium-lists-'));
  try {
    await createRecords({ ...store, dataDir });
    // Another process of the server has cached nothing, and saves no statistics of new tables.
    await requireFewStatementsIn({ ...store, dataDir });
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function createRecords(settings: Partial<Settings>): Promise<void> {
  const server = await start(settings);
  try {
    (await server.post('/api/v2/databases', { name: 'd' })).is(201);
    (await server.post('/api/v2/users', { name: 'u' })).is(201);
    for (let n = 0; n < recordCount; n++) {
      const name = `o${n}`;
      (await server.post('/api/v2/databases', { name })).is(201);
      const columns = [{ name: 'a', type: 'INT' }];
      (await server.post('/api/v2/databases/d/tables', { name, columns })).is(201);
      (await server.post('/api/v2/databases/d/views', { name: `v_${name}`, sql: `SELECT a FROM d.${name}` })).is(201);
      const on = `/api/v2/catalogs/default/databases/${name}`;
      (await server.post('/api/v2/users/u/grants', { privilege: 'read', on })).is(201);
      const schedule = { name, query: { sql: 'SELECT 1' }, cron: '0 3 * * *' };
      (await server.post('/api/v2/schedules', schedule)).is(201);
      (await server.post('/api/v2/warehouses', { name })).is(201);
    }
    (await server.post('/api/v2/catalogs', { name: 'c' })).is(201);
    for (let n = 0; n < recordCount; n++) {
      const name = `o${n}`;
      (await server.post('/api/v2/catalogs/c/databases', { name })).is(201);
      (await server.delete(`/api/v2/catalogs/c/databases/${name}`)).is(200);
    }
  } finally {
    await server.close();
  }
}

async function requireFewStatementsIn(settings: Partial<Settings>): Promise<void> {
  let statements: string[] = [];
  const server = await start(settings, { injectStore: ({ sql }) => void statements.push(sql) });
  try {
    const requireFew = async (request: () => Promise<Reply>, field: string) => {
      statements = [];
      const reply = await request();
      const counted = [...statements];
      assert.ok(reply.is(200).at<unknown[]>(field).length >= recordCount, reply.text);
      assert.ok(counted.length <= statementsMax, `${field}: ${counted.length} statements:\n${counted.join('\n')}`);
    };
    const lists = { '/databases/d/tables': 'tables', '/databases/d/views': 'views', '/databases': 'databases' };
    const others = { '/users/u/grants': 'grants', '/schedules': 'schedules', '/warehouses': 'warehouses' };
    // Reads the descriptions of the warehouses, which are cached.
    (await server.get('/api/v2/warehouses?pageSize=100')).is(200);
    for (const [path, field] of Object.entries({ ...lists, ...others }))
      await requireFew(() => server.get(`/api/v2${path}?pageSize=100`), field);
    const dropped = { dropped: true, pageSize: 100 };
    await requireFew(() => server.post('/api/v2/catalogs/c/databases/search', dropped), 'databases');
  } finally {
    await server.close();
  }
}

describe('the statements of a list', () => {
  test('on SQLite', () => requireFewStatements({}));
  test('on PostgreSQL', { skip: missingPostgresql }, async () =>
    requireFewStatements({ store: urlOfDatabase(await newDatabase()) }),
  );
});
