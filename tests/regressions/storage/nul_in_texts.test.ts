// A NUL in a request, which PostgreSQL has in no text: what is searched by it is not found, comments with it are kept and found, and tasks
// whose requests contain it are no obstacle to a search.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../../postgresql.ts';
import { start } from '../../server.ts';

const notes = fileURLToPath(new URL('../../data/notes.csv', import.meta.url));
const text = 'A\u0000b';
const stores = {
  SQLite: { skip: false, settings: async () => ({}) },
  PostgreSQL: { skip: missingPostgresql, settings: async () => ({ store: urlOfDatabase(await newStoreDatabase()) }) },
} as const;

for (const [name, { skip, settings }] of Object.entries(stores))
  describe(`a NUL in texts, on ${name}`, { skip }, async () => {
    test('in names, ids and patterns', async () => {
      const server = await start(await settings());
      try {
        for (const path of ['catalogs', 'roles', 'tasks', 'queries', 'audit_events'])
          (await server.get(`/api/v2/${path}/a%00b`)).is(404, 'OBJECT_NOT_FOUND');
        (await server.delete('/api/v2/catalogs/a%00b')).is(200, '0', { deleted: false });
        (await server.delete('/api/v2/tasks/a%00b')).is(200, '0', { deleted: false });
        (await server.post('/api/v2/tasks/a%00b/cancel')).is(404, 'OBJECT_NOT_FOUND');
        (await server.post('/api/v2/catalogs/undrop', { name: text })).is(404, 'OBJECT_NOT_FOUND');
        assert.deepEqual(
          (await server.post('/api/v2/catalogs/search', { namePattern: text })).is(200).at('catalogs'),
          [],
        );
        assert.deepEqual((await server.post('/api/v2/tasks/search', { type: text })).is(200).at('tasks'), []);
        const found = await server.post('/api/v2/audit_events/search', { principal: text });
        assert.deepEqual(found.is(200).at('auditEvents'), []);
      } finally {
        await server.close();
      }
    });

    test('in comments', async () => {
      const server = await start(await settings());
      try {
        const comment = `before ${text} after`;
        (await server.put('/api/v2/databases/d', { comment, properties: { [text]: text } })).is(201);
        const shown = (await server.get('/api/v2/databases/d')).is(200);
        assert.deepEqual([shown.at('comment'), shown.at('properties')], [comment, { [text]: text }]);
        const search = (dropped: boolean) =>
          server.post('/api/v2/databases/search', { comment: 'a\u0000B', ...(dropped ? { dropped } : {}) });
        assert.equal((await search(false)).is(200).at('databases', 0, 'name'), 'd');
        (await server.delete('/api/v2/databases/d')).is(200);
        assert.equal((await search(true)).is(200).at('databases', 0, 'name'), 'd');
      } finally {
        await server.close();
      }
    });

    test('in requests of tasks that are searched by label', async () => {
      const server = await start(await settings());
      try {
        (await server.put('/api/v2/databases/d')).is(201);
        const sql = 'SELECT $1::TEXT';
        const task = await server.post('/api/v2/databases/d/query', { sql, parameters: [text], waitSeconds: 0 });
        (await server.ended(task)).is(200, '0', { state: 'succeeded' });
        assert.deepEqual((await server.post('/api/v2/tasks/search', { label: 'other' })).is(200).at('tasks'), []);
        // This one has no NUL, but a backslash.
        const label = '\\u0000';
        const load = await server.post('/api/v2/databases/d/load', { table: 't', source: { path: notes }, label });
        const taskId = (await server.ended(load)).is(200, '0', { state: 'succeeded' }).at('taskId');
        const found = await server.post('/api/v2/tasks/search', { label });
        assert.equal(found.is(200).at('tasks', 0, 'taskId'), taskId);
      } finally {
        await server.close();
      }
    });
  });
