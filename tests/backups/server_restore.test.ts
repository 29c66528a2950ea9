// A server with data of every kind is backed up and restored by the command: all records are the same through REST, tokens and
// secrets work, a repeated keyed request is not applied again; a damaged, torn, foreign or newer backup is refused with a message.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { SignJWT } from 'jose';
import { newToken } from '../access/people.ts';
import { deadlineMs } from '../deadline.ts';
import { flipBytes } from '../faults/damage/damaged_file.ts';
import { endOfTask, start, type TestServer, uri } from '../server.ts';
import { type BackupServer, filesIn, rowsIn, startBackingUp } from './backing_up.ts';
import { backUpServer, command, restoredTo, serverBackedUp } from './whole_server.ts';

const passphrase = { backupPassphrase: 'a long passphrase' };
const environment = { TABULARIUM_BACKUP_PASSPHRASE: passphrase.backupPassphrase };
const clientSecret = 'a secret of an issuer that is long enough';
const issuer = 'https://issuer.example.com';
const options = { timeout: deadlineMs(120_000) };

/** Everything that a server shows, except what changes by being used. */
async function visibleState(server: TestServer): Promise<Record<string, unknown>> {
  const records: Record<string, unknown> = {};
  const lists = [
    ...['users', 'roles', 'identity_providers', 'schedules', 'warehouses', 'catalogs', 'server_backups'],
    ...['users/ann/tokens', 'users/ann/grants', 'roles/readers/grants'],
    ...['a', 'b'].flatMap((name) => [`catalogs/${name}/databases`, `catalogs/${name}/databases/d/tables`]),
    'catalogs/a/databases/d/views',
  ];
  for (const list of lists) {
    const [all = []] = Object.values((await server.get(`/api/v2/${list}`)).is(200).result) as Record<
      string,
      unknown
    >[][];
    // Health and statistics are current values.
    records[list] = all.map(({ lastUsedAt, health, state, rowCount, dataBytes, statistics, ...record }) =>
      list === 'warehouses' ? record.name : list.endsWith('tables') ? record.uri : { state, ...record },
    );
  }
  return records;
}

