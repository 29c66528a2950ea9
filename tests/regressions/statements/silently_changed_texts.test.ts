// Texts that were changed silently: SQL was truncated at a NUL, so that another statement ran than the one that was sent; half a
// surrogate pair became U+FFFD, so that a name was created that nobody had requested.
import { test } from 'node:test';
import { start } from '../../server.ts';

test('SQL with a NUL, and half a surrogate pair anywhere, are refused', async (t) => {
  const server = await start();
  t.after(() => server.close());
  await server.client.databases.create({ name: 'd' });
  const tables = '/api/v2/databases/d/tables';
  (await server.post(tables, { sql: 'CREATE TABLE t (i INT)\u0000 and more' })).is(400, 'INVALID_PARAMETER');
  (await server.query('d', 'SELECT 1\u0000 + 1')).is(400, 'INVALID_PARAMETER');
  const column = { name: 'i', type: 'INT', defaultValue: '1\u0000 + 1' };
  (await server.post(tables, { name: 't', columns: [column] })).is(400, 'INVALID_PARAMETER');
  for (const text of ['\ud800', 'a\udfffb', '😀\ud83d']) {
    const violations = [{ rule: 'unicode' }];
    (await server.post('/api/v2/databases', { name: text })).is(400, 'INVALID_PARAMETER', { violations });
    (await server.query('d', 'SELECT $1::TEXT', { parameters: [text] })).is(400, 'INVALID_PARAMETER', { violations });
    (await server.query('d', `SELECT '${text}'`)).is(400, 'INVALID_PARAMETER', { violations });
  }
  await server.client.databases.create({ name: '😀', comment: '\\ud800 is no escape here' });
});
