// Targets whose content was not written by a server: manifests are read within limits, large ones beside the requests, and what a clean-up
// must not remove stays.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import {
  type BackedUpTable,
  backupFolder,
  formatVersion,
  type Manifest,
  manifestBytesMax,
  manifestPath,
  manifestText,
} from '../../src/backups/manifest.ts';
import {
  keysPath,
  loadServerManifest,
  type ServerManifest,
  serverFormatVersion,
  serverManifestPath,
  storePath,
} from '../../src/backups/server/server_manifest.ts';
import { verifyServerBackups } from '../../src/backups/server/server_verification.ts';
import { loadManifest } from '../../src/backups/targets/backup_target.ts';
import { DirectoryTarget } from '../../src/backups/targets/directory_target.ts';
import { sweepUnnamed, verifyBackups } from '../../src/backups/verification.ts';
import { failureOf } from '../conformance/engine/engine_world.ts';

let root: string;
let target: DirectoryTarget;
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-hostile-'));
  target = new DirectoryTarget(root);
});
after(() => rm(root, { recursive: true, force: true }));

function tableOf(name: string): BackedUpTable {
  const columns = [{ name: 'id', type: 'BIGINT', nullable: true }];
  const distribution = { by: [], buckets: 1 };
  const keys = { primaryKey: [], unique_key_constraints: [], orderBy: [], partitionBy: [] };
  return {
    id: randomUUID(),
    name,
    definition: { columns, ...keys, distribution, replicationNum: 1 },
    rows: 0,
    parts: [],
  };
}

function manifestWith(tables: readonly BackedUpTable[], comment?: string): Manifest {
  return {
    formatVersion,
    backupId: randomUUID(),
    takenAt: new Date().toISOString(),
    release: 'any',
    of: {
      category: 'catalogs',
      id: randomUUID(),
      name: 'c',
      catalog: 'c',
      ...(comment === undefined ? {} : { comment }),
    },
    databases: [{ id: randomUUID(), name: 'd', tables, views: [] }],
  };
}

/** @returns the id of the backup. */
async function written(text: string, backupId: string = randomUUID()): Promise<string> {
  await mkdir(join(root, backupFolder(backupId)), { recursive: true });
  await writeFile(join(root, manifestPath(backupId)), text);
  return backupId;
}

test('a large manifest is read as a small one is', async () => {
  for (const count of [1, 5000]) {
    const manifest = manifestWith(Array.from({ length: count }, (_, n) => tableOf(`t${n}`)));
    await written(manifestText(manifest), manifest.backupId);
    assert.deepEqual((await loadManifest(target, manifest.backupId)).manifest, manifest);
    const changed = await written(manifestText(manifest).replace('BIGINT', 'INT'));
    const { code, message } = await failureOf(loadManifest(target, changed));
    assert.deepEqual([code, /changed after/.test(message)], ['DATA_INVALID', true], message);
  }
});

/** Of a server whose store has so many pieces. */
function serverManifestWith(pieceCount: number): ServerManifest {
  const pieces = Array.from({ length: pieceCount }, (_, n) => ({ sha256: n.toString(16).padStart(64, '0'), bytes: 1 }));
  return {
    formatVersion: serverFormatVersion,
    backupId: randomUUID(),
    takenAt: new Date().toISOString(),
    release: 'any',
    storeVersion: 1,
    secretKey: 'plain',
    catalogs: [],
    catalogsLeftOut: [],
    files: [
      { path: storePath, bytes: pieceCount, pieces },
      { path: keysPath, bytes: 0, pieces: [] },
    ],
  };
}

