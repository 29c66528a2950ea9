// The staging tables of a write have all rows of the statement that succeeded, and no others. If a replica is lost meanwhile, the other servers lose them
// at once, and the replica when it is back.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { admissionRequest } from '../../../admission_request.ts';
import { openEngine, rowsOf } from '../../../conformance/engine/engine_world.ts';
import { eventually } from '../../../deadline.ts';
import { accessTo, engineOn } from '../engine.ts';
import { startCuttingProxy } from '../ring/cutting_proxy.ts';
import { clusterName, missingOldestVersion, type RingServer, startReplicatedRing } from './replicated_ring.ts';

const clearedMs = 60_000;
/** In several blocks. */
const manyRows = 6_000_000;
const publishing = /ALTER TABLE .* ATTACH PARTITION/;

describe('staging tables', { skip: missingOldestVersion }, async () => {
  if (missingOldestVersion !== false) return;
  const ring = await startReplicatedRing({ version: '24.8', sessionMs: 4000 });
  const proxies = await Promise.all(ring.servers.map(({ url }) => startCuttingProxy(url)));
  const world = await openEngine({}, engineOn(accessTo(proxies, clusterName), proxies));
  after(async () => {
    await world.close();
    for (const proxy of proxies) proxy.close();
    await ring.close();
  });

  async function stagedOn({ url }: RingServer): Promise<string> {
    const body = `SELECT name FROM system.tables WHERE database = '_tabularium' AND startsWith(name, 'load_') FORMAT TSV`;
    return (await fetch(url, { method: 'POST', body })).text();
  }

  test('have equal rows as often as they were selected', async () => {
    await world.table('selected', { a: 'INT' });
    const { rowCount } = await world.run(`INSERT INTO selected SELECT 7 FROM numbers(${manyRows})`);
    assert.deepEqual([rowCount, await rowsOf(world, 'SELECT count(*) FROM selected')], [manyRows, [[manyRows]]]);
  });

  test('have the rows of a file once, although a first statement has failed at the last of them', async () => {
    const { catalog, database } = world;
    const path = join(world.spool, `${randomUUID()}.csv`);
    // The first statement expects texts in their usual forms.
    writeFileSync(path, `a\n${'7\n'.repeat(manyRows - 1)}Infinity\n`);
    const work = {
      table: { catalog, database, table: 'loaded' },
      definition: await world.table('loaded', { a: 'DOUBLE' }),
      file: { path, format: 'csv', csv: { header: true } },
      mode: 'append',
      errorsMax: 0,
      dryRun: false,
      rejectsPath: join(world.spool, 'rejects'),
      step: randomUUID(),
    } as const;
    const { rowsLoaded } = await world.engine.load(work, { ...admissionRequest, signal: new AbortController().signal });
    assert.deepEqual([rowsLoaded, await rowsOf(world, 'SELECT count(*) FROM loaded')], [manyRows, [[manyRows]]]);
  });

  test('are removed where they can be, and from a replica that was lost when it is back', async () => {
    await world.table('t', { a: 'INT' });
    let lost: RingServer | undefined;
    for (const [index, proxy] of proxies.entries())
      proxy.holdOnce(publishing, async () => {
        lost = ring.servers[(index + 1) % proxies.length];
        await lost?.kill();
      });
    await world.run('INSERT INTO t SELECT number FROM numbers(100)');
    assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM t'), [[100]]);
    assert.ok(lost);
    for (const server of ring.servers) if (server !== lost) assert.equal(await stagedOn(server), '', server.name);
    await lost.start();
    assert.match(await stagedOn(lost), /^load_/);
    const returned = lost;
    await eventually('it has removed them', async () => (await stagedOn(returned)) === '', clearedMs);
  });

  test('of a write that begins while a replica is away are removed', async () => {
    await ring.servers[2]?.kill();
    await eventually('it is lost', () => world.engine.status('node3').availability === 'unavailable');
    await world.run('INSERT INTO t SELECT number FROM numbers(100)');
    for (const server of ring.servers.slice(0, 2)) assert.equal(await stagedOn(server), '', server.name);
  });
});
