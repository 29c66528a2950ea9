// Catalogs are moved away from clusters that two servers write to all the time: no row is lost or doubled, also when one of the servers is
// frozen meanwhile.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { deadlineMs, eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../../postgresql.ts';
import { endOfTask, type Reply, type ServerProcess } from '../../server.ts';
import { newPlaces, type Places } from '../two_servers.ts';
import { availabilityIs, createWarehouse, register } from './cluster_server.ts';
import { RowWriter } from './row_writer.ts';

const catalog = '/api/v2/catalogs/lake';
const table = `${catalog}/databases/d/tables/t`;
const flags = ['--cluster-hosts=127.0.0.1'];
const timeout = deadlineMs(180_000);

describe('a catalog of a cluster that two servers write to', { skip: missingRing || missingPostgresql }, () => {
  let rings: Ring[] = [];
  let places: Places;
  let one: ServerProcess;
  let two: ServerProcess;
  before(async () => {
    [rings, places] = await Promise.all([Promise.all([startRing(1), startRing(1)]), newPlaces()]);
    one = await places.one.start(flags);
    two = await places.two.start(flags);
    for (const [index, name] of ['first', 'second'].entries()) {
      const node = rings[index]?.nodes[0];
      assert.ok(node);
      await createWarehouse(one, name, clusters.shards);
      (await register(one, name, 'node', node)).is(201);
      for (const server of [one, two]) await availabilityIs(server, name, ['node'], 'available');
    }
    (await one.post('/api/v2/catalogs', { name: 'lake', warehouse: 'first' })).is(201);
    (await one.post(`${catalog}/databases`, { name: 'd' })).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'text', type: 'STRING' },
    ];
    for (const name of ['t', 'quiet']) (await one.post(`${catalog}/databases/d/tables`, { name, columns })).is(201);
    (await query(one, "INSERT INTO d.quiet SELECT number, 'n' FROM numbers(5000)")).is(200);
    await eventually('the other server knows the catalog', async () => (await two.get(table)).status === 200);
  });
  after(async () => {
    await one?.close();
    await two?.close();
    for (const ring of rings) await ring.close();
    places?.remove();
  });

  const query = (server: ServerProcess, sql: string): Promise<Reply> => server.post(`${catalog}/query`, { sql });
  const move = async (server: ServerProcess, warehouse: string): Promise<Reply> =>
    endOfTask(server, (await server.post(`${catalog}/move`, { warehouse, pauseSeconds: 60 })).is(202).at('uri'));

  /** Every acknowledged row once, and no other one of these writers. */
  async function requireExact(writers: readonly RowWriter[], first: number): Promise<void> {
    const reply = await query(one, `SELECT id, count(*) FROM d.t WHERE id >= ${first} GROUP BY id ORDER BY id`);
    const found = reply.is(200).at<[number, number][]>('rows');
    const expected = writers.flatMap(({ acknowledged }) => acknowledged).sort((a, b) => a - b);
    assert.deepEqual(
      found.filter(([, count]) => count !== 1),
      [],
    );
    assert.deepEqual(
      found.map(([id]) => id),
      expected,
    );
    assert.ok(writers.every(({ acknowledged }) => acknowledged.length > 0));
  }

  test('is moved to another cluster and to DuckDB, and no row is lost or doubled', { timeout }, async (t) => {
    const writers = [new RowWriter(one, table, 1_000_000), new RowWriter(two, table, 2_000_000)];
    for (const [server, warehouse] of [
      [two, 'second'],
      [one, 'default'],
    ] as const) {
      const moved = (await move(server, warehouse)).is(200, '0', { state: 'succeeded' });
      assert.equal(moved.at('result', 'to'), warehouse);
      (await query(two, 'SELECT count(*) FROM d.quiet')).is(200, '0', { rows: [[5000]] });
    }
    for (const writer of writers) await writer.end();
    t.diagnostic(JSON.stringify(writers.map(({ acknowledged, refused }) => [acknowledged.length, refused])));
    await requireExact(writers, 1_000_000);
  });

  test('is moved while the other server is frozen', { timeout }, async () => {
    (await move(one, 'second')).is(200, '0', { state: 'succeeded' });
    const writers = [new RowWriter(one, table, 3_000_000), new RowWriter(two, table, 4_000_000)];
    const written = () => writers[1]?.acknowledged.length ?? 0;
    await eventually('it writes', () => written() > 3);
    two.child.kill('SIGSTOP');
    const moved = await move(one, 'first');
    two.child.kill('SIGCONT');
    moved.is(200, '0', { state: 'succeeded' });
    const before = written();
    await eventually('it writes to the new warehouse', () => written() > before + 3, 30_000);
    for (const writer of writers) await writer.end();
    await requireExact(writers, 3_000_000);
  });
});
