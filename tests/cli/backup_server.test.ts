// The command `backup server` against real servers: its output, the credentials that it sends, and its exit code if no backup is
// made.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { newToken } from '../access/people.ts';
import { type BackupServer, filesIn, startBackingUp } from '../backups/backing_up.ts';
import { command, restoredTo } from '../backups/whole_server.ts';
import { deadlineMs } from '../deadline.ts';
import { flipBytes } from '../faults/damage/damaged_file.ts';
import { startObjectStore } from '../outbound/object_store_server.ts';
import { start, startProcess, uri } from '../server.ts';

const options = { timeout: deadlineMs(120_000) };
const backupServer = (words: readonly string[], environment: Readonly<Record<string, string>> = {}) =>
  command(['backup', 'server', ...words], environment);

describe('a running server', () => {
  let from: BackupServer;
  let root: string;
  let dataDir: string;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-backup-server-'));
    dataDir = join(root, 'data');
    from = await startBackingUp({ dataDir });
  });
  after(async () => {
    await from.close();
    await rm(root, { recursive: true, force: true });
  });
  const serverFlags = () => [`--url=${from.server.url}`, `--data-dir=${dataDir}`];

  it('is backed up with the token of its data directory', options, async () => {
    const target = join(from.directory, 'all');
    const { status, out, errors } = await backupServer([target, ...serverFlags()]);
    assert.equal(status, 0, out + errors);
    const [, backupId = '', output] =
      /^backed up (\S+) of \S+Z to (.*): 1 catalog, \d+ files, \d+ bytes$/m.exec(out) ?? [];
    assert.equal(output, target);
    assert.match(out, /^Its keys are not encrypted, because the server runs without TABULARIUM_BACKUP_PASSPHRASE\.$/m);
    assert.match(errors, new RegExp(`^task /api/v2/tasks/${backupId}$`, 'm'));
    assert.match(errors, /^succeeded 100 %/m);
    (await from.server.get(uri`/server_backups/${backupId}`)).is(200, '0', { state: 'ready', place: { path: target } });
    const verified = await command(['backup', 'verify', target, `--backup-id=${backupId}`]);
    assert.equal(verified.status, 0, verified.out + verified.errors);
  });

  it('is complete in its backup even if its catalog was never used', options, async () => {
    const target = join(from.directory, 'unused');
    const { out } = await backupServer([target, ...serverFlags()]);
    assert.doesNotMatch(out, /NOT in the backup/);
    const restored = join(root, 'restored');
    await restoredTo(restored, [target]);
    const copy = await start({ dataDir: restored });
    (await copy.get('/api/v2/catalogs/default')).is(200, '0', { state: 'ready' });
    await copy.client.databases.create({ name: 'd' });
    await copy.close();
  });

  it('is backed up without a damaged catalog: exit code 6, and the record names it', options, async () => {
    const damaged = join(root, 'damaged');
    const first = await start({ dataDir: damaged });
    await first.client.databases.create({ name: 'd' });
    await first.close();
    const catalogs = join(damaged, 'catalogs');
    for (const name of readdirSync(catalogs)) flipBytes(join(catalogs, name), 20, 4);
    const server = await start({ dataDir: damaged, backupDirectories: from.directory, logLevel: 'silent' });
    try {
      const target = join(from.directory, 'incomplete');
      const { status, out, errors } = await backupServer([target, `--url=${server.url}`, `--data-dir=${damaged}`]);
      assert.equal(status, 6, out + errors);
      assert.match(out, /^backed up \S+ of /m);
      assert.match(out, /^NOT in the backup: catalog "default" \(.*damaged/m);
      const [, backupId = ''] = /^backed up (\S+)/m.exec(out) ?? [];
      const record = (await server.get(uri`/server_backups/${backupId}`)).is(200, '0', { state: 'ready' });
      assert.equal(record.at('catalogsLeftOut', 0, 'name'), 'default');
    } finally {
      await server.close();
    }
  });

  it('is found by its settings', options, async () => {
    const { port } = new URL(from.server.url);
    const target = join(from.directory, 'by settings');
    const { status, out, errors } = await backupServer([target, `--port=${port}`, `--data-dir=${dataDir}`]);
    assert.equal(status, 0, out + errors);
  });

  it('is backed up to an object store, with a token from the environment and no data directory', options, async () => {
    const objects = await startObjectStore();
    const other = await startBackingUp({ backupPassphrase: 'a long passphrase' });
    try {
      const environment = {
        AWS_ACCESS_KEY_ID: objects.accessKeyId,
        AWS_SECRET_ACCESS_KEY: objects.secretAccessKey,
        TABULARIUM_TOKEN: other.server.token,
      };
      const words = [`s3://${objects.bucket}/all`, `--store-endpoint=${objects.endpoint}`];
      const missingDirectory = `--data-dir=${join(root, 'none')}`;
      const { status, out, errors } = await backupServer(
        [...words, `--url=${other.server.url}`, missingDirectory],
        environment,
      );
      assert.equal(status, 0, out + errors);
      assert.match(out, new RegExp(` to s3://${objects.bucket}/all: `));
      const verified = await command(['backup', 'verify', ...words], environment);
      assert.match(verified.out, /^intact /m, verified.errors);
    } finally {
      await other.close();
      await objects.close();
    }
  });

  it('refuses a wrong token, and the token of a user without the privilege', options, async () => {
    const target = join(from.directory, 'refused');
    await from.server.client.users.create({ name: 'ann' });
    for (const [token, message] of [
      ['tbl_root_wrong', /^FAULT: the backup failed: .*\nWhat to do: the token is not valid/m],
      [
        await newToken(from.server, 'ann', 'test'),
        /\(FORBIDDEN\)\nWhat to do: the token is valid, but its principal lacks a privilege/,
      ],
    ] as const) {
      const { status, out, errors } = await backupServer([target, ...serverFlags()], { TABULARIUM_TOKEN: token });
      assert.deepEqual([status, out], [4, '']);
      assert.match(errors, message);
    }
    assert.deepEqual(await filesIn(target), []);
  });

  it('refuses a target that its settings do not allow', options, async () => {
    const { status, out, errors } = await backupServer([join(root, 'elsewhere'), ...serverFlags()]);
    assert.deepEqual([status, out], [1, '']);
    assert.match(errors, /^FAULT: .* is not in one of the backup directories of this server.* \(INVALID_PARAMETER\)$/m);
  });

  it('cannot write to the target, and the command reports why', options, async () => {
    const target = join(from.directory, 'blocked');
    mkdirSync(target);
    writeFileSync(join(target, 'server_backups'), 'a file where a directory has to be');
    const { status, out, errors } = await backupServer([target, ...serverFlags()]);
    assert.deepEqual([status, out], [5, '']);
    assert.match(errors, /^failed/m);
    assert.match(
      errors,
      /^FAULT: .*the directory of the backup cannot be used: there is a file .* \(ENOTDIR\) \(REMOTE_REFUSED\)$/m,
    );
    assert.match(errors, /^What to do: see \/api\/v2\/tasks\/\S+$/m);
  });

  it('stops while the task waits, and the command reports that the task continues', options, async () => {
    const backups = `--backup-directories=${from.directory}`;
    const process = await startProcess(['--task-runners-max=1', backups]);
    try {
      const sql = 'SELECT count(*) FROM range(1000000000000)';
      (await process.post('/api/v2/catalogs/default/query', { sql, waitSeconds: 0 })).is(202);
      const words = [join(from.directory, 'stopped'), `--url=${process.url}`];
      const { status, out, errors } = await command(
        ['backup', 'server', ...words],
        { TABULARIUM_TOKEN: process.token },
        (output) => output.includes('pending') && process.child.kill('SIGKILL'),
      );
      assert.deepEqual([status, out], [3, '']);
      assert.match(errors, /^task \/api\/v2\/tasks\/\S+\npending\nFAULT: no response from /);
      assert.match(errors, /^The task \S+ was submitted: the server continues it, also after a restart\.$/m);
    } finally {
      await process.close();
    }
  });

  it('does not answer at another address', options, async () => {
    const target = join(from.directory, 'no answer');
    const { status, out, errors } = await backupServer([target, '--url=http://127.0.0.1:1', `--data-dir=${dataDir}`]);
    assert.deepEqual([status, out], [3, '']);
    assert.match(errors, /^FAULT: no response from http:\/\/127\.0\.0\.1:1 .*\nSet the URL of the server with --url/m);
  });
});

