// The configuration of ClickHouse in deploy/compose: a server of the current version starts with it, and its only user can do what the servers of
// Tabularium need, and nothing that leads out of the cluster. The grants of the chart and in docs/clickhouse.md are the same.
// The tests of warehouses run as this user, too (tests/engines/clickhouse/ring/deployed_user.ts).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { start } from '../../server.ts';
import { chartDirectory, composeDirectory, root } from './tools.ts';

const directory = mkdtempSync(join(tmpdir(), 'tabularium-clickhouse-'));
const secrets = join(directory, 'secrets');
after(() => rmSync(directory, { recursive: true }));

const textOf = (file: string): string =>
  readFileSync(join(composeDirectory, 'clickhouse', file), 'utf8').replaceAll('/run/secrets', secrets);

/** No Keeper runs there, without which a server of the definition does not register, unless the copies are written without replication. */
const withoutKeeper = (text: string): string =>
  text.replace(/<zookeeper>.*<\/zookeeper>/s, '').replace(/<internal_replication>.*<\/internal_replication>/, '');

/** What the packages of ClickHouse configure by default, which the files of the deployment change. */
const packaged = {
  'config.d/0_packaged.xml': `<clickhouse>
    <http_port>8123</http_port><tcp_port>9000</tcp_port><mysql_port>9004</mysql_port><postgresql_port>9005</postgresql_port>
    <interserver_http_port>9009</interserver_http_port><distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
    <users_config>users.xml</users_config>
  </clickhouse>`,
  'users.xml': `<clickhouse>
    <profiles><default/></profiles><quotas><default/></quotas>
    <users><default><password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
  </clickhouse>`,
};

