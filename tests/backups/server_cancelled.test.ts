// Backups of the whole server to an unresponsive object store: where they stage files, how they are cancelled while they run or
// wait, and what a restart without the passphrase does with one.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { deadlineMs, eventually } from '../deadline.ts';
import { start, type TestServer, uri } from '../server.ts';
import { filesIn } from './backing_up.ts';

const options = { timeout: deadlineMs(60_000) };

describe('a backup of the server to an unresponsive store', () => {
  let root: string;
  let server: TestServer;
  let silent: Server;
  let requested = Promise.withResolvers<void>();
  const startWith = (backupPassphrase: string) =>
    start({ dataDir: join(root, 'data'), backupDirectories: join(root, 'backups'), backupPassphrase });
  const s3 = () => ({
    s3: {
      endpoint: `http://127.0.0.1:${(silent.address() as AddressInfo).port}`,
      bucket: 'bucket',
      prefix: 'all',
      accessKeyId: 'any',
      secretAccessKey: 'any',
    },
  });
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-server-cancelled-'));
    await mkdir(join(root, 'backups'));
    silent = createServer((request, response) => {
      if (request.method === 'PUT' || request.method === 'POST') return requested.resolve();
      response.setHeader('content-type', 'application/xml');
      response.end('<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>');
    });
    await new Promise<void>((listening) => silent.listen(0, '127.0.0.1', listening));
    server = await startWith('a long passphrase');
  });
  after(async () => {
    await server.close();
    silent.closeAllConnections();
    silent.close();
    await rm(root, { recursive: true, force: true });
  });
  const startBackup = async (name: string, to: object) => {
    const accepted = await server.post('/api/v2/server_backups', { name, to });
    accepted.is(202);
    return accepted;
  };
  const cancel = async (name: string) => {
    const taskId = (await server.get(uri`/server_backups/${name}`)).at<string>('backupId');
    (await server.post(uri`/tasks/${taskId}/cancel`)).is(200);
  };

  it(
    'stages its files where no engine has access, and lets the next one begin only when it has ended',
    options,
    async () => {
      const first = await startBackup('first', s3());
      await requested.promise;
      assert.deepEqual(await filesIn(join(server.dataDirectory, 'spool', 'backups')), []);
      assert.notDeepEqual(await filesIn(join(server.dataDirectory, 'staging')), []);
      const second = await startBackup('second', { path: join(root, 'backups', 'second') });
      await eventually(
        'the second runs',
        async () => (await server.get(second.at<string>('uri'))).at('state') === 'running',
      );
      await cancel('second');
      (await server.ended(second)).is(200, '0', { state: 'cancelled' });
      const third = await startBackup('third', { path: join(root, 'backups', 'third') });
      (await server.get(uri`/server_backups/third`)).is(200, '0', { state: 'creating' });
      await cancel('first');
      (await server.ended(first)).is(200, '0', { state: 'cancelled' });
      (await server.ended(third)).is(200, '0', { state: 'succeeded' });
      assert.deepEqual(await filesIn(join(server.dataDirectory, 'staging')), []);
    },
  );

  it('fails after a restart without the passphrase', options, async () => {
    requested = Promise.withResolvers();
    const accepted = await startBackup('wrapped', s3());
    await requested.promise;
    await server.close();
    server = await startWith('');
    const error = { code: 'INVALID_PARAMETER' };
    (await server.ended(accepted)).is(200, '0', { state: 'failed', error });
    const record = () => server.get('/api/v2/server_backups/wrapped');
    await eventually('it is recorded', async () => (await record()).at('state') === 'failed');
  });
});
