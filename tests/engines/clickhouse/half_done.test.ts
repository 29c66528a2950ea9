// Changes that the loss of a server leaves half done: it has missed what the others have, and counts again when that was completed, which needs the
// server itself.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { after, describe, test } from 'node:test';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { TableRef } from '../../../src/engines/port/refs.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { definitionOf, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { clusters, missingRing, type RingNode, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT', b: 'STRING' });
const { signal } = new AbortController();
const rowCount = 20;
const clearedMs = 60_000;

/** Passes requests on to a node until it kills that at one of them. */
async function watch(node: RingNode) {
  let killing: RegExp | undefined;
  const proxy = createServer(async (request, response) => {
    const body = await buffer(request);
    if (killing?.test(body.toString())) {
      killing = undefined;
      await node.kill();
    }
    const { method, headers } = request;
    const passed = httpRequest(`${node.url}${request.url}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    passed.end(body);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    killAt(statement: RegExp) {
      killing = statement;
    },
    get hasKilled() {
      return killing === undefined;
    },
    close() {
      proxy.closeAllConnections();
      proxy.close();
    },
  };
}

for (const cluster of [clusters.copies, clusters.shards])
  describe(`what was half done on ${cluster}`, { skip: missingRing }, async () => {
    if (missingRing !== false) return;
    const ring = await startRing(3);
    const [first, second, third] = ring.nodes as [RingNode, RingNode, RingNode];
    const watched = await watch(second);
    const nodes = [first, watched, third];
    const world = await openEngine({}, engineOn(accessTo(nodes, cluster), nodes));
    after(async () => {
      await world.close();
      watched.close();
      await ring.close();
    });
    const { engine, catalog, database } = world;
    const refOf = (table: string): TableRef => ({ catalog, database, table });
    const batch = rowReader(definition.columns).read(Array.from({ length: rowCount }, (_, n) => [n, `row ${n}`]));

    async function filled(table: string): Promise<void> {
      await world.change({ kind: 'createTable', table: refOf(table), definition });
      await engine.insertRows(refOf(table), batch, { signal, definition, steps: [] });
    }

    const works = () => nodes.every((_, i) => engine.status(`node${i + 1}`).availability === 'available');

    /** The second server is killed when it receives such a statement, which the others carry out. */
    async function begun(statement: RegExp, work: () => Promise<unknown>) {
      watched.killAt(statement);
      const failure = await work().then(
        () => undefined,
        (error: Error) => error,
      );
      assert.ok(failure instanceof Failure && watched.hasKilled, `${statement}: ${failure?.stack}`);
      await second.start();
    }

    const repeated = (change: Change, step: string) =>
      eventually(
        'the change is made',
        async () => {
          try {
            await engine.apply(change, { step, signal });
            return true;
          } catch (error) {
            if (error instanceof Failure) return false;
            throw error;
          }
        },
        clearedMs,
      );

    test('changes are completed by their repetition', async () => {
      for (const table of ['altered', 'renamed', 'truncated']) await filled(table);
      const to: TableDefinition = {
        ...definition,
        columns: [...definition.columns, { name: 'c', type: { kind: 'INT' }, nullable: true, defaultValue: '7' }],
      };
      const changes: readonly (readonly [RegExp, Change])[] = [
        [/^ALTER/, { kind: 'alterTable', table: refOf('altered'), from: definition, to, renamedColumns: {} }],
        [/^RENAME/, { kind: 'renameTable', table: refOf('renamed'), newName: 'afterwards', definition }],
        [/^TRUNCATE/, { kind: 'truncateTable', table: refOf('truncated') }],
      ];
      for (const [statement, change] of changes) {
        // Only where each server has all rows does a missed one show.
        if ((change.kind === 'truncateTable') !== (cluster === clusters.copies)) continue;
        const step = randomUUID();
        await begun(statement, () => engine.apply(change, { step, signal }));
        await repeated(change, step);
        await eventually(`all servers work after ${change.kind}`, works, clearedMs);
      }
      const expected = cluster === clusters.copies ? [rowCount, rowCount, 0] : [rowCount, rowCount, rowCount];
      for (const [i, table] of [
        cluster === clusters.copies ? 'altered' : 'afterwards',
        'altered',
        'truncated',
      ].entries())
        assert.deepEqual(await rowsOf(world, `SELECT count(*) FROM ${table}`), [[expected[i]]], table);
      if (cluster === clusters.shards)
        assert.deepEqual(await rowsOf(world, 'SELECT sum(c) FROM altered'), [[7 * rowCount]]);
    });
  });
