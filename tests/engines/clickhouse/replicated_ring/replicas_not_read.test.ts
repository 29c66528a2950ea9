// Replicas of a cluster with several shards that do not count: the other servers pick the replicas of other shards themselves, by their definition of
// the cluster, and know a table only by its name. No answer has rows of such a replica, and none lacks what it lacks.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cluster } from '../../../../src/engines/clickhouse/cluster/cluster.ts';
import { isUncounted, uncountedMark } from '../../../../src/engines/clickhouse/connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../../../../src/engines/clickhouse/connection/server.ts';
import { namesOf } from '../../../../src/engines/clickhouse/names.ts';
import { qualifiedName } from '../../../../src/engines/clickhouse/sql/identifiers.ts';
import { rowsOfParquet } from '../../../../src/engines/data_files/parquet_footer.ts';
import type { ClusterAccess } from '../../../../src/engines/port/engine.ts';
import { rowReader } from '../../../../src/query/rows/row_validation.ts';
import { codes } from '../../../../src/standard/codes.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { definitionOf, type EngineWorld, openEngine, rowsOf } from '../../../conformance/engine/engine_world.ts';
import { eventually } from '../../../deadline.ts';
import { start, type TestServer } from '../../../server.ts';
import { availabilityIs, backendsOf, createDatabase, registerAll } from '../../../servers/clusters/cluster_server.ts';
import { accessTo, engineOn } from '../engine.ts';
import { askNode } from '../ring/ask_node.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const nodes = ['node1', 'node2', 'node3', 'node4'];
const database = '/api/v2/catalogs/c/databases/d';
const formerRows = Array.from({ length: 40 }, (_, id) => [id]);
const rows = [[1], [2], [3]];
/** A query of the other shard picks one of two replicas: so many very probably meet the disabled one. */
const queriesMax = 12;
/** Each meets the replica with a probability of about a third. */
const readsMax = 4;
const timeoutMs = 5000;
const { signal } = new AbortController();

/** It owns none of the tables. */
async function openCluster(access: ClusterAccess): Promise<Cluster> {
  const owns = async () => () => false;
  const cluster = new Cluster(access, { hosts: undefined, owns, completeLeft: async () => 0 });
  await cluster.open();
  return cluster;
}

function requireUnavailable(error: unknown): void {
  if (!(error instanceof Failure) || codes[error.code].status !== 503) throw error;
}

function rethrowUnlessUncounted(error: unknown): void {
  if (!isUncounted(error)) throw error;
}