test('large manifests, of servers too, are read by at most two threads at a time', async () => {
  let [threads, most] = [0, 0];
  const count = (message: unknown) => {
    most = Math.max(most, ++threads);
    (message as { worker: Worker }).worker.once('exit', () => threads--);
  };
  subscribe('worker_threads', count);
  try {
    const manifest = serverManifestWith(4000);
    const { backupId } = manifest;
    await target.writeSmall(serverManifestPath(backupId), manifestText(manifest));
    const reads = Array.from({ length: 4 }, () => loadServerManifest(target, backupId));
    const cancelled = new AbortController();
    const last = assert.rejects(loadServerManifest(target, backupId, cancelled.signal), { name: 'AbortError' });
    cancelled.abort();
    for (const read of await Promise.all(reads)) assert.deepEqual(read, manifest);
    await last;
    assert.deepEqual([most, threads], [2, 0]);
  } finally {
    unsubscribe('worker_threads', count);
  }
});

test('a manifest that could not be read again is not written', async () => {
  const spec = JSON.parse(`${'['.repeat(70)}${']'.repeat(70)}`) as unknown;
  const error = await failureOf(Promise.try(() => manifestText({ spec })));
  assert.deepEqual([error.code, /64 levels/.test(error.message)], ['INVALID_PARAMETER', true], error.message);
});

test('a manifest that is nested deeply is refused, however large', async () => {
  for (const depth of [65, 20_000, 1_000_000]) {
    const id = await written(`{"digest":"any","manifest":{"formatVersion":${'['.repeat(depth)}${']'.repeat(depth)}}}`);
    const { code, message } = await failureOf(loadManifest(target, id));
    assert.equal(code, 'DATA_INVALID');
    assert.match(message, /64 levels/);
  }
});

test('a manifest that is too large is not read, and the others can be verified', async (t) => {
  const place = await mkdtemp(join(tmpdir(), 'tabularium-large-'));
  t.after(() => rm(place, { recursive: true, force: true }));
  const hostile = new DirectoryTarget(place);
  const id = randomUUID();
  for (const path of [manifestPath(id), serverManifestPath(id)]) {
    await hostile.writeSmall(path, '{}');
    await truncate(join(place, path), manifestBytesMax + 1);
  }
  for (const load of [loadManifest, loadServerManifest]) {
    const { code, message } = await failureOf(load(hostile, id));
    assert.deepEqual([code, /larger than 64 MiB/.test(message)], ['DATA_INVALID', true], message);
  }
  const { faults, unnamed } = await verifyBackups(hostile);
  assert.deepEqual([faults.length, unnamed], [1, undefined]);
  assert.equal((await verifyServerBackups(hostile)).faults.length, 1);
  assert.equal(await sweepUnnamed(hostile, Date.now()), undefined);
});

test('comments and properties have the limits of requests', async () => {
  const manifest = manifestWith([], 'x'.repeat(1_000_000));
  await written(manifestText(manifest), manifest.backupId);
  assert.equal((await failureOf(loadManifest(target, manifest.backupId))).code, 'DATA_INVALID');
});

test('files outside the folders of backups are not those of a part', async () => {
  const sha256 = 'a'.repeat(64);
  for (const path of [
    `/etc/${sha256}.parquet`,
    `backups/../${sha256}.parquet`,
    `backups/${randomUUID()}/../x.parquet`,
  ]) {
    const part = { part: 0, rows: 0, fingerprint: '', sha256, bytes: 1, path };
    const manifest = manifestWith([{ ...tableOf('t'), parts: [part] }]);
    await written(manifestText(manifest), manifest.backupId);
    assert.equal((await failureOf(loadManifest(target, manifest.backupId))).code, 'DATA_INVALID', path);
  }
});

test('a manifest that appears while an unfinished backup is removed stays', async () => {
  const id = await written('{}');
  await writeFile(join(root, backupFolder(id), 'left.part'), '');
  await target.clear(backupFolder(id), manifestPath(id));
  const files = await Array.fromAsync(target.list(backupFolder(id)));
  assert.deepEqual(
    files.map(({ path }) => path),
    [manifestPath(id)],
  );
  await rm(join(root, manifestPath(id)));
  await target.clear(backupFolder(id), manifestPath(id));
  assert.deepEqual(
    await Array.fromAsync(target.list('backups/')).then((all) => all.filter(({ path }) => path.includes(id))),
    [],
  );
});
