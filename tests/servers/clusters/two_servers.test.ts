// Two servers on one store and one cluster: a backend that is disabled through one of them gets no statement of the other that has heard of it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../../postgresql.ts';
import type { Reply, ServerProcess } from '../../server.ts';
import { newPlaces, type Places } from '../two_servers.ts';
import { availabilityIs, backendsOf, registerAll } from './cluster_server.ts';

const readAfter = 'x-service-read-after';
const rounds = 4;
/** Sent at the same time: they are distributed to the backends in use. */
const statementsOfRound = 6;
const queryLog = `<clickhouse>
  <query_log><database>system</database><table>query_log</table></query_log>
</clickhouse>`;

describe('a cluster of two servers', { skip: missingRing || missingPostgresql }, () => {
  let ring: Ring;
  let places: Places;
  let one: ServerProcess;
  let two: ServerProcess;
  before(async () => {
    [ring, places] = await Promise.all([startRing(3, { files: { 'config.d/query_log.xml': queryLog } }), newPlaces()]);
    one = await places.one.start(['--cluster-hosts=127.0.0.1']);
    two = await places.two.start(['--cluster-hosts=127.0.0.1']);
    await registerAll(one, 'cluster', ring, clusters.copies);
    (await one.post('/api/v2/catalogs', { name: 'sales', warehouse: 'cluster' })).is(201);
    await eventually('the other server knows the catalog', async () => {
      const { status } = await two.get('/api/v2/catalogs/sales');
      return status === 200;
    });
    await availabilityIs(two, 'cluster', ['node1', 'node2', 'node3'], 'available');
  });
  after(async () => {
    await one?.close();
    await two?.close();
    await ring?.close();
    places?.remove();
  });

  /** Statements with a mark, as soon as the server knows what the response tells. */
  const statements = (server: ServerProcess, { headers }: Pick<Reply, 'headers'>, mark: string) =>
    Promise.all(
      Array.from({ length: statementsOfRound }, async (_, index) => {
        const reply = await server.request('POST', '/api/v2/catalogs/sales/query', {
          body: { sql: `SELECT '${mark} ${index}'` },
          headers: { [readAfter]: headers[readAfter] as string | undefined },
        });
        reply.is(200, '0', { rows: [[`${mark} ${index}`]] });
      }),
    );

  /** How many statements with a mark a node has run, by its own log. */
  async function runBy(node: number, mark: string): Promise<number> {
    const url = ring.nodes[node]?.url;
    assert.ok(url);
    const ask = async (sql: string) => {
      const response = await fetch(url, { method: 'POST', body: sql });
      const text = await response.text();
      assert.ok(response.ok, text);
      return text;
    };
    await ask('SYSTEM FLUSH LOGS');
    const own = "type = 'QueryFinish' AND query NOT LIKE '%query_log%'";
    return Number(await ask(`SELECT count() FROM system.query_log WHERE ${own} AND query LIKE '%${mark}%'`));
  }

  test('a backend that is disabled through one server gets no statement of the other', async () => {
    for (let round = 0; round < rounds; round++) {
      const disabled = (await one.post(`${backendsOf('cluster')}/node1/disable`)).is(200);
      await statements(two, disabled, 'while disabled');
      const enabled = (await one.post(`${backendsOf('cluster')}/node1/enable`)).is(200);
      await availabilityIs(two, 'cluster', ['node1'], 'available');
      await statements(two, enabled, 'while enabled');
    }
    assert.equal(await runBy(0, 'while disabled'), 0);
    assert.ok((await runBy(1, 'while disabled')) > 0);
    assert.ok((await runBy(0, 'while enabled')) > 0);
  });

  test('nor while the other server waits for a backend that does not respond', async () => {
    ring.nodes[2]?.freeze();
    await availabilityIs(two, 'cluster', ['node3'], 'unavailable');
    const backends = backendsOf('cluster');
    const changes = [one.patch(`${backends}/node3`, { comment: 'frozen' })];
    const becomes = (path: string, field: string, value: unknown) =>
      eventually(`the other server shows ${value}`, async () => (await two.get(path)).at(field) === value);
    await becomes(`${backends}/node3`, 'comment', 'frozen');
    changes.push(one.post(`${backends}/node1/disable`));
    await becomes('/api/v2/warehouses/cluster', 'availableBackendCount', 1);
    await statements(two, { headers: {} }, 'while another is frozen');
    for (const reply of await Promise.all(changes)) reply.is(200);
    assert.equal(await runBy(0, 'while another is frozen'), 0);
    assert.ok((await runBy(1, 'while another is frozen')) > 0);
  });
});
