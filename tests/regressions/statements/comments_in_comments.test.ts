// The engine's time for nested comments grows with the square of their depth: 40 KB of them took it 5 s, during which no other
// statement of the process was answered and interrupts were ignored.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
  await server.client.databases.create({ name: 'd' });
});
after(() => server.close());

const nested = (depth: number) => `SELECT 1 ${'/*'.repeat(depth)} ${'*/'.repeat(depth)}`;

test('nested comments are accepted up to a depth that nobody exceeds', async () => {
  assert.deepEqual(await server.rows('d', nested(100)), [[1]]);
  (await server.query('d', nested(101))).is(400, 'SQL_INVALID');
  (await server.query('d', nested(200_000))).is(400, 'SQL_INVALID');
  (await server.query('d', `SELECT 1 ${'/*'.repeat(100_000)}`)).is(400, 'SQL_INVALID');
});
