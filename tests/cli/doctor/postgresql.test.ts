// `doctor` with a metadata store in PostgreSQL: what is good, and each trouble of the database with what to do; and with a node of a ClickHouse
// cluster that is killed, while the server runs and when it is stopped.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { postgresqlFindings } from '../../../src/cli/doctor/postgresql_checks.ts';
import { readSettings } from '../../../src/settings/read_settings.ts';
import { schemaVersion } from '../../../src/store/migrations/migrate.ts';
import type { PostgresqlLocation } from '../../../src/store/postgresql/postgresql_url.ts';
import { deadlineMs } from '../../deadline.ts';
import { clusterHosts, createClusterWarehouse } from '../../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, startRing } from '../../engines/clickhouse/ring/ring.ts';
import {
  missingPostgresql,
  newDatabase,
  newStoreDatabase,
  runInCluster,
  runInDatabase,
  startStandby,
  stopPostgresql,
  urlOfDatabase,
  userWithPassword,
} from '../../postgresql.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { main } from '../remote/command_process.ts';

const root = mkdtempSync(join(tmpdir(), 'tabularium-doctor-'));
after(() => rmSync(root, { recursive: true, force: true }));

const foundAt = async (store: string, more: Readonly<Record<string, string>> = {}) =>
  postgresqlFindings(readSettings([`--data-dir=${join(root, 'none')}`], { TABULARIUM_STORE: store, ...more }));
const foundIn = (location: PostgresqlLocation) => foundAt(urlOfDatabase(location));

/** The findings that something is wrong, by their checks. */
const wrongOf = (findings: readonly Finding[]) =>
  Object.fromEntries(findings.filter(({ state }) => state === 'wrong').map(({ check, message }) => [check, message]));
/** Exactly this is wrong. */
function requireWrong(findings: readonly Finding[], check: string, message: RegExp): void {
  assert.deepEqual(Object.keys(wrongOf(findings)), [check], JSON.stringify(findings));
  assert.match(wrongOf(findings)[check] ?? '', message);
}

async function doctor(words: readonly string[], preload?: string): Promise<readonly Finding[]> {
  const preloads = preload === undefined ? [] : ['--import', `data:text/javascript,${encodeURIComponent(preload)}`];
  const child = spawn(process.execPath, [...preloads, main, 'doctor', '--json', ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: deadlineMs(60_000),
  });
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return (JSON.parse(output) as { readonly findings: readonly Finding[] }).findings;
}

