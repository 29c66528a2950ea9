// Requests that a full warehouse refuses are logged once a second, as their number; what else fails has a line each.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logReader } from '../../src/observe/log.ts';
import type { Observation } from '../../src/observe/observations.ts';

const ended = (code: string, principal: string): Observation => ({
  kind: 'requestEnded',
  requestId: 'r',
  method: 'POST',
  endpoint: 'databases.query',
  path: '/api/v2/databases/shop/query',
  status: 503,
  code,
  principal,
  ms: 1,
});

function logged(level: 'info' | 'debug') {
  const lines: Record<string, unknown>[] = [];
  const observe = logReader({ level, destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  return { lines, observe };
}

test('refusals for overload are one line for each second', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { lines, observe } = logged('info');
  for (let i = 0; i < 1000; i++) observe(ended('WAREHOUSE_BUSY', i % 2 === 0 ? 'ada' : 'grace'));
  assert.deepEqual(lines, []);
  t.mock.timers.tick(1000);
  observe(ended('WAREHOUSE_BUSY', 'linus'));
  t.mock.timers.tick(1000);
  t.mock.timers.tick(5000);
  assert.partialDeepStrictEqual(lines, [
    { level: 40, msg: 'requestsRefused', code: 'WAREHOUSE_BUSY', requests: 1000, principals: ['ada', 'grace'] },
    { msg: 'requestsRefused', requests: 1, principals: ['linus'] },
  ]);
  assert.equal(lines.length, 2);
});

test('what was refused just before a stop is logged before it', () => {
  const { lines, observe } = logged('info');
  observe(ended('WAREHOUSE_BUSY', 'ada'));
  observe({ kind: 'serverStopping', signal: 'SIGTERM' });
  assert.deepEqual(
    lines.map(({ msg }) => msg),
    ['requestsRefused', 'serverStopping'],
  );
});

test('other failures have a line each, and refusals too at debug', () => {
  const { lines, observe } = logged('debug');
  for (const code of ['WAREHOUSE_SUSPENDED', 'WAREHOUSE_BUSY', 'RATE_LIMITED']) observe(ended(code, 'ada'));
  assert.deepEqual(
    lines.map(({ msg, level, code }) => [msg, level, code]),
    [
      ['requestEnded', 40, 'WAREHOUSE_SUSPENDED'],
      ['requestEnded', 20, 'WAREHOUSE_BUSY'],
      ['requestEnded', 40, 'RATE_LIMITED'],
    ],
  );
});
