// Who may back up and restore what, and where: only to configured directories and hosts; a backup in a directory requires the
// privilege to read the original; credentials of object stores are never shown and are deleted with their task.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { storeFileName } from '../../src/store/sqlite/sqlite_store.ts';
import { grant, newPerson, type Person } from '../access/people.ts';
import { eventually } from '../deadline.ts';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';
import { endOfTask, type Reply, start, type TestServer, uri } from '../server.ts';
import { type BackupServer, backUpSucceeding, restore, startBackingUp } from './backing_up.ts';

describe('backups', () => {
  let backing: BackupServer;
  let server: TestServer;
  let s3: ObjectStoreServer;
  before(async () => {
    s3 = await startObjectStore();
    backing = await startBackingUp();
    server = backing.server;
    for (const catalog of ['secret', 'own']) {
      await server.client.catalogs.create({ name: catalog });
      await server.client.catalogs(catalog).databases.create({ name: 'd' });
      const columns = [{ name: 'id', type: 'INT' }];
      await server.client.catalogs(catalog).databases('d').tables.create({ name: 't', columns }).done();
    }
    (await server.post('/api/v2/catalogs/secret/query', { sql: 'INSERT INTO d.t VALUES (1)' })).is(200);
  });
  after(async () => {
    await backing.close();
    await s3.close();
  });

  const inDirectory = (name: string) => ({ path: join(backing.directory, name) }) as const;
  const endOf = (accepted: Reply) => server.ended(accepted);
  const use = ['use', '/warehouses/default'] as const;

  it('go to no directory if none is configured, and the message says how to configure one', async () => {
    const bare = await start({ exportHosts: '' });
    try {
      const refused = await bare.post('/api/v2/catalogs/default/backup', { to: inDirectory('x') });
      refused.is(400, 'INVALID_PARAMETER');
      assert.match(refused.message, /backupDirectories/);
      const { endpoint, bucket, accessKeyId, secretAccessKey } = s3;
      const to = { s3: { endpoint, bucket, accessKeyId, secretAccessKey } };
      (await bare.post('/api/v2/catalogs/default/backup', { to })).is(400, 'HOST_NOT_ALLOWED');
    } finally {
      await bare.close();
    }
  });

  it('go only to configured targets, and a refusal does not reveal what exists elsewhere', async () => {
    const outsideDirectory = await mkdtemp(join(tmpdir(), 'tabularium-outside-'));
    try {
      await symlink(outsideDirectory, join(backing.directory, 'link'));
      const siblingDirectory = `${backing.directory}-beside`;
      const paths = [
        outsideDirectory,
        join(outsideDirectory, 'new'),
        join(backing.directory, 'link'),
        join(backing.directory, 'link/new'),
      ];
      paths.push(
        join(backing.directory, '../x'),
        `${backing.directory}/a/../../x`,
        siblingDirectory,
        'relative',
        '/',
        '/etc/passwd',
      );
      for (const direction of ['to', 'from'] as const) {
        const messages = new Set<string>();
        for (const path of paths) {
          const body = { [direction]: { path }, ...(direction === 'from' ? { name: 'n' } : {}) };
          const endpoint = direction === 'to' ? '/api/v2/catalogs/own/backup' : '/api/v2/catalogs/restore';
          messages.add((await server.post(endpoint, body)).is(400, 'INVALID_PARAMETER').message);
        }
        assert.equal(messages.size, 1, [...messages].join('\n'));
        assert.ok(![...messages].join().includes(outsideDirectory));
      }
    } finally {
      await rm(outsideDirectory, { recursive: true });
    }
  });

  it('have directories that nothing else is loaded from, or the server does not start', async () => {
    const root = await mkdtemp(join(tmpdir(), 'tabularium-both-'));
    try {
      await mkdir(join(root, 'within'));
      for (const [backupDirectories, loadDirectories] of [
        [root, root],
        [join(root, 'within'), root],
        [root, join(root, 'within')],
      ] as const)
        await assert.rejects(start({ backupDirectories, loadDirectories }), /overlaps with one of loadDirectories/);
      await assert.rejects(start({ backupDirectories: join(root, 'missing') }), /backupDirectories: .* does not exist/);
    } finally {
      await rm(root, { recursive: true });
    }
  });

  it('have a single target, given as everywhere in the API', async () => {
    const { endpoint, bucket, accessKeyId, secretAccessKey } = s3;
    const unrestricted = { s3: { endpoint, bucket, accessKeyId, secretAccessKey } };
    const wrong: [object, string][] = [
      [{}, '/to'],
      [{ path: '' }, '/to/path'],
      [{ ...inDirectory('x'), ...unrestricted }, '/to'],
      [{ s3: { ...unrestricted.s3, secretAccessKey: undefined } }, '/to/s3/secretAccessKey'],
      [{ s3: { ...unrestricted.s3, bucket: undefined } }, '/to/s3/bucket'],
      [{ s3: { ...unrestricted.s3, bucket: 'a/../b' } }, '/to/s3/bucket'],
    ];
    for (const [to, pointer] of wrong) {
      const refused = (await server.post('/api/v2/catalogs/own/backup', { to })).is(400, 'INVALID_PARAMETER');
      assert.equal(refused.at('violations', 0, 'pointer'), pointer);
    }
    const mixed = { s3: { ...unrestricted.s3, path: '/x' } };
    (await server.post('/api/v2/catalogs/own/backup', { to: mixed })).is(400, 'UNKNOWN_FIELD');
  });

  it('require the privilege to read the whole object, when they are requested and when they run', async () => {
    const reader = await newPerson(server, 'reader', [['read', '/catalogs/own/databases/d'], use]);
    const to = inDirectory('readers');
    (await reader.post('/api/v2/catalogs/own/backup', { to })).is(403, 'FORBIDDEN');
    const accepted = await reader.post('/api/v2/catalogs/own/databases/d/backup', { to });
    (await endOf(accepted)).is(200, '0', { state: 'succeeded', submittedBy: 'reader' });
    const slow = await reader.post('/api/v2/catalogs/own/query', {
      sql: 'SELECT count(*) FROM range(1500000000)',
      waitSeconds: 0,
    });
    const laterBackup = await reader.post('/api/v2/catalogs/own/databases/d/backup', {
      to,
      after: [slow.is(202).at('taskId')],
    });
    (await server.delete(uri`/users/reader/grants/${await grantOf('reader', '/api/v2/catalogs/own/databases/d')}`)).is(
      200,
    );
    (await endOf(laterBackup)).is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
  });

  async function grantOf(user: string, on: string): Promise<string> {
    const grants = (await server.get(uri`/users/${user}/grants`)).at<{ grantId: string; on: string }[]>('grants');
    return grants.find((grant) => grant.on === on)?.grantId as string;
  }

  it('in a directory are restored by principals that may read the original object, and nobody else', async () => {
    const from = inDirectory('secrets');
    await backUpSucceeding(server, '/api/v2/catalogs/secret', from);
    const maker = await newPerson(server, 'maker', [['create', '/catalogs/own'], ['read', '/catalogs/own'], use]);
    const attempt = async (person: Person, name: string, code?: string) => {
      const body = { name, from, database: 'd' };
      const task = await endOf(await person.post('/api/v2/catalogs/own/databases/restore', body));
      task.is(200, '0', code === undefined ? { state: 'succeeded' } : { state: 'failed', error: { code } });
      (await server.get(uri`/catalogs/own/databases/${name}`)).is(
        code === undefined ? 200 : 404,
        code && 'OBJECT_NOT_FOUND',
      );
    };
    await attempt(maker, 'stolen', 'FORBIDDEN');
    // Of which objects there are backups is not said either.
    const unseen = await endOf(await maker.post('/api/v2/catalogs/own/databases/restore', { name: 'unseen', from }));
    const message = 'the backup does not exist in this target';
    unseen.is(200, '0', { state: 'failed', error: { code: 'OBJECT_NOT_FOUND', message } });
    await grant(server, 'users/maker', [['read', '/catalogs/secret']]);
    await attempt(maker, 'made');
    (await server.get('/api/v2/catalogs/own/databases/made')).is(200, '0', { owner: 'maker' });
    (await server.get('/api/v2/catalogs/own/databases/made/tables/t')).is(200, '0', { owner: 'maker' });
    (await maker.post('/api/v2/catalogs/restore', { name: 'n', from })).is(403, 'FORBIDDEN');
    (await server.delete('/api/v2/catalogs/secret?cascade=true&purge=true')).is(200);
    await attempt(maker, 'after', 'FORBIDDEN');
    await grant(server, 'users/maker', [['read', '/catalogs']]);
    await attempt(maker, 'later');
  });

  it('show no credentials, and delete them', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'tabularium-keys-'));
    const { endpoint, bucket, accessKeyId, secretAccessKey } = s3;
    const target = { s3: { endpoint, bucket, prefix: 'keys', accessKeyId, secretAccessKey } } as const;
    let deletions = 0;
    const injectStore = ({ sql }: { readonly sql: string }) => {
      if (/^delete from "secrets"/.test(sql)) deletions++;
    };
    const first = await start({ dataDir }, { injectStore });
    const secret = (reply: Reply) => assert.ok(!reply.text.includes(secretAccessKey), reply.text);
    try {
      const accepted = await first.post('/api/v2/catalogs/default/backup', { to: target });
      secret(accepted.is(202));
      secret((await first.ended(accepted)).is(200, '0', { state: 'succeeded' }));
      secret(
        (await restore(first, '/api/v2/catalogs', { name: 'again', from: target })).is(200, '0', {
          state: 'succeeded',
        }),
      );
      const wrong = { s3: { ...target.s3, accessKeyId: 'another' } };
      const refused = await first.ended(await first.post('/api/v2/catalogs/default/backup', { to: wrong }));
      refused.is(200, '0', { state: 'failed', error: { code: 'REMOTE_REFUSED' } });
      await eventually('the credentials of each task are deleted', () => deletions >= 3);
    } finally {
      await first.close();
    }
    const store = new DatabaseSync(join(dataDir, storeFileName), { readOnly: true });
    const names = "SELECT name FROM secrets WHERE name LIKE 'backup %' OR name LIKE 'restore %'";
    assert.deepEqual(store.prepare(names).all(), []);
    store.close();
    await rm(dataDir, { recursive: true });
  });

  it('and restores run once for one idempotency key', async () => {
    const to = inDirectory('keyed');
    const send = async (path: string, body: object) =>
      (await server.request('POST', path, { body, headers: { 'x-service-idempotency-key': path } }))
        .is(202)
        .at('taskId');
    const backup = await send('/api/v2/catalogs/own/backup', { to });
    assert.equal(await send('/api/v2/catalogs/own/backup', { to }), backup);
    await endOfTask(server, `/api/v2/tasks/${backup}`);
    const body = { name: 'keyed', from: to };
    const restored = await send('/api/v2/catalogs/restore', body);
    await endOfTask(server, `/api/v2/tasks/${restored}`);
    assert.equal(await send('/api/v2/catalogs/restore', body), restored);
  });
});
