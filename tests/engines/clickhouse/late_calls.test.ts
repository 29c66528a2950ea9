// Calls that a server does not answer in time: a caller is to blame only for what the caller asked for, and only if the server itself is there.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { isLate } from '../../../src/engines/clickhouse/connection/clickhouse_error.ts';
import { HttpServer } from '../../../src/engines/clickhouse/connection/http_server.ts';
import type { ServerCall } from '../../../src/engines/clickhouse/connection/server.ts';
import { Failure, outcomeOf } from '../../../src/standard/failure.ts';
import { deadlineMs } from '../../deadline.ts';
import { missingRing, type RingNode, startRing } from './ring/ring.ts';

describe('a call that takes too long', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(1);
  const [node] = ring.nodes as readonly RingNode[] as [RingNode];
  const credentials = async () => ({ user: 'default', password: '' });
  const server = new HttpServer({ name: 'node1', url: node.url, credentials });
  after(async () => {
    await server.close();
    await ring.close();
  });
  await server.probe({ timeoutMs: deadlineMs(10_000) });

  /** Far more rows than can be counted in the time. */
  const endless = 'SELECT count() FROM numbers(100000000000) WHERE number % 7 = 8';
  const failureOf = async (call: Omit<ServerCall, 'timeoutMs'>) => {
    const error = await server.text({ ...call, timeoutMs: 500 }).then(
      () => assert.fail('it was answered'),
      (failed: unknown) => failed,
    );
    assert.ok(error instanceof Failure, String(error));
    return error;
  };

  test('is an error of the caller who asked for it', async () => {
    const failure = await failureOf({ sql: endless, isOfCaller: true });
    assert.deepEqual([failure.code, failure.result], ['STATEMENT_TIMEOUT', { timeoutSeconds: 0.5 }]);
    assert.equal(isLate(failure), false);
  });

  test('is a failure of the warehouse if the adapter made it', async () => {
    const failure = await failureOf({ sql: endless });
    assert.deepEqual([failure.code, outcomeOf(failure), isLate(failure)], ['WAREHOUSE_FAILED', 'unknown', true]);
  });

  test('is a failure of the warehouse if its server does not respond, whoever asked for it', async () => {
    node.freeze();
    try {
      for (const isOfCaller of [true, false]) {
        const failure = await failureOf({ sql: 'SELECT 1', isOfCaller });
        assert.deepEqual([failure.code, outcomeOf(failure), isLate(failure)], ['WAREHOUSE_FAILED', 'unknown', true]);
      }
    } finally {
      node.resume();
    }
    assert.equal(await server.text({ sql: 'SELECT 1', timeoutMs: deadlineMs(10_000) }), '1\n');
  });
});
