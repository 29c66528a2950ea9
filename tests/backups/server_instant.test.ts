// A backup of the whole server under concurrent writers is of one instant: the restored server contains each writer's acknowledged
// work up to one point, across the catalogs of two engines and the metadata store; nothing that was acknowledged before is missing.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs } from '../deadline.ts';
import { start, type TestServer, uri } from '../server.ts';
import { type BackupServer, rowsIn, startBackingUp } from './backing_up.ts';
import { backUpServer, restoredTo } from './whole_server.ts';

const writers = 4;
const columns = [
  { name: 'writer', type: 'INT' },
  { name: 'n', type: 'INT' },
];

/** Counts the acknowledgements of a writer, in the order in which it wrote. */
interface WriterProgress {
  first: number;
  second: number;
  role: number;
}

describe('writers of two catalogs and of the store', () => {
  let from: BackupServer;
  let root: string;
  let server: TestServer;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-instant-'));
    from = await startBackingUp();
    server = from.server;
    await server.client.warehouses.create({ name: 'other', threads: 1 });
    for (const [catalog, warehouse] of [
      ['first', 'default'],
      ['second', 'other'],
    ] as const) {
      await server.client.catalogs.create({ name: catalog, warehouse });
      await server.client.catalogs(catalog).databases.create({ name: 'd' });
      await server.client.catalogs(catalog).databases('d').tables.create({ name: 't', columns }).done();
    }
  });
  after(async () => {
    await from.close();
    await rm(root, { recursive: true, force: true });
  });

  async function write(writer: number, acknowledged: WriterProgress, isOver: () => boolean): Promise<void> {
    const role = uri`/roles/${`writer ${writer}`}`;
    (await server.put(role)).is(201);
    for (let n = 1; !isOver(); n++) {
      for (const catalog of ['first', 'second'] as const) {
        await server.client
          .catalogs(catalog)
          .databases('d')
          .tables('t')
          .rows.create({ rows: [[writer, n]] });
        acknowledged[catalog] = n;
      }
      (await server.patch(role, { comment: String(n) })).is(200);
      acknowledged.role = n;
    }
  }

  it('find everything up to one instant in a restored server, the same in every place', {
    timeout: deadlineMs(120_000),
  }, async () => {
    const acknowledged = Array.from({ length: writers }, (): WriterProgress => ({ first: 0, second: 0, role: 0 }));
    let isOver = false;
    const writing = acknowledged.map((counts, writer) => write(writer, counts, () => isOver));
    while (acknowledged.some(({ role }) => role < 3)) await pause(10);
    const before = acknowledged.map((counts) => ({ ...counts }));
    const task = await backUpServer(server, 'while writing', { path: from.directory });
    const after = acknowledged.map((counts) => ({ ...counts }));
    while (acknowledged.some(({ role }, i) => role < (after[i]?.role ?? 0) + 2)) await pause(10);
    isOver = true;
    await Promise.all(writing);
    assert.equal(task.at('state'), 'succeeded', task.text);
    const restored = join(root, 'restored');
    await restoredTo(restored, [from.directory]);
    const copy = await start({ dataDir: restored });
    try {
      for (const [writer, counts] of before.entries()) {
        const sql = `SELECT count(*), coalesce(max(n), 0), count(DISTINCT n) FROM d.t WHERE writer = ${writer}`;
        const [first = []] = await rowsIn(copy, 'first', sql);
        const [second = []] = await rowsIn(copy, 'second', sql);
        const role = Number((await copy.get(uri`/roles/${`writer ${writer}`}`)).is(200).at('comment'));
        const details = JSON.stringify({ writer, before: counts, first, second, role, after: after[writer] });
        const [a, b] = [Number(first[1]), Number(second[1])];
        for (const [count, max, distinct] of [first, second])
          assert.ok(count === max && distinct === max, `no number is missing or twice: ${details}`);
        assert.ok(a >= b && b >= role && role >= a - 1, `of one point: ${details}`);
        assert.ok(
          a >= counts.first && b >= counts.second && role >= counts.role,
          `nothing of before is missing: ${details}`,
        );
        assert.ok(a <= (after[writer]?.first ?? 0) + 1, `nothing of after is in it: ${details}`);
      }
    } finally {
      await copy.close();
    }
  });
});
