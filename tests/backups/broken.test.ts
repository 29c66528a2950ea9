// Damaged backups: `backup verify` reports the fault and exits with 1, a restore reports it and creates nothing; leftovers are
// removed, but nothing that a backup may still need.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, mkdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';
import type { TestServer } from '../server.ts';
import {
  type BackupServer,
  backUpSucceeding,
  filesIn,
  restore,
  restoreSucceeding,
  startBackingUp,
} from './backing_up.ts';

const program = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** The exit code and the output of the program. */
function verify(target: string, flags: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  const args = [program, 'backup', 'verify', target, ...flags];
  const child = spawn(process.execPath, args, { env: { ...process.env, ...env } });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (text += chunk));
  return new Promise<{ code: number | null; text: string }>((resolve) =>
    child.once('close', (code) => resolve({ code, text })),
  );
}

interface Manifest {
  digest: string;
  manifest: {
    formatVersion: number;
    databases: {
      name: string;
      views: unknown[];
      tables: {
        name: string;
        rows: number;
        definition: { columns: { name: string; type: string; defaultValue?: string }[] };
        parts: { path: string; rows: number; bytes: number; sha256: string }[];
      }[];
    }[];
  };
}

const view = { id: '01a1fe1d-432e-71f3-902e-8ed9f83632ae', sql: 'SELECT 1' };

