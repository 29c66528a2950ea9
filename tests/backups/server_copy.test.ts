// A copy of a server to a failing target, and the record of a backup that is deleted while its task ends.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, open, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { ServerBackups } from '../../src/backups/server/server_backups.ts';
import { copyServer } from '../../src/backups/server/server_copy.ts';
import { KeySealer } from '../../src/backups/server/server_keys.ts';
import type { ServerSnapshot } from '../../src/backups/server/server_snapshot.ts';
import { DirectoryTarget } from '../../src/backups/targets/directory_target.ts';
import { deadlineMs } from '../deadline.ts';

const options = { timeout: deadlineMs(20_000) };

/** One write fails once all concurrent ones have begun; those end only when they are aborted. */
class FailingTarget extends DirectoryTarget {
  readonly fault = new Error('the place is gone');
  readonly #othersMax: number;
  readonly #othersBegan = Promise.withResolvers<void>();
  #begun = 0;

  constructor(root: string, othersMax: number) {
    super(root);
    this.#othersMax = othersMax;
  }

  override async write(_path: string, _from: string, signal?: AbortSignal): Promise<void> {
    if (this.#begun++ === 0) {
      await this.#othersBegan.promise;
      throw this.fault;
    }
    if (this.#begun > this.#othersMax) this.#othersBegan.resolve();
    await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }));
  }
}

describe('a copy of a server', () => {
  let root: string;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-server-copy-'));
    await mkdir(join(root, 'catalogs'));
  });
  after(() => rm(root, { recursive: true, force: true }));

  async function snapshotOf(ids: readonly string[]): Promise<ServerSnapshot> {
    const path = join(root, 'metadata.sqlite');
    const store = new DatabaseSync(path);
    store.exec('create table objects (id text, name text, state text, category text, parent_id text)');
    store.exec('create table catalog_files (catalog_id text)');
    const insert = store.prepare(`insert into objects values (?, ?, 'ready', 'catalogs', null)`);
    for (const id of ids) {
      insert.run(id, id);
      store.prepare('insert into catalog_files values (?)').run(id);
      await writeFile(join(root, 'catalogs', id), id);
    }
    store.close();
    const file = await open(path);
    return {
      takenAt: '2026-01-01T00:00:00.000Z',
      heldMs: 0,
      store: { descriptor: file.fd, bytes: (await stat(path)).size, release: () => {} },
      catalogs: ids.map((id) => ({ id, files: [{ path: `catalogs/${id}`, bytes: id.length }] })),
      damaged: new Map(),
      requireUnchanged: async () => {},
      release: () => file.close(),
    } as unknown as ServerSnapshot;
  }

  it('stops all transfers when one fails', options, async () => {
    const snapshot = await snapshotOf(['a', 'bb', 'ccc', 'dddd', 'eeeee']);
    const target = new FailingTarget(root, 3);
    const stagingDirectory = join(root, 'staging');
    const server = {
      dataDirectory: root,
      stagingDirectory,
      release: 'any',
      isKeyOutside: true,
      sealer: new KeySealer(''),
      pieceBytesMax: 1 << 20,
    };
    const run = { target, backupId: 'any', signal: new AbortController().signal, progress: () => {} };
    await assert.rejects(
      copyServer(server, async () => snapshot, run),
      (error) => error === target.fault,
    );
    assert.deepEqual(await readdir(stagingDirectory), []);
  });
});

it('a backup that is being deleted is not recorded as failed by its task', options, async () => {
  const states = ['creating', 'deleting'];
  let updates = 0;
  const catalog = {
    byId: async () => ({ spec: { status: states.shift() } }),
    retrying: (work: () => Promise<unknown>) => work(),
    update: async () => {
      updates++;
    },
  };
  const notes = { get: async () => undefined };
  const backups = new ServerBackups({ catalog, notes } as unknown as ConstructorParameters<typeof ServerBackups>[0]);
  await backups.settle({
    taskId: 'any',
    state: 'failed',
    error: null,
    request: { objectId: 'any', name: 'any', to: { kind: 'directory', path: '/' } },
    principal: { id: 'any', name: 'any' },
  });
  assert.deepEqual([states, updates], [[], 0]);
});
