// A server whose URL of the store names a primary and its standby: it does not start on a standby, and continues on the standby when that has been
// promoted because the primary was lost.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../deadline.ts';
import { missingPostgresql, newStoreDatabase, startStandby, stopPostgresql } from '../postgresql.ts';
import { start } from '../server.ts';

test('a server follows its store to a promoted standby', { skip: missingPostgresql }, async (t) => {
  const { user, host, database } = await newStoreDatabase();
  const standby = await startStandby();
  const urlOf = (hosts: readonly string[]) =>
    `postgres://${user}@/${database}?host=${encodeURIComponent(hosts.join(','))}&target_session_attrs=read-write`;
  const root = mkdtempSync(join(tmpdir(), 'tabularium-failover-'));

  await assert.rejects(start({ store: urlOf([standby.host]), dataDir: join(root, 'refused') }), {
    name: 'StoreUnusable',
    message: /cannot be used: it accepts no changes \(a standby, or .*\): name the primary server$/,
  });

  const server = await start({ store: urlOf([standby.host, host]), dataDir: join(root, 'data'), logLevel: 'silent' });
  t.after(async () => {
    await server.close();
    rmSync(root, { recursive: true, force: true });
  });
  (await server.put('/api/v2/databases/before')).is(201);
  const names = async () => {
    const { databases } = (await server.get('/api/v2/databases')).is(200).result as { databases: { name: string }[] };
    return databases.map(({ name }) => name);
  };
  await eventually('the standby has the change', async () => {
    const { Client } = await import('pg');
    const client = new Client({ host: standby.host, port: 5432, user, database });
    await client.connect();
    try {
      const { rows } = await client.query(`select 1 from objects where name = 'before' and state = 'ready'`);
      return rows.length === 1;
    } finally {
      await client.end();
    }
  });

  const startAgain = await stopPostgresql();
  // Other files of this process use it.
  t.after(startAgain);
  const lost = await server.put('/api/v2/databases/lost');
  lost.is(503, 'STORE_UNAVAILABLE');
  assert.ok(['unknown', 'notApplied'].includes(lost.at('outcome')));
  await eventually('reads are refused', async () => (await server.get('/api/v2/databases/before')).status === 503);
  assert.equal((await server.put('/api/v2/databases/lost')).status, 503, 'the standby is not promoted yet');

  await standby.promote();
  await eventually('changes are accepted', async () => {
    const { status } = await server.put('/api/v2/databases/after');
    assert.ok([200, 201, 503].includes(status));
    return status !== 503;
  });
  assert.ok((await names()).includes('before'));
  assert.ok((await names()).includes('after'));
});
