// Servers that are lost after they stored rows and before they record that: the outcome of the insert is unknown, and its repetition stores nothing
// again. If it were said that nothing was applied, a repeated request would be a new one.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { after, describe, test } from 'node:test';
import { Cluster } from '../../../src/engines/clickhouse/cluster/cluster.ts';
import { AppliedSteps } from '../../../src/engines/clickhouse/steps/applied_steps.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure, outcomeOf } from '../../../src/standard/failure.ts';
import { definitionOf, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { askNode } from './ring/ask_node.ts';
import { clusters, missingRing, type RingNode, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT' });
const { signal } = new AbortController();
const clearedMs = 60_000;

interface Keyed {
  readonly a: number;
  readonly step: string;
}

/** Passes requests on to a node, and calls `stored` when the node has answered an insert into the table `t`. */
async function proxyTo(node: RingNode, stored: () => void) {
  const proxy = createServer(async (request, response) => {
    const body = await buffer(request);
    const { method, headers } = request;
    const passed = httpRequest(`${node.url}${request.url}`, { method, headers }, (answer) => {
      if (/^INSERT INTO .+\.`t` /.test(body.toString())) stored();
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    passed.end(body);
  });
  const listen = async (port: number) => {
    proxy.listen(port, '127.0.0.1');
    await once(proxy, 'listening');
  };
  await listen(0);
  const { port } = proxy.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    /** From now on connections are refused. */
    close() {
      proxy.close();
      proxy.closeAllConnections();
    },
    open: () => listen(port),
  };
}

describe('servers that are lost before they record an insert', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(3);
  let isArmed = false;
  const proxies: Awaited<ReturnType<typeof proxyTo>>[] = [];
  for (const [index, node] of ring.nodes.entries())
    proxies.push(
      await proxyTo(node, () => {
        if (!isArmed) return;
        isArmed = false;
        for (const [other, proxy] of proxies.entries()) if (other !== index) proxy.close();
      }),
    );
  const world = await openEngine({}, engineOn(accessTo(proxies, clusters.copies), proxies));
  after(async () => {
    await world.close();
    for (const proxy of proxies) proxy.close();
    await ring.close();
  });
  const { engine, catalog, database } = world;

  test('its outcome is unknown, and its repetition stores nothing', async () => {
    const table = { catalog, database, table: 't' };
    await world.change({ kind: 'createTable', table, definition });
    const batch = rowReader(definition.columns).read([[1], [2]]);
    const steps = [{ step: `key/${randomUUID()}`, rowCount: 2 }];
    const insert = () => engine.insertRows(table, batch, { signal, definition, steps });
    isArmed = true;
    await assert.rejects(insert(), (error) => {
      assert.ok(error instanceof Failure);
      assert.equal(outcomeOf(error), 'unknown', `${error.code} ${error.message}`);
      return true;
    });
    assert.equal(isArmed, false);
    for (const proxy of proxies) await proxy.open().catch(() => undefined);
    await eventually('the insert is answered', () => insert().catch(() => false), clearedMs);
    assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM t'), [[2]]);
  });

  test('what one server has no record of is not done again, when its rows have been removed', async () => {
    const table = { catalog, database, table: 'removed' };
    const created = () => world.change({ kind: 'createTable', table, definition }).then(() => true);
    await eventually('the table is created', () => created().catch(() => false), clearedMs);
    const batch = rowReader(definition.columns).read([[1], [2]]);
    const steps = [{ step: `key/${randomUUID()}`, rowCount: 2 }];
    await engine.insertRows(table, batch, { signal, definition, steps });
    const isEnd = `state = 'applied' AND step = '${steps[0]?.step}'`;
    const ask = (index: number, body: string) =>
      fetch(ring.nodes[index]?.url ?? '', { method: 'POST', body }).then((response) => response.text());
    await eventually('all servers have recorded it', async () => {
      const found = [0, 1, 2].map((index) => ask(index, `SELECT count() FROM _tabularium.steps WHERE ${isEnd}`));
      return (await Promise.all(found)).every((text) => text.trim() === '1');
    });
    await ask(2, `ALTER TABLE _tabularium.steps DELETE WHERE ${isEnd} SETTINGS mutations_sync = 2`);
    await world.change({ kind: 'truncateTable', table });
    // Which of the servers answer first is not certain.
    for (let n = 0; n < 10; n++) assert.equal(await engine.settleWrites?.(catalog, { signal }), 0);
    assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM removed'), [[0]]);
  });

  test('inserts that a single server has recorded together are not done, if one of them was repeated alone', async () => {
    const table = { catalog, database, table: 'grouped' };
    await world.change({ kind: 'createTable', table, definition });
    const keys = [1, 2].map((a) => ({ a, step: `key/${randomUUID()}` })) as [Keyed, Keyed];
    const insert = (...group: Keyed[]) => {
      const steps = group.map(({ step }) => ({ step, rowCount: 1 }));
      const rows = rowReader(definition.columns).read(group.map(({ a }) => [a]));
      return engine.insertRows(table, rows, { signal, definition, steps });
    };
    const ask = (index: number, body: string) => askNode(ring.nodes[index], body);
    const recorded = `step IN (${keys.map(({ step }) => `'${step}'`)})`;
    await insert(...keys);
    // As if the record of the group had reached the first server only, and nothing had been inserted.
    await ask(0, `CREATE TABLE _tabularium.kept AS _tabularium.steps`);
    const columns = 'catalog, step, state, row_count, batch, payload';
    const pending = `SELECT ${columns} FROM _tabularium.steps WHERE ${recorded} AND state = 'pending'`;
    await ask(0, `INSERT INTO _tabularium.kept (${columns}) ${pending}`);
    for (const index of [0, 1, 2])
      await ask(index, `ALTER TABLE _tabularium.steps DELETE WHERE ${recorded} SETTINGS mutations_sync = 2`);
    await world.change({ kind: 'truncateTable', table });
    const [first, second] = keys;
    await insert(first);
    await ask(0, `INSERT INTO _tabularium.steps (${columns}) SELECT ${columns} FROM _tabularium.kept`);
    await ask(0, 'DROP TABLE _tabularium.kept');
    for (let n = 0; n < 10; n++) assert.equal(await engine.settleWrites?.(catalog, { signal }), 0);
    assert.deepEqual(await rowsOf(world, 'SELECT a FROM grouped'), [[1]]);
    for (let n = 0; n < 5; n++) for (const key of [first, second]) await insert(key);
    assert.deepEqual(await rowsOf(world, 'SELECT a FROM grouped ORDER BY a'), [[1], [2]]);
  });

  test('a later refusal that a single server has reaches the others when its step is looked for', async () => {
    const cluster = new Cluster(accessTo(proxies, clusters.copies), {
      hosts: undefined,
      owns: async () => () => false,
      completeLeft: async () => 0,
    });
    await cluster.open();
    try {
      const applied = new AppliedSteps(cluster);
      const refusal = { step: randomUUID(), state: 'refused', batch: 'b' } as const;
      await applied.record(catalog, [{ ...refusal, attempt: '1' }]);
      const isIt = `step = '${refusal.step}' AND state = 'refused'`;
      const counts = (attempt: string) =>
        Promise.all(
          [0, 1, 2].map((index) =>
            askNode(ring.nodes[index], `SELECT countIf(attempt = '${attempt}') FROM _tabularium.steps WHERE ${isIt}`),
          ),
        );
      await eventually('all have the first one', async () => (await counts('1')).every((n) => n.trim() === '1'));
      const columns = 'catalog, step, state, batch';
      const later = `INSERT INTO _tabularium.steps (${columns}, attempt) SELECT ${columns}, '2' FROM _tabularium.steps WHERE ${isIt}`;
      await askNode(ring.nodes[0], later);
      await eventually('most have the later one', async () => {
        await applied.find(catalog, [refusal.step]);
        return (await counts('2')).filter((n) => n.trim() !== '0').length >= 2;
      });
    } finally {
      await cluster.close();
    }
  });

  test('what a single server may have recorded is unknown, because it is completed later', async () => {
    const owns = async () => () => false;
    const cluster = new Cluster(accessTo(proxies, clusters.copies), {
      hosts: undefined,
      owns,
      completeLeft: async () => 0,
    });
    await cluster.open();
    try {
      const [, ...others] = proxies;
      for (const proxy of others) proxy.close();
      const record = { step: randomUUID(), state: 'pending', rowCount: 1, batch: 'b', payload: '{}' } as const;
      // Once the end of the connections has been noticed, new ones are refused.
      await eventually('connections are refused', () =>
        fetch(others[0]?.url ?? '').then(
          () => false,
          () => true,
        ),
      );
      await assert.rejects(new AppliedSteps(cluster).record(catalog, [record]), (error) => {
        assert.ok(error instanceof Failure);
        assert.equal(outcomeOf(error), 'unknown', `${error.code} ${error.message}`);
        return true;
      });
    } finally {
      await cluster.close();
    }
  });
});