describe('replicas that do not count', { skip: missingOldestVersion }, () => {
  let ring: ReplicatedRing;
  before(async () => {
    ring = await startReplicatedRing({ version: '24.8', sessionMs: 4000, shards: [1, 1, 2, 2] });
  });
  after(async () => {
    await ring?.close();
  });

  test('a server that picks one is not asked again before the others', async () => {
    const cluster = await openCluster(accessTo(ring.servers, clusterName));
    try {
      await eventually('all servers are available', () => cluster.members().every(({ isAvailable }) => isAvailable));
      for (let round = 0; round < 2; round++)
        for (const change of ['', 'DROP DATABASE IF EXISTS not_there']) {
          const asked: string[] = [];
          const avoided = new Set<string>();
          // The last one does not.
          const work = async (server: ClickHouseServer) => {
            asked.push(server.name);
            if (change !== '') await server.text({ sql: change, timeoutMs });
            const sql = `SELECT toUInt8('${asked.length < nodes.length ? uncountedMark : 1}')`;
            return server.text({ sql, timeoutMs });
          };
          const begun = () => cluster.onAny(work, { isWhole: true, avoided }).catch(rethrowUnlessUncounted);
          // What has changed something is begun again by the caller.
          while ((await begun()) === undefined);
          assert.deepEqual(asked.toSorted(), nodes);
        }
    } finally {
      await cluster.close();
    }
  });

  describe('of a table', () => {
    let world: EngineWorld;
    let all: ClusterAccess;
    let backends: ClusterAccess['backends'];
    let inserted = 0;
    /** Of the tables, with the counts that follow from the number of rows. */
    const reads: Readonly<Record<string, (count: number) => unknown>> = {
      'SELECT count(*) FROM t': (count) => [[count]],
      'SELECT max(id), count(*) FROM t': (count) => [[count - 1, count]],
      'SELECT count(*) FROM t WHERE id >= 0': (count) => [[count]],
      'SELECT id FROM t ORDER BY id DESC LIMIT 1': (count) => [[count - 1]],
      'SELECT count(*) FROM v': (count) => [[count - 1]],
      'SELECT count(*) FROM w AS a JOIN t AS b ON a.id = b.id': (count) => [[count - 1]],
      'SELECT count(*) FROM u WHERE id IN (SELECT id FROM t)': (count) => [[count]],
      'SELECT 1 AS n, (SELECT count(*) FROM t) AS c': (count) => [[1, count]],
      'WITH x AS (SELECT id FROM t) SELECT count(*) FROM x UNION ALL SELECT count(*) FROM t': (count) => [
        [count],
        [count],
      ],
    };
    const tableRef = (table: string) => ({ catalog: world.catalog, database: world.database, table });
    const definition = definitionOf({ id: 'BIGINT' });
    const { columns } = definition;
    const local = (table: string) => {
      const { database: stored, localTable } = namesOf({
        catalog: world.catalog.name,
        database: world.database,
        table,
      });
      return qualifiedName({ database: stored, table: localTable });
    };
    /** Without it, a replica does not know that it lacks something. */
    const pulling = async (word: 'START' | 'STOP', index = 0) => {
      for (const table of ['t', 'u'])
        await askNode(ring.servers[index], `SYSTEM ${word} PULLING REPLICATION LOG ${local(table)}`);
    };
    const registered = async (found: ClusterAccess['backends']) => {
      backends = found;
      await world.engine.servers?.refresh();
    };
    const allAreAvailable = () =>
      eventually('all replicas count', async () =>
        nodes.every((node) => world.engine.status(node).availability === 'available'),
      );
    /** One by one, so that each shard gets rows by inserts of their own. */
    const insertRow = async () => {
      const batch = rowReader(columns).read([[inserted]]);
      await world.engine.insertRows(tableRef('t'), batch, { signal, definition, steps: [] });
      inserted++;
    };
    /** What another process finds of these tables. */
    const mayPickOther = async (...tables: readonly string[]) => {
      const cluster = await openCluster({ ...all, backends: () => backends() });
      try {
        await eventually(
          'three replicas count',
          () => cluster.members().filter(({ isAvailable }) => isAvailable).length === 3,
        );
        const namesOfTable = (table: string) => namesOf({ ...tableRef(table), catalog: world.catalog.name });
        return await Promise.all(tables.map((table) => cluster.mayPickOtherTable(namesOfTable(table))));
      } finally {
        await cluster.close();
      }
    };
    const requireCurrent = async () => {
      for (const [sql, expected] of Object.entries(reads))
        for (let n = 0; n < readsMax; n++) assert.deepEqual(await rowsOf(world, sql), expected(inserted), sql);
    };

    before(async () => {
      all = accessTo(ring.servers, clusterName);
      backends = all.backends;
      world = await openEngine({}, engineOn({ ...all, backends: () => backends() }, ring.servers));
      await allAreAvailable();
      for (const table of ['t', 'u', 'copied']) await world.table(table, { id: 'BIGINT' });
      const view = (name: string) => ({ catalog: world.catalog, database: world.database, view: name });
      await world.change({ kind: 'createView', view: view('v'), sql: 'SELECT id FROM t WHERE id > 0' });
      await world.change({ kind: 'createView', view: view('w'), sql: 'SELECT id FROM v' });
      await world.run('INSERT INTO u SELECT number FROM numbers(1000)');
      await world.run('INSERT INTO t SELECT number FROM numbers(20)');
      inserted = 20;
    });
    after(async () => {
      await world?.close();
    });

    /** The first replica of the first shard lacks what is written while `work` runs. */
    const without = async (found: ClusterAccess['backends'], work: () => Promise<void>) => {
      await registered(found);
      await pulling('STOP');
      try {
        await world.run(`INSERT INTO t SELECT number + ${inserted} FROM numbers(10)`);
        inserted += 10;
        await work();
      } finally {
        await pulling('START');
        await registered(all.backends);
        await allAreAvailable();
      }
    };

    test('one that is disabled is not read', async () => {
      const { backends: found } = accessTo(ring.servers, clusterName, (backend) => backend === 'node1');
      await without(found, async () => {
        await requireCurrent();
        for (let n = 1; n <= readsMax; n++) {
          const exported = await world.run('SELECT id FROM t', {
            into: { format: { kind: 'parquet', compression: 'zstd' } },
          });
          assert.equal(exported.rowCount, inserted);
          assert.equal((await world.engine.checksumTable({ ...tableRef('t'), columns }, { signal })).rows, inserted);
          const path = join(world.spool, randomUUID());
          await world.engine.writeCopy?.({ ...tableRef('t'), columns }, path, { signal });
          assert.equal(await rowsOfParquet(path), inserted);
          assert.equal((await world.run('INSERT INTO copied SELECT id FROM t')).rowCount, inserted);
          assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM copied'), [[n * inserted]]);
        }
        assert.equal((await world.run(`DELETE FROM t WHERE id >= ${inserted - 5}`)).rowCount, 5);
        inserted -= 5;
        // Rows of an insert are given to a replica that counts.
        const rowsThere = () => askNode(ring.servers[0], `SELECT count() FROM ${local('t')}`);
        const before = await rowsThere();
        for (let n = 0; n < 2 * readsMax; n++) await insertRow();
        assert.equal(await rowsThere(), before);
        await requireCurrent();
      });
    });

    test('one that is not registered is not read', () =>
      without(async () => (await all.backends()).filter(({ name }) => name !== 'node1'), requireCurrent));

    test('one that may have another table of the name is not given rows', async () => {
      const insert = (value: number) =>
        world.engine.insertRows(tableRef('again'), rowReader(columns).read([[value]]), {
          signal,
          definition,
          steps: [],
        });
      const acknowledged: number[] = [];
      await world.table('again', { id: 'BIGINT' });
      const server = world.engine.servers?.identityOf('node1');
      // The other servers reach it, and this product does not.
      const away = { location: 'http://127.0.0.1:1', disabled: true, server };
      await registered(async () =>
        (await all.backends()).map((backend) => (backend.name === 'node1' ? { ...backend, ...away } : backend)),
      );
      try {
        await world.change({ kind: 'dropTable', table: tableRef('again') });
        await world.table('again', { id: 'BIGINT' });
        assert.deepEqual(await mayPickOther('t', 'again'), [false, true]);
        for (let value = 0; value < 4; value++) {
          await insert(value);
          acknowledged.push(value);
        }
        await ring.servers[1]?.kill();
        for (let value = 4; value < 12; value++)
          await insert(value).then(() => acknowledged.push(value), requireUnavailable);
        await ring.servers[1]?.start();
      } finally {
        await registered(all.backends);
        await allAreAvailable();
      }
      assert.deepEqual(
        await rowsOf(world, 'SELECT id FROM again ORDER BY id'),
        acknowledged.map((value) => [value]),
      );
    });

    test('one that has not taken over an acknowledged insert is not read until it has', async () => {
      await pulling('STOP');
      try {
        const isRead = () => world.engine.status('node1').availability === 'available';
        // Until another replica has got a row first.
        for (let n = 0; n < 50 && isRead(); n++) await insertRow();
        assert.equal(isRead(), false);
        await requireCurrent();
      } finally {
        await pulling('START');
      }
      await allAreAvailable();
      await requireCurrent();
    });
  });

  describe('of a warehouse', () => {
    let server: TestServer;
    const disabled = `${backendsOf('w')}/node1`;

    before(async () => {
      server = await start({ clusterHosts: '127.0.0.1' });
      await registerAll(server, 'w', { nodes: ring.servers }, clusterName);
      await createDatabase(server, 'w');
    });
    after(async () => {
      await server?.close();
    });

    const create = async (name: string, content: readonly (readonly number[])[]) => {
      (await server.put(`${database}/tables/${name}`, { columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
      (await server.post(`${database}/tables/${name}/rows`, { rows: content })).is(201);
    };
    const isRead = async (name: string, count: number) => {
      for (let n = 0; n < queriesMax; n++) {
        const reply = await server.post(`${database}/query`, { sql: `SELECT count(*) FROM ${name}` });
        assert.deepEqual(reply.is(200).at('rows'), [[count]]);
      }
    };
    const hasTable = async (name: string) =>
      (await askNode(ring.servers[0], `SELECT count() FROM system.tables WHERE name = '${name}__local'`)) !== '0';
    const rename = async (name: string, newName: string) =>
      void (await server.post(`${database}/tables/${name}/rename`, { newName })).is(200);
    /** What takes the name from a table. */
    const takes: Readonly<Record<string, (name: string) => Promise<void>>> = {
      'is dropped': async (name) => void (await server.delete(`${database}/tables/${name}`)).is(200),
      'is purged': async (name) => void (await server.delete(`${database}/tables/${name}?purge=true`)).is(200),
      'gets another name': (name) => rename(name, `${name}_before`),
    };

    for (const [index, [what, take]] of Object.entries(takes).entries())
      test(`${what}: the next table of that name is read, also when it is written through all shards`, async () => {
        const name = `t${index}`;
        await create(name, formerRows);
        await create(`${name}_next`, rows);
        (await server.post(`${disabled}/disable`)).is(200);
        await take(name);
        await rename(`${name}_next`, name);
        await isRead(name, rows.length);
        const sql = `INSERT INTO ${name} SELECT id + 10 FROM ${name}`;
        (await server.post(`${database}/query`, { sql })).is(200);
        await isRead(name, 2 * rows.length);
        (await server.post(`${disabled}/enable`)).is(200);
        await availabilityIs(server, 'w', nodes, 'available');
        await isRead(name, 2 * rows.length);
      });

    test('it was away meanwhile: no table gets a name by which it has another one', async () => {
      await create('away', formerRows);
      await create('next', rows);
      (await server.post(`${disabled}/disable`)).is(200);
      await ring.servers[0]?.kill();
      (await server.delete(`${database}/tables/away`)).is(200);
      const renamed = () => server.post(`${database}/tables/next/rename`, { newName: 'away' });
      assert.equal((await renamed()).is(503, 'NOT_ENOUGH_BACKENDS').at('outcome'), 'notApplied');
      await isRead('next', rows.length);
      await ring.servers[0]?.start();
      await eventually('it does not have the dropped table any more', async () => !(await hasTable('away')));
      await eventually('a table can have the name', async () => {
        const reply = await renamed();
        return reply.status === 200 || void reply.is(503, 'NOT_ENOUGH_BACKENDS');
      });
      await isRead('away', rows.length);
      assert.equal((await server.get(disabled)).is(200).at('state'), 'disabled');
      (await server.post(`${disabled}/enable`)).is(200);
      await availabilityIs(server, 'w', nodes, 'available');
      await isRead('away', rows.length);
    });

    test('if no other replica of a shard is there, nothing is answered, until one is back', async () => {
      await create('stale', formerRows);
      await create('added', rows);
      (await server.post(`${disabled}/disable`)).is(200);
      const local = 'c__d.stale__local';
      await askNode(ring.servers[0], `SYSTEM STOP PULLING REPLICATION LOG ${local}`);
      (await server.post(`${database}/query`, { sql: 'INSERT INTO stale SELECT id + 100 FROM added' })).is(200);
      const count = formerRows.length + rows.length;
      await isRead('stale', count);
      await ring.servers[1]?.kill();
      const read = () => server.post(`${database}/query`, { sql: 'SELECT count(*) FROM stale' });
      for (let n = 0; n < 4; n++) {
        const refused = (await read()).is(503, 'REPLICAS_UNAVAILABLE');
        assert.deepEqual(refused.at('tables'), ['c.d.stale']);
        assert.deepEqual(refused.at('tablets'), [{ table: 'c.d.stale', tabletId: '1' }]);
      }
      await ring.servers[1]?.start();
      await eventually('it is read again', async () => {
        const reply = await read();
        if (reply.status !== 200) return void reply.is(503, 'REPLICAS_UNAVAILABLE');
        assert.deepEqual(reply.at('rows'), [[count]]);
        return true;
      });
      await askNode(ring.servers[0], `SYSTEM START PULLING REPLICATION LOG ${local}`);
      (await server.post(`${disabled}/enable`)).is(200);
      await availabilityIs(server, 'w', nodes, 'available');
      await isRead('stale', count);
    });
  });
});
