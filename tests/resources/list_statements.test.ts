// A page of a list costs as many statements of the store as it has kinds of rows, however many records it has.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Settings } from '../../src/settings/read_settings.ts';
import { missingPostgresql, newDatabase, urlOfDatabase } from '../postgresql.ts';
import { start } from '../server.ts';

const recordCount = 40;
/** Those of the request and of what the server does meanwhile. */
const statementsMax = 25;

async function requireFewStatements(settings: () => Promise<Partial<Settings>>): Promise<void> {
  let statements: string[] = [];
  const injectStore = ({ sql }: { readonly sql: string }) => void statements.push(sql);
  const server = await start(await settings(), { injectStore });
  const names = Array.from({ length: recordCount }, (_, n) => `o${n}`);
  try {
    (await server.post('/api/v2/databases', { name: 'd' })).is(201);
    (await server.post('/api/v2/users', { name: 'u' })).is(201);
    for (const name of names) {
      (await server.post('/api/v2/databases', { name })).is(201);
      const columns = [{ name: 'a', type: 'INT' }];
      (await server.post('/api/v2/databases/d/tables', { name, columns })).is(201);
      (await server.post('/api/v2/databases/d/views', { name: `v_${name}`, sql: `SELECT a FROM d.${name}` })).is(201);
      const on = `/api/v2/catalogs/default/databases/${name}`;
      (await server.post('/api/v2/users/u/grants', { privilege: 'read', on })).is(201);
    }
    const lists = { '/databases/d/tables': 'tables', '/databases/d/views': 'views', '/databases': 'databases' };
    for (const [path, field] of Object.entries({ ...lists, '/users/u/grants': 'grants' })) {
      statements = [];
      const reply = await server.get(`/api/v2${path}?pageSize=100`);
      const counted = [...statements];
      assert.ok(reply.is(200).at<unknown[]>(field).length >= recordCount, reply.text);
      assert.ok(counted.length <= statementsMax, `${path}: ${counted.length} statements:\n${counted.join('\n')}`);
    }
  } finally {
    await server.close();
  }
}

describe('the statements of a list', () => {
  test('on SQLite', () => requireFewStatements(async () => ({})));
  test('on PostgreSQL', { skip: missingPostgresql }, () =>
    requireFewStatements(async () => ({ store: urlOfDatabase(await newDatabase()) })),
  );
});
