// A server is backed up while inserts exceed the maximum size of the engine's log: the log is retained until the copy has ended, so
// that the first attempt succeeds, and no write fails. The size is exceeded during every PUT of the backup.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { deadlineMs, eventually } from '../deadline.ts';
import { startObjectStore } from '../outbound/object_store_server.ts';
import { start } from '../server.ts';
import { rowsIn } from './backing_up.ts';
import { holdPuts } from './held_puts.ts';
import { restoredTo } from './whole_server.ts';

const passphrase = 'a long passphrase';
/** About 5 MB in the log; the engine writes a log of 16 MiB into the file. */
const rows = 5000;
const body = { rows: Array.from({ length: rows }, (_, i) => [`${'x'.repeat(1000)}${i}`]) };
const insertionsPerPut = 5;

it('a backup under permanent inserts succeeds at the first attempt', { timeout: deadlineMs(120_000) }, async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'tabularium-inserts-'));
  const objects = await startObjectStore();
  let inserted = 0;
  let isOver = false;
  const proxy = await holdPuts(objects.endpoint, async () => {
    const until = inserted + insertionsPerPut;
    while (inserted < until && !isOver) await new Promise((resolve) => setTimeout(resolve, 10));
  });
  const server = await start({
    dataDir: join(root, 'data'),
    exportHosts: '127.0.0.1',
    backupPassphrase: passphrase,
  });
  t.after(async () => {
    isOver = true;
    await server.close();
    proxy.close();
    await objects.close();
    await rm(root, { recursive: true, force: true });
  });
  await server.client.databases.create({ name: 'd' });
  await server.client
    .databases('d')
    .tables.create({ name: 'texts', columns: [{ name: 's', type: 'VARCHAR' }] })
    .done();
  const insert = async () => (await server.post('/api/v2/databases/d/tables/texts/rows', body)).is(201);
  const writer = (async () => {
    while (!isOver) {
      await insert();
      inserted++;
    }
  })();
  await eventually('rows are inserted', async () => inserted > 0);
  const { bucket, accessKeyId, secretAccessKey } = objects;
  const to = { s3: { endpoint: proxy.endpoint, bucket, accessKeyId, secretAccessKey } };
  const before = inserted;
  const accepted = (await server.post('/api/v2/server_backups', { name: 'busy', to })).is(202);
  const task = await eventually('the backup ends, or begins again', async () => {
    const record = (await server.get(String(accepted.at('uri')))).is(200);
    return record.at('endedAt') !== null || record.at<number>('attempt') > 1 ? record : undefined;
  });
  isOver = true;
  await writer;
  const after = inserted;
  assert.equal(task.at('state'), 'succeeded', task.text);
  assert.equal(task.at('attempt'), 1);
  // Afterwards the engine empties its log again, and a table can be optimized.
  await insert();
  const optimized = await server.ended(await server.post('/api/v2/databases/d/tables/texts/optimize', {}));
  optimized.is(200, '0', { state: 'succeeded' });
  const restored = join(root, 'restored');
  await restoredTo(restored, [`s3://${bucket}/`, `--store-endpoint=${objects.endpoint}`], {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    TABULARIUM_BACKUP_PASSPHRASE: passphrase,
  });
  const copy = await start({ dataDir: restored });
  const [[count] = []] = await rowsIn(copy, 'default', 'SELECT count(*) FROM d.texts');
  await copy.close();
  assert.ok(Number(count) % rows === 0 && Number(count) >= before * rows && Number(count) <= after * rows, `${count}`);
});