describe('a store in PostgreSQL', { skip: missingPostgresql }, () => {
  test('an empty database, and one that servers use, are good', async () => {
    const empty = await foundIn(await newDatabase());
    assert.deepEqual(
      [wrongOf(empty), empty.map(({ check }) => check)],
      [{}, ['store', 'clock', 'schema', 'connections']],
    );
    assert.deepEqual(wrongOf(await foundIn(await newStoreDatabase())), {});
  });

  test('a database that cannot be used is named with the reason', async () => {
    const location = await newStoreDatabase();
    await runInCluster(`create user ${userWithPassword} password 'correct horse'`);
    const urlOf = (user: string) => urlOfDatabase({ ...location, user });
    requireWrong(
      await foundAt(urlOf(`${userWithPassword}:wrong`)),
      'store',
      /refuses the user .*the password in PGPASSWORD/,
    );
    requireWrong(await foundAt(urlOf('nobody')), 'store', /refuses the user .*correct the user/);
    requireWrong(
      await foundAt(urlOf(`${userWithPassword}:correct%20horse`)),
      'schema',
      /may not create tables .*GRANT CREATE/,
    );
    requireWrong(
      await foundIn({ ...location, database: 'missing' }),
      'store',
      /there is no database missing .*create it/,
    );
    await runInCluster("create database latin template template0 encoding 'LATIN1' locale 'C' locale_provider libc");
    requireWrong(await foundIn({ ...location, database: 'latin' }), 'store', /encoding LATIN1: create one with UTF8/);
    const standby = await startStandby();
    requireWrong(await foundIn({ ...location, host: standby.host }), 'store', /accepts no changes .*name the primary/);
    const start = await stopPostgresql();
    try {
      requireWrong(await foundIn(location), 'store', /cannot be reached at .*check that it runs/);
    } finally {
      await start();
    }
  });

  test('a schema of another release is named with what to do', async () => {
    const location = await newStoreDatabase();
    await runInDatabase(location, `delete from schema_versions where version > ${schemaVersion - 3}`);
    requireWrong(await foundIn(location), 'schema', /have version \d+, and this release version \d+: .*Take a backup/);
    await runInDatabase(
      location,
      `insert into schema_versions values (${schemaVersion + 1}, 'later', 0); update schema_range set oldest_server = ${schemaVersion + 1}`,
    );
    requireWrong(await foundIn(location), 'schema', /start the release that wrote it, or a later one/);
    await runInDatabase(location, `update schema_range set oldest_server = ${schemaVersion}`);
    assert.deepEqual(wrongOf(await foundIn(location)), {});
  });

  test('too few connections are named, and none that is free', async () => {
    const location = await newStoreDatabase();
    await runInCluster(`alter database ${location.database} connection limit 8`);
    requireWrong(
      await foundIn(location),
      'connections',
      /permits 8 connections .*uses up to 12: raise max_connections/,
    );
    assert.deepEqual(wrongOf(await foundAt(urlOfDatabase(location), { TABULARIUM_STORE_CONNECTIONS: '4' })), {});
    await runInCluster(
      `create role limited login connection limit 0; grant all on database ${location.database} to limited`,
    );
    requireWrong(
      await foundAt(urlOfDatabase({ ...location, user: 'limited' })),
      'store',
      /has no free connection .*raise its max_connections/,
    );
  });

  test('a wrong clock is named', async () => {
    const words = [
      `--store=${urlOfDatabase(await newStoreDatabase())}`,
      `--data-dir=${join(root, 'none')}`,
      '--port=0',
    ];
    const late = 'const now = Date.now; Date.now = () => now() - 3600000;';
    requireWrong(await doctor(words, late), 'clock', /is 3600 s behind that of the database: let NTP set both/);
  });
});

describe('a cluster with a killed node', { skip: missingRing || missingPostgresql }, () => {
  let server: ServerProcess;
  let ring: Awaited<ReturnType<typeof startRing>>;
  let flags: readonly string[];
  before(async () => {
    flags = [`--store=${urlOfDatabase(await newDatabase())}`, `--cluster-hosts=${clusterHosts}`];
    [ring, server] = await Promise.all([startRing(2), startProcess(flags, join(root, 'data'))]);
    await createClusterWarehouse(server.client, ring, { name: 'ring', cluster: 'copies' });
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  test('it is named while the server runs, and when it is stopped, as is a key that is gone', async () => {
    const words = [...flags, `--data-dir=${server.dataDirectory}`, `--port=${new URL(server.url).port}`];
    const lost = () => ring.nodes[1]?.url ?? '';
    assert.deepEqual(wrongOf(await doctor(words)), {});
    await ring.nodes[1]?.kill();
    // A decommission would wait for it.
    const expected = new RegExp(
      `${lost().slice('http://'.length)} does not accept connections .*start it, or .* \`tabularium backends disable\``,
    );
    requireWrong(await doctor(words), 'backend node-2', expected);
    await server.close();
    rmSync(join(server.dataDirectory, 'secret.key'));
    const stopped = await doctor(words);
    assert.match(wrongOf(stopped)['backend node-2'] ?? '', expected);
    assert.match(wrongOf(stopped).secrets ?? '', /secret\.key does not exist: .*restore it/);
    assert.deepEqual(Object.keys(wrongOf(stopped)).toSorted(), ['backend node-2', 'secrets']);
  });
});