describe('a stopped server', () => {
  let root: string;
  let dataDir: string;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-no-server-'));
    dataDir = join(root, 'data');
    const server = await start({ dataDir });
    await server.client.databases.create({ name: 'd' });
    await server.client
      .databases('d')
      .tables.create({ name: 't', columns: [{ name: 'n', type: 'INT' }] })
      .done();
    await server.client
      .databases('d')
      .tables('t')
      .rows.create({ rows: [[7]] });
    await server.close();
  });
  after(() => rm(root, { recursive: true, force: true }));

  it('gets no token, whoever listens at its address', options, async () => {
    let connections = 0;
    const stranger = createServer((socket) => {
      connections++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
    const { port } = stranger.address() as { port: number };
    const run = await backupServer([join(root, 'all'), `--url=http://127.0.0.1:${port}`, `--data-dir=${dataDir}`]);
    stranger.close();
    assert.deepEqual([run.status, run.out, connections], [3, '', 0]);
    assert.match(
      run.errors,
      /^no server is running on .*: start it and repeat the command, or copy the directory .*\n$/,
    );
  });

  it('is copied as the message describes', options, async () => {
    const copiedDirectory = join(root, 'copy');
    cpSync(dataDir, copiedDirectory, { recursive: true, preserveTimestamps: true });
    const copy = await start({ dataDir: copiedDirectory });
    const answer = await copy.post('/api/v2/databases/d/query', { sql: 'SELECT n FROM t' });
    answer.is(200, '0', { rows: [[7]] });
    (await copy.get('/api/v2/catalogs/default')).is(200, '0', { state: 'ready' });
    await copy.close();
  });

  const target = '/nowhere';
  const cases: readonly [string, readonly string[], RegExp][] = [
    [
      'a directory without a server',
      [`--data-dir=${tmpdir()}/none`],
      /does not contain the data of a server: choose another with --data-dir/,
    ],
    ['an address that is none', ['--url=nonsense'], /--url must be a URL; it is "nonsense"/],
  ];
  for (const [name, words, message] of cases)
    it(`${name}: exit code 2`, options, async () => {
      const { status, out, errors } = await backupServer([target, ...words]);
      assert.deepEqual([status, out], [2, '']);
      assert.match(errors, message);
    });

  it('needs the credentials of an object store in the environment', options, async () => {
    const environment = { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' };
    const { status, errors } = await backupServer(['s3://bucket/all', `--data-dir=${dataDir}`], environment);
    assert.equal(status, 2);
    assert.match(errors, /AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set/);
  });
});
