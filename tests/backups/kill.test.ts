// The server is killed with SIGKILL during a backup or a restore: the next server continues the task and completes it, the result
// is intact, and nothing of the first attempt is left. BACKUP_SEED replays a run.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { DirectoryTarget } from '../../src/backups/targets/directory_target.ts';
import { verifyBackups } from '../../src/backups/verification.ts';
import { deadlineMs } from '../deadline.ts';
import { Random, seedFrom } from '../random.ts';
import { type Reply, type ServerProcess, startProcess, uri } from '../server.ts';
import { backUpSucceeding, filesIn, rowsIn } from './backing_up.ts';

const rounds = 4;
const rowCount = 1_500_000;
/** The approximate duration of a backup or a restore. */
const killWithinMs = 500;

describe('after a kill, the server', () => {
  const random = new Random(seedFrom('BACKUP_SEED'));
  let root: string;
  let server: ServerProcess;
  const dataDirectory = () => join(root, 'data');
  const startAgain = async () => {
    server = await startProcess([`--backup-directories=${join(root, 'backups')}`], dataDirectory());
  };
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-killed-'));
    for (const name of ['data', 'backups']) await mkdir(join(root, name));
    await startAgain();
    await server.client.catalogs.create({ name: 'c' });
    await server.client.catalogs('c').databases.create({ name: 'd' });
    for (const table of ['a', 'b', 'c']) {
      const columns = [
        { name: 'id', type: 'BIGINT' },
        { name: 'n', type: 'BIGINT' },
      ];
      await server.client.catalogs('c').databases('d').tables.create({ name: table, columns }).done();
      const sql = `INSERT INTO d.${table} SELECT range, hash(range, '${table}') >> 1 FROM range(${rowCount})`;
      (await server.post('/api/v2/catalogs/c/query', { sql })).is(200);
    }
  });
  after(async () => {
    await server.close();
    await rm(root, { recursive: true, force: true });
  });

  const targetIn = (name: string) => ({ path: join(root, 'backups', name) }) as const;
  const sums = (catalog: string) =>
    rowsIn(server, catalog, "SELECT 'a', count(*), sum(n) FROM d.a UNION ALL SELECT 'c', count(*), sum(n) FROM d.c");

  /** Kills the server at some moment after the task was accepted. Returns the record of the task, completed by the next server. */
  async function endedByAnother(accepted: Reply): Promise<Reply> {
    accepted.is(202);
    await pause(random.below(killWithinMs));
    server.child.kill('SIGKILL');
    await server.exited;
    await startAgain();
    return server.ended(accepted);
  }

  it('resumes a backup', { timeout: deadlineMs(120_000) }, async (t) => {
    t.diagnostic(`BACKUP_SEED=${random.seed}`);
    for (let round = 0; round < rounds; round++) {
      const to = targetIn(`of ${round}`);
      const task = await endedByAnother(await server.post('/api/v2/catalogs/c/backup', { to }));
      task.is(200, '0', { state: 'succeeded', result: { tables: 3, rows: 3 * rowCount } });
      const backupId = task.at<string>('taskId');
      const { backups, faults, unnamed } = await verifyBackups(new DirectoryTarget(to.path));
      assert.deepEqual([faults, unnamed], [[], { files: 0, bytes: 0 }], `attempt ${task.at('attempt')}`);
      assert.deepEqual(
        backups.map(({ manifest }) => manifest.backupId),
        [backupId],
      );
      assert.ok((await filesIn(to.path)).every((file) => file.startsWith(`backups/${backupId}/`)));
      assert.deepEqual(await readdir(join(dataDirectory(), 'spool', 'backups')).catch(() => []), []);
    }
  });

  it('resumes a restore', { timeout: deadlineMs(120_000) }, async () => {
    const from = targetIn('of all');
    await backUpSucceeding(server, '/api/v2/catalogs/c', from);
    const expected = await sums('c');
    for (let round = 0; round < rounds; round++) {
      const body = { name: `r${round}`, from };
      const task = await endedByAnother(await server.post('/api/v2/catalogs/restore', body));
      task.is(200, '0', { state: 'succeeded', result: { name: body.name } });
      assert.deepEqual(await sums(body.name), expected, `attempt ${task.at('attempt')}`);
      const tables = (await server.get(uri`/catalogs/${body.name}/databases/d/tables`)).at<{ name: string }[]>(
        'tables',
      );
      assert.deepEqual(
        tables.map(({ name }) => name),
        ['a', 'b', 'c'],
      );
      (await server.delete(uri`/catalogs/${body.name}?cascade=true&purge=true`)).is(200, '0', { deleted: true });
    }
  });
});
