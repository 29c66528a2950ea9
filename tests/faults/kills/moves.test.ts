// The server is killed while it moves a catalog, at moments that a printed seed gives: the move goes on when it starts again, and no row is
// lost or doubled.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { endOfTask, startProcess } from '../../server.ts';

const seed = seedFrom('MOVES_SEED');
const kills = 4;
const rows = 200_000;
/** A move of these rows takes about so long. */
const moveMs = 1_500;

test('a move continues after kills of the server', { timeout: deadlineMs(120_000) }, async (t) => {
  t.diagnostic(`MOVES_SEED=${seed}`);
  const random = new Random(seed);
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-moves-'));
  let server = await startProcess([], directory);
  try {
    (await server.post('/api/v2/warehouses', { name: 'second' })).is(201);
    (await server.put('/api/v2/catalogs/lake')).is(201);
    (await server.post('/api/v2/catalogs/lake/databases', { name: 'd' })).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'text', type: 'STRING' },
    ];
    for (const name of ['a', 'b', 'c'])
      (await server.post('/api/v2/catalogs/lake/databases/d/tables', { name, columns })).is(201);
    for (const name of ['a', 'b', 'c'])
      (
        await server.post('/api/v2/catalogs/lake/query', {
          sql: `INSERT INTO d.${name} SELECT range, 'n' || range FROM range(${rows})`,
        })
      ).is(200);
    for (let kill = 0; kill < kills; kill++) {
      const warehouse = kill % 2 === 0 ? 'second' : 'default';
      const uri = (await server.post('/api/v2/catalogs/lake/move', { warehouse })).is(202).at<string>('uri');
      await pause(random.below(moveMs));
      server.child.kill('SIGKILL');
      await server.exited;
      server = await startProcess([], directory);
      const task = await endOfTask(server, uri);
      task.is(200, '0', { state: 'succeeded' });
      (await server.get('/api/v2/catalogs/lake')).is(200, '0', { warehouse, state: 'ready' });
      for (const name of ['a', 'b', 'c']) {
        const sql = `SELECT count(*), count(DISTINCT id), sum(id) FROM d.${name}`;
        const counted = (await server.post('/api/v2/catalogs/lake/query', { sql })).is(200).at('rows');
        assert.deepEqual(counted, [[rows, rows, (rows * (rows - 1)) / 2]]);
      }
    }
  } finally {
    server.child.kill('SIGKILL');
    await server.exited;
    await rm(directory, { recursive: true, force: true });
  }
});