describe('a damaged backup', () => {
  let backing: BackupServer;
  let server: TestServer;
  let s3: ObjectStoreServer;
  /** An intact backup; each test damages a copy. */
  let intact: string;
  let backupId: string;
  let copies = 0;
  before(async () => {
    s3 = await startObjectStore();
    backing = await startBackingUp();
    server = backing.server;
    await server.client.catalogs.create({ name: 'source' });
    await server.client.catalogs('source').databases.create({ name: 'd' });
    for (const table of ['a', 'b']) {
      const columns = [{ name: 'id', type: 'BIGINT', defaultValue: '7' }];
      await server.client.catalogs('source').databases('d').tables.create({ name: table, columns }).done();
      const sql = `INSERT INTO d.${table} SELECT range FROM range(${table === 'a' ? 1000 : 2000})`;
      (await server.post('/api/v2/catalogs/source/query', { sql })).is(200);
    }
    intact = join(backing.directory, 'whole');
    ({ backupId } = await backUpSucceeding(server, '/api/v2/catalogs/source', { path: intact }));
  });
  after(async () => {
    await backing.close();
    await s3.close();
  });

  async function copy(): Promise<string> {
    const path = join(backing.directory, `copy${++copies}`);
    await cp(intact, path, { recursive: true });
    return path;
  }
  const manifestOf = (path: string) => join(path, 'backups', backupId, 'manifest.json');
  const readManifest = async (path: string) => JSON.parse(await readFile(manifestOf(path), 'utf8')) as Manifest;

  /** Modified by an attacker who knows the format of a manifest. */
  async function forge(path: string, change: (manifest: Manifest['manifest']) => void): Promise<void> {
    const { manifest } = await readManifest(path);
    change(manifest);
    const digest = createHash('sha256').update(JSON.stringify(manifest)).digest('hex');
    await writeFile(manifestOf(path), JSON.stringify({ digest, manifest }));
  }

  async function isRefused(path: string, message: RegExp, code = 'DATA_INVALID'): Promise<void> {
    const task = await restore(server, '/api/v2/catalogs', { name: 'x', from: { path } });
    task.is(200, '0', { state: 'failed', error: { code } });
    assert.match(task.at('error', 'message'), message);
    (await server.get('/api/v2/catalogs/x')).is(404, 'OBJECT_NOT_FOUND');
    // The name is free, and the engine has nothing under it.
    await server.client.catalogs.create({ name: 'x' });
    (await server.delete('/api/v2/catalogs/x?purge=true')).is(200);
  }

  const fileOf = async (path: string, table: number) =>
    join(path, (await readManifest(path)).manifest.databases[0]?.tables[table]?.parts[0]?.path as string);

  it('is distinguished from an intact one', async () => {
    const { code, text } = await verify(intact);
    assert.match(
      text,
      new RegExp(`^intact ${backupId} .* catalog "source": 2 tables, 3000 rows, 2 files, \\d+ bytes\n`),
    );
    assert.match(text, /All files exist and are unchanged\.\n$/);
    assert.equal(code, 0, text);
    const ofFile = await verify(await fileOf(intact, 0));
    assert.deepEqual([ofFile.code, / is not a directory/.test(ofFile.text)], [2, true], ofFile.text);
  });

  it('is named by a restore that looks for the newest one, and keeps none that is named from being restored', async () => {
    const path = await copy();
    const folder = join(path, 'backups', 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    await mkdir(folder);
    await writeFile(join(folder, 'manifest.json'), '');
    await truncate(join(folder, 'manifest.json'), 64 * 1024 ** 2 + 1);
    await isRefused(path, /larger than 64 MiB.* ffffffff-ffff-ffff-ffff-ffffffffffff.*`backupId`/);
    await restoreSucceeding(server, '/api/v2/catalogs', { name: 'named', from: { path }, backupId });
  });

  const breaks: [string, (path: string) => Promise<void>, RegExp, RegExp][] = [
    ['a file is missing', async (path) => rm(await fileOf(path, 1)), /it is missing/, /is missing/],
    [
      'a file is cut off',
      async (path) => truncate(await fileOf(path, 1), 100),
      /it has 100 bytes instead of \d+/,
      /has 100 bytes instead of \d+/,
    ],
    [
      'one bit of a file is another',
      async (path) => {
        const bytes = await readFile(await fileOf(path, 1));
        bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1);
        await writeFile(await fileOf(path, 1), bytes);
      },
      /parquet: it was changed after it was written/,
      /was changed after it was written/,
    ],
    [
      'the manifest says another number of rows',
      async (path) => {
        const text = await readFile(manifestOf(path), 'utf8');
        await writeFile(manifestOf(path), text.replaceAll('2000', '2001'));
      },
      /FAULT: backup \S+: .*its manifest was changed after it was written/,
      /its manifest was changed after it was written/,
    ],
    [
      'the manifest is cut off',
      (path) => truncate(manifestOf(path), 1000),
      /its manifest is incomplete/,
      /its manifest is incomplete/,
    ],
    [
      'the manifest was forged to name fewer rows than the file has',
      (path) =>
        forge(path, ({ databases: [database] }) => {
          const table = database?.tables[1];
          const [part] = table?.parts ?? [];
          if (table && part) table.rows = part.rows = 1999;
        }),
      /it has 2000 rows instead of 1999/,
      /2000 rows instead of 1999/,
    ],
  ];
  for (const [description, spoil, faultText, refusal] of breaks)
    it(`because ${description} is detected`, async () => {
      const path = await copy();
      await spoil(path);
      const { code, text } = await verify(path);
      assert.match(text, faultText);
      assert.match(text, /FAULT/);
      assert.equal(code, 1, text);
      await isRefused(path, refusal);
    });

  const forgeries: [string, (manifest: Manifest['manifest']) => void, RegExp][] = [
    ['a path out of the place', (m) => setPart(m, { path: '../../etc/passwd' }), /not written by a server/],
    ['a name that no table can have', (m) => setTable(m, { name: 'a\nb' }), /contains the invalid name/],
    ['a name of the engine’s own', (m) => setTable(m, { name: '__tabularium_x' }), /contains the invalid name/],
    ['two tables of one name', (m) => setTable(m, { name: 'B' }), /contains the name .* twice/],
    ['a default that is more than one', (m) => setDefault(m, '7); DROP TABLE d.b; --'), /the default/],
    ['a default that reads what is not its', (m) => setDefault(m, '(SELECT 1)'), /the default/],
    ['a type that is none', (m) => setType(m, 'BLOB); --'), /the definition of the table "a"/],
    ['another format', (m) => Object.assign(m, { formatVersion: 2 }), /it is of format 2/],
    ['a view that is none', (m) => m.databases[0]?.views.push({ name: 'v' }), /not written by a server/],
    [
      'a view with the name of a table',
      (m) => m.databases[0]?.views.push({ ...view, name: 'B' }),
      /contains the name .* twice/,
    ],
  ];
  for (const [description, change, refusal] of forgeries)
    it(`that was forged to have ${description} is refused`, async () => {
      const path = await copy();
      await forge(path, change);
      await isRefused(path, refusal);
    });

  it('is no base: the next backup is a full one', async () => {
    const path = await copy();
    await truncate(manifestOf(path), 1000);
    const next = await backUpSucceeding(server, '/api/v2/catalogs/source', { path });
    assert.deepEqual([next.since, next.filesSent], [null, 2]);
    const { code } = await verify(path, ['--backup-id', next.backupId]);
    assert.equal(code, 0);
  });

  it('in an object store is detected too', async () => {
    const { endpoint, bucket, accessKeyId, secretAccessKey } = s3;
    const to = { s3: { endpoint, bucket, prefix: 'of/a day', accessKeyId, secretAccessKey } } as const;
    await backUpSucceeding(server, '/api/v2/catalogs/source', to);
    const keys = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey };
    const flags = ['--store-endpoint', endpoint];
    const verified = await verify(`s3://${bucket}/of/a day`, flags, keys);
    assert.match(verified.text, /^intact .* 2 tables, 3000 rows, 2 files/);
    assert.equal(verified.code, 0, verified.text);
    const missing = await verify(`s3://${bucket}/elsewhere`, flags, keys);
    assert.deepEqual([missing.code, missing.text], [1, 'No backups found.\n']);
    const unsigned = await verify(`s3://${bucket}/of`, flags, { ...keys, AWS_SECRET_ACCESS_KEY: '' });
    assert.deepEqual([unsigned.code, /not set/.test(unsigned.text)], [2, true]);
  });

  it('is cleaned of files that no backup refers to, once its whole folder is a day old', async () => {
    const path = await copy();
    const old = new Date(Date.now() - 2 * 86_400_000);
    const folder = (id: string) => join(path, 'backups', id);
    const [brokenOff, underWay] = ['00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002'];
    const name = `${'0'.repeat(64)}.parquet`;
    for (const id of [brokenOff, underWay]) {
      await mkdir(folder(id));
      await writeFile(join(folder(id), name), 'left');
      await utimes(join(folder(id), name), old, old);
    }
    await writeFile(join(folder(underWay), 'young'), 'left');
    for (const file of await filesIn(path)) if (!file.includes(underWay)) await utimes(join(path, file), old, old);
    const { code, text } = await verify(path, ['--sweep']);
    assert.match(text, /3 files \(12 bytes\) belong to no backup/);
    assert.match(text, /Deleted 1 files \(4 bytes\)\.\n$/);
    assert.equal(code, 0, text);
    await assert.rejects(stat(folder(brokenOff)));
    assert.equal((await filesIn(folder(underWay))).length, 2);
    assert.equal((await verify(path)).code, 0);
    // Files named only by a deleted manifest are removed with it; those that another manifest names stay.
    const next = await backUpSucceeding(server, '/api/v2/catalogs/source', { path });
    assert.equal(next.filesSent, 0);
    await rm(manifestOf(path));
    assert.match((await verify(path, ['--sweep'])).text, /Deleted 0 files \(0 bytes\)\.\n$/);
    assert.equal((await verify(path)).code, 0);
    // Which files an unreadable manifest names is unknown.
    await truncate(join(folder(next.backupId), 'manifest.json'), 100);
    const blind = await verify(path, ['--sweep']);
    assert.match(blind.text, /Nothing was deleted/);
    assert.equal(blind.code, 1);
    assert.equal((await filesIn(path)).length, 5);
  });

  it('is not read if the command line is invalid', async () => {
    assert.match((await verify('--sweep')).text, /backup verify requires a target/);
    const missing = await verify(join(backing.directory, 'nowhere'));
    assert.deepEqual([missing.code, /the directory .* does not exist/.test(missing.text)], [2, true]);
    const other = await verify(intact, ['--backup-id', '00000000-0000-7000-8000-000000000000']);
    assert.deepEqual([other.code, /the backup does not exist/.test(other.text)], [1, true]);
  });
});

function tableOf({ databases }: Manifest['manifest']) {
  const table = databases[0]?.tables[0];
  assert.ok(table);
  return table;
}
const setTable = (manifest: Manifest['manifest'], change: object) => Object.assign(tableOf(manifest), change);
const setPart = (manifest: Manifest['manifest'], change: object) =>
  Object.assign(tableOf(manifest).parts[0] as object, change);
const setColumn = (manifest: Manifest['manifest'], change: object) =>
  Object.assign(tableOf(manifest).definition.columns[0] as object, change);
const setDefault = (manifest: Manifest['manifest'], defaultValue: string) => setColumn(manifest, { defaultValue });
const setType = (manifest: Manifest['manifest'], type: string) => setColumn(manifest, { type });