describe('a server with data of every kind', () => {
  let from: BackupServer;
  let root: string;
  let token: string;
  let before_: Record<string, unknown>;
  let copy: TestServer | undefined;
  const keyed = (server: TestServer) =>
    server.request('POST', '/api/v2/catalogs/a/databases/d/tables/t/rows', {
      body: { rows: [[1000, 'keyed']] },
      headers: { 'x-service-idempotency-key': 'once' },
    });
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-whole-'));
    from = await startBackingUp(passphrase);
    const { server } = from;
    await server.client.users.create({ name: 'ann', comment: 'Ann', password: 'correct horse battery' });
    await server.client.roles.create({ name: 'readers', members: ['ann'] });
    for (const name of ['a', 'b']) {
      await server.client.catalogs.create({ name, comment: name });
      await server.client.catalogs(name).databases.create({ name: 'd' });
      const columns = [
        { name: 'id', type: 'BIGINT' },
        { name: 'note', type: 'STRING' },
      ];
      await server.client
        .catalogs(name)
        .databases('d')
        .tables.create({ name: 't', columns, primaryKey: ['id'] })
        .done();
      const sql = `INSERT INTO d.t SELECT range, md5(range::varchar) FROM range(1000)`;
      (await server.post(uri`/catalogs/${name}/query`, { sql })).is(200);
    }
    await server.client.catalogs('a').databases('d').views.create({ name: 'v', sql: 'SELECT max(id) AS top FROM t' });
    await server.client
      .catalogs('a')
      .databases('d')
      .tables.create({ name: 'gone', columns: [{ name: 'i', type: 'INT' }] })
      .done();
    await server.client
      .catalogs('a')
      .databases('d')
      .tables('gone')
      .rows.create({ rows: [[7]] });
    await server.client.catalogs('a').databases('d').tables('gone').delete();
    const grants = { 'roles/readers': ['read', '/catalogs/a'], 'users/ann': ['use', '/warehouses/default'] };
    for (const [grantee, [privilege, on]] of Object.entries(grants))
      (await server.post(`/api/v2/${grantee}/grants`, { privilege, on: `/api/v2${on}` })).is(201);
    token = await newToken(server, 'ann', 'laptop');
    const provider = { issuer, audiences: ['tests'], algorithms: ['HS256'], clientSecret, createUsers: true };
    (await server.put('/api/v2/identity_providers/hs', provider)).is(201);
    const query = { sql: 'DELETE FROM t WHERE id < 0', catalog: 'a', database: 'd' };
    await server.client.schedules.create({ name: 'yearly', query, cron: '0 0 1 1 *' });
    await server.client.uploads.create({ name: 'rows.csv' });
    (await keyed(server)).is(201);
    (await serverBackedUp(server, 'first', { path: from.directory })).at('takenAt');
    const task = await backUpServer(server, 'whole', { path: from.directory });
    task.is(200, '0', { state: 'succeeded', result: { catalogs: 3, catalogsLeftOut: [], secretKey: 'wrapped' } });
    before_ = await visibleState(server);
  });
  after(async () => {
    await copy?.close();
    await from.close();
    await rm(root, { recursive: true, force: true });
  });

  it('is the same after a restore', options, async () => {
    const dataDir = join(root, 'restored');
    const { out } = await restoredTo(dataDir, [from.directory], environment);
    assert.match(out, /^restored [0-9a-f-]{36} of .*: 3 catalogs, all files verified\nStart the server with/);
    copy = await start({ dataDir, backupDirectories: from.directory, ...passphrase });
    // In the backup, its own task has not ended.
    const [ownTask] = (await copy.get('/api/v2/server_backups/whole')).is(200).at<string>('task').split('/').slice(-1);
    (await endOfTask(copy, `/api/v2/tasks/${ownTask}`)).is(200, '0', { state: 'succeeded' });
    const isSame = (record: Record<string, unknown>) => ({ ...record, updatedAt: 0, updatedBy: 0, version: 0 });
    const withoutVolatile = (all: Record<string, unknown>) => ({
      ...all,
      server_backups: (all.server_backups as Record<string, unknown>[]).map(isSame),
    });
    assert.deepEqual(withoutVolatile(await visibleState(copy)), withoutVolatile(before_));
    for (const name of ['a', 'b']) {
      const sql = 'SELECT count(*), sum(hash(id, note) % 1000003)::BIGINT FROM d.t WHERE id < 1000';
      assert.deepEqual(await rowsIn(copy, name, sql), await rowsIn(from.server, name, sql));
    }
    assert.deepEqual(await rowsIn(copy, 'a', 'SELECT top FROM d.v'), [[1000]]);
    (await copy.get('/api/v2/audit_events?pageSize=1')).is(200);
    (await copy.post('/api/v2/audit_events/verify')).is(200, '0', { faults: [] });
    // Files that the backup does not contain.
    assert.deepEqual((await copy.get('/api/v2/uploads')).is(200).at('uploads'), []);
  });

  it('has its tokens, passwords, grants and secrets', options, async () => {
    const server = copy as TestServer;
    assert.equal(server.token, from.server.token);
    const ann = (path: string, body?: object, credentials = `Bearer ${token}`) =>
      server.request(body ? 'POST' : 'GET', path, {
        headers: { authorization: credentials },
        ...(body ? { body } : {}),
      });
    (await ann('/api/v2/catalogs/a/query', { sql: 'SELECT count(*) FROM d.t' })).is(200);
    (await ann('/api/v2/catalogs/b/query', { sql: 'SELECT count(*) FROM d.t' })).is(403, 'FORBIDDEN');
    const basic = `Basic ${Buffer.from('ann:correct horse battery').toString('base64')}`;
    (await ann('/api/v2/users/ann', undefined, basic)).is(200);
    const signed = await new SignJWT({
      iss: issuer,
      aud: 'tests',
      sub: 'visitor',
      exp: Math.floor(Date.now() / 1000) + 600,
    })
      .setProtectedHeader({ alg: 'HS256' })
      .sign(new TextEncoder().encode(clientSecret));
    (await ann('/api/v2/users/identify', {}, `Bearer ${signed}`)).is(200);
  });

  it('recognizes repeated requests, and can restore dropped objects', options, async () => {
    const server = copy as TestServer;
    (await keyed(server)).is(201);
    assert.deepEqual(await rowsIn(server, 'a', 'SELECT count(*) FROM d.t WHERE id = 1000'), [[1]]);
    (await server.post('/api/v2/catalogs/a/databases/d/tables/undrop', { name: 'gone' })).is(200);
    assert.deepEqual(await rowsIn(server, 'a', 'SELECT i FROM d.gone'), [[7]]);
  });

  it('restricts access to its files', async () => {
    for (const name of await filesIn(join(root, 'restored')))
      assert.equal(statSync(join(root, 'restored', name)).mode & 0o077, 0, name);
    const [folder = ''] = readdirSync(join(from.directory, 'server_backups'));
    const keys = readFileSync(join(root, 'restored', 'secret.key'), 'utf8').trim();
    for (const name of readdirSync(join(from.directory, 'server_backups', folder)))
      assert.ok(
        !readFileSync(join(from.directory, 'server_backups', folder, name)).includes(keys),
        `${name} has the key`,
      );
  });

  describe('is not restored', () => {
    const requireRestoreRefused = async (
      target: string,
      message: RegExp,
      words: readonly string[] = [],
      variables: object = environment,
    ) => {
      const dataDir = join(root, 'refused');
      const { status, out, errors } = await command(
        ['restore', 'server', target, `--data-dir=${dataDir}`, ...words],
        variables as Record<string, string>,
      );
      assert.notEqual(status, 0, out);
      assert.match(out + errors, message);
      assert.doesNotMatch(out + errors, /^\s+at /m);
      assert.ok(!(await filesIn(dataDir)).includes('metadata.sqlite'), 'a server is left');
      await rm(dataDir, { recursive: true, force: true });
    };
    /** A copy of the target, with one backup in it. */
    const requireChangeRefused = async (change: (folder: string, manifestFile: string) => void) => {
      const target = join(root, 'changed');
      await rm(target, { recursive: true, force: true });
      const [oldest = '', newest = ''] = readdirSync(join(from.directory, 'server_backups')).sort();
      assert.ok(oldest < newest);
      await cp(join(from.directory, 'server_backups', newest), join(target, 'server_backups', newest), {
        recursive: true,
      });
      const folder = join(target, 'server_backups', newest);
      change(folder, join(folder, 'manifest.json'));
      return target;
    };
    const pieces = (folder: string) => readdirSync(folder).filter((name) => name !== 'manifest.json');
    const largest = (folder: string) =>
      join(
        folder,
        pieces(folder).sort((a, b) => statSync(join(folder, b)).size - statSync(join(folder, a)).size)[0] ?? '',
      );
    /** As another release would have written it: the digest matches. */
    const writeManifest = (file: string, change: object) => {
      const { manifest } = JSON.parse(readFileSync(file, 'utf8'));
      const other = { ...manifest, ...change };
      const digest = createHash('sha256').update(JSON.stringify(other)).digest('hex');
      writeFileSync(file, JSON.stringify({ digest, manifest: other }));
    };

    it('with a changed byte in a piece', options, async () => {
      const target = await requireChangeRefused((folder) => flipBytes(largest(folder), 5000));
      await requireRestoreRefused(
        target,
        /FAULT: the backup cannot be used: the file [0-9a-f]{64} was changed after it was written/,
      );
      const { status, out } = await command(['backup', 'verify', target]);
      assert.equal(status, 1, out);
      assert.match(out, /^BROKEN .* server/m);
      assert.match(out, /FAULT: backup .*: it was changed after it was written/);
    });

    it('with a piece that is missing', options, async () => {
      const target = await requireChangeRefused((folder) => rmSync(largest(folder)));
      await requireRestoreRefused(target, /FAULT: /);
    });

    it('without its manifest, or with a torn one', options, async () => {
      await requireRestoreRefused(
        await requireChangeRefused((_folder, manifest) => rmSync(manifest)),
        /the backup does not exist in this target/,
      );
      const tornManifest = await requireChangeRefused((_folder, file) =>
        writeFileSync(file, readFileSync(file).subarray(0, 500)),
      );
      await requireRestoreRefused(tornManifest, /its manifest is incomplete/);
    });

    it('of another format, or of a newer release', options, async () => {
      const format = await requireChangeRefused((_folder, file) => writeManifest(file, { formatVersion: 2 }));
      await requireRestoreRefused(format, /it is of format 2, and this release reads 1/);
      const newer = await requireChangeRefused((_folder, file) =>
        writeManifest(file, { storeVersion: 10_000, release: '9.9.9' }),
      );
      await requireRestoreRefused(newer, /made by release 9\.9\.9, whose metadata store \(version \d+\) is newer/);
    });

    it('that names files elsewhere', options, async () => {
      const target = await requireChangeRefused((_folder, file) => {
        const { files } = JSON.parse(readFileSync(file, 'utf8')).manifest;
        writeManifest(file, { files: [...files, { path: '../escaped', bytes: 0, pieces: [] }] });
      });
      await requireRestoreRefused(target, /its manifest was not written by a server/);
    });

    it('into a directory that is not empty, or without the passphrase', options, async () => {
      const { status, errors } = await command(
        ['restore', 'server', from.directory, `--data-dir=${root}`],
        environment,
      );
      assert.equal(status, 2);
      assert.match(errors, /is not empty: choose a new or empty directory with --data-dir/);
      await requireRestoreRefused(
        from.directory,
        /encrypted with a passphrase: give it in TABULARIUM_BACKUP_PASSPHRASE/,
        [],
        {},
      );
      const wrong = { TABULARIUM_BACKUP_PASSPHRASE: 'another' };
      await requireRestoreRefused(from.directory, /is not the passphrase of this backup/, [], wrong);
      await requireRestoreRefused(from.directory, /the backup does not exist/, [
        '--backup-id=019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
      ]);
    });

    it('and an intact one is verified', options, async () => {
      const { status, out } = await command(['backup', 'verify', from.directory]);
      assert.equal(status, 0, out);
      assert.match(out, /^intact [0-9a-f-]{36} \S+ server: 3 catalogs, \d+ files, \d+ bytes$/m);
    });
  });
});