describe('ClickHouse of the Compose file', { skip: missingRing }, () => {
  let ring: Ring;
  let url: string;
  const run = async (sql: string): Promise<{ readonly isOk: boolean; readonly text: string }> => {
    const password = readFileSync(join(secrets, 'clickhouse_password'), 'utf8');
    const authorization = `Basic ${Buffer.from(`tabularium:${password}`).toString('base64')}`;
    const response = await fetch(url, { method: 'POST', headers: { authorization }, body: sql });
    return { isOk: response.ok, text: (await response.text()).trimEnd() };
  };

  before(async () => {
    execFileSync('bash', [join(composeDirectory, 'make_secrets.sh'), secrets]);
    // A node made of the library runs its own statement as the user `default`, which a server does not.
    const users = textOf('users.xml').replace('<default remove="remove"/>', '');
    ring = await startRing(1, {
      withoutNativePorts: true,
      files: {
        ...packaged,
        'config.d/tabularium.xml': withoutKeeper(textOf('cluster.xml')),
        'users.d/tabularium.xml': users,
      },
      environment: { TABULARIUM_SHARD: '1', TABULARIUM_REPLICA: 'clickhouse-2' },
    });
    url = ring.nodes[0]?.url ?? '';
  });
  after(() => ring?.close());

  test('the default user is removed', () => {
    assert.match(textOf('users.xml'), /<default remove="remove"\/>/);
  });

  test('knows its cluster and its place in it', async () => {
    const hosts = await run(
      "SELECT host_name, port FROM system.clusters WHERE cluster = 'tabularium' ORDER BY host_name",
    );
    assert.equal(hosts.text, 'clickhouse-1\t9440\nclickhouse-2\t9440\nclickhouse-3\t9440');
    assert.equal((await run("SELECT getMacro('shard'), getMacro('replica')")).text, '1\tclickhouse-2');
  });

  test('is accepted as a backend', async () => {
    const server = await start({ clusterHosts: '127.0.0.1' });
    try {
      const password = readFileSync(join(secrets, 'clickhouse_password'), 'utf8');
      const { warehouses } = server.client;
      await warehouses.create({
        name: 'cluster',
        engine: 'clickhouse',
        cluster: 'tabularium',
        user: 'tabularium',
        password,
      });
      const { backends } = warehouses('cluster');
      await backends.create({ name: 'clickhouse-2', location: url });
      await eventually('the backend is available', async () => {
        const { availability } = await backends('clickhouse-2').get();
        return availability === 'available';
      });
    } finally {
      await server.close();
    }
  });

  test('its user authenticates with the generated password only', async () => {
    assert.equal((await run('SELECT currentUser()')).text, 'tabularium');
    const authorization = `Basic ${Buffer.from('tabularium:guess').toString('base64')}`;
    assert.equal((await fetch(`${url}/?query=SELECT+1`, { headers: { authorization } })).ok, false);
  });

  test('its user may do what the servers need', async () => {
    const statements = [
      'CREATE DATABASE shop',
      'CREATE TABLE shop.orders__local (id Int64, amount Decimal(10, 2)) ENGINE = MergeTree ORDER BY id',
      'CREATE TABLE shop.orders (id Int64, amount Decimal(10, 2)) ENGINE = Distributed(tabularium, shop, orders__local, id)',
      'INSERT INTO shop.orders__local VALUES (1, 2.5)',
      'ALTER TABLE shop.orders__local ADD COLUMN note String',
      'ALTER TABLE shop.orders__local DELETE WHERE id = 7 SETTINGS mutations_sync = 1',
      "KILL MUTATION WHERE database = 'shop' AND mutation_id = 'none'",
      'OPTIMIZE TABLE shop.orders__local FINAL',
      'CHECK TABLE shop.orders__local SETTINGS check_query_single_value_result = 1',
      'CREATE OR REPLACE TABLE shop.orders AS shop.orders__local ENGINE = Distributed(tabularium, shop, orders__local, id)',
      'RENAME DATABASE shop TO market',
      'RENAME DATABASE market TO shop',
      'RENAME TABLE shop.orders__local TO shop.renamed__local',
      'EXCHANGE TABLES shop.orders AND shop.renamed__local',
      'CREATE VIEW shop.large AS SELECT id FROM shop.renamed__local',
      'SELECT count() FROM system.parts',
      'SELECT count() FROM system.replicas',
      'SELECT count() FROM system.processes',
      'SELECT count() FROM system.mutations',
      "KILL QUERY WHERE query_id = 'none' ASYNC",
      'TRUNCATE TABLE shop.orders',
      'DROP VIEW shop.large',
      'DROP TABLE shop.orders SYNC',
      'DROP DATABASE shop SYNC',
    ];
    for (const sql of statements) {
      const { isOk, text } = await run(sql);
      assert.ok(isOk, `${sql}: ${text}`);
    }
  });

  test('its user may not leave the cluster, administer it, or read a part of a result', async () => {
    const statements = [
      "SELECT * FROM file('/etc/passwd', LineAsString)",
      "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)",
      "SELECT * FROM s3('http://127.0.0.1:1/bucket/a.csv')",
      "SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
      'CREATE USER other',
      'GRANT SELECT ON *.* TO tabularium',
      'CREATE FUNCTION f AS (x) -> x',
      "CREATE DICTIONARY d (id UInt64) PRIMARY KEY id SOURCE(HTTP(url 'http://127.0.0.1:1/' format 'CSV')) LAYOUT(FLAT()) LIFETIME(0)",
      'SYSTEM SHUTDOWN',
      'SYSTEM DROP DNS CACHE',
    ];
    for (const sql of statements) {
      const { isOk, text } = await run(sql);
      assert.ok(!isOk, `${sql} succeeds`);
      assert.match(text, /ACCESS_DENIED/, sql);
    }
    assert.match((await run('SELECT 1 SETTINGS skip_unavailable_shards = 1')).text, /SETTING_CONSTRAINT_VIOLATION/);
  });
});

test('the chart grants the same, and the documents name the same', () => {
  const grantsOf = (text: string): readonly string[] => text.match(/^ *(?:<query>)?GRANT [^;<]*/gm) ?? [];
  const [ofCompose, ofChart] = [
    grantsOf(textOf('users.xml')),
    grantsOf(readFileSync(join(chartDirectory, 'files/clickhouse_grants.sql'), 'utf8')),
  ];
  const normalized = (grants: readonly string[]) => grants.map((grant) => grant.replace(/^.*?GRANT/, 'GRANT'));
  assert.ok(ofCompose.length > 3);
  assert.deepEqual(normalized(ofCompose), normalized(ofChart));
  const ofDocuments = grantsOf(readFileSync(join(root, 'docs/clickhouse.md'), 'utf8'));
  assert.deepEqual(
    ofDocuments.map((grant) => grant.replace(/ TO tabularium$/, '')),
    normalized(ofChart),
  );
});
