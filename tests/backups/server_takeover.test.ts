// The engine dies while the server is backed up, and the process that takes over writes its log into the file that is being copied:
// the backup is retried, a bounded number of times, and is of one instant with everything that was acknowledged before it.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { deadlineMs } from '../deadline.ts';
import { startObjectStore } from '../outbound/object_store_server.ts';
import { start } from '../server.ts';
import { rowsIn } from './backing_up.ts';
import { holdPuts } from './held_puts.ts';
import { restoredTo } from './whole_server.ts';

const passphrase = 'a long passphrase';
const writes = 2;
/** Of the task (jobs/back_up_server.ts). */
const attemptsMax = 10;

it('succeeds although the engine is killed while its files are copied', { timeout: deadlineMs(120_000) }, async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'tabularium-takeover-'));
  const objects = await startObjectStore();
  const reached = Promise.withResolvers<void>();
  const opening = Promise.withResolvers<void>();
  const gate = await holdPuts(objects.endpoint, () => {
    reached.resolve();
    return opening.promise;
  });
  let pid = 0;
  const settings = { dataDir: join(root, 'data'), logLevel: 'silent', backupPassphrase: passphrase } as const;
  const server = await start(settings, {
    wrapEngine: (engine) => ({
      ...engine,
      open: (options) =>
        engine.open({
          ...options,
          observe: (event) => {
            options.observe(event);
            if (event.kind === 'engineStarted') pid = event.pid;
          },
        }),
    }),
  });
  t.after(async () => {
    opening.resolve();
    await server.close();
    gate.close();
    await objects.close();
    await rm(root, { recursive: true, force: true });
  });
  await server.client.databases.create({ name: 'd' });
  const columns = [{ name: 'n', type: 'BIGINT' }];
  await server.client.databases('d').tables.create({ name: 't', columns }).done();
  const text = [{ name: 's', type: 'VARCHAR' }];
  await server.client.databases('d').tables.create({ name: 'texts', columns: text }).done();
  (await server.query('d', 'INSERT INTO t SELECT hash(range) >> 1 FROM range(300000)')).is(200);
  const { bucket, accessKeyId, secretAccessKey } = objects;
  const to = { s3: { endpoint: gate.endpoint, bucket, accessKeyId, secretAccessKey } };
  const accepted = await server.post('/api/v2/server_backups', { name: 'held', to });
  accepted.is(202);
  await reached.promise;
  const before = pid;
  process.kill(before, 'SIGKILL');
  // More than the log may contain: it is written into the file that is being copied.
  for (let i = 0; i < writes; i++) {
    const sql = "INSERT INTO texts SELECT repeat('x', 1000) || range FROM range(30000)";
    let answer = await server.query('d', sql);
    while (answer.status === 503 && answer.at('outcome') === 'notApplied') answer = await server.query('d', sql);
    answer.is(200);
  }
  assert.notEqual(pid, before);
  opening.resolve();
  const task = await server.ended(accepted);
  task.is(200, '0', { state: 'succeeded' });
  const attempt = task.at<number>('attempt');
  assert.ok(attempt >= 1 && attempt <= attemptsMax, `attempt ${attempt}`);
  const restored = join(root, 'restored');
  await restoredTo(restored, [`s3://${bucket}/`, `--store-endpoint=${objects.endpoint}`], {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    TABULARIUM_BACKUP_PASSPHRASE: passphrase,
  });
  const copy = await start({ dataDir: restored });
  const [counts] = await rowsIn(copy, 'default', 'SELECT (SELECT count(*) FROM d.t), (SELECT count(*) FROM d.texts)');
  await copy.close();
  // The instant of the first attempt is before the death; that of a later one is after all writes.
  assert.deepEqual(counts, [300_000, attempt === 1 ? 0 : writes * 30_000]);
  assert.deepEqual(await rowsIn(server, 'default', 'SELECT count(*) FROM d.texts'), [[writes * 30_000]]);
});
