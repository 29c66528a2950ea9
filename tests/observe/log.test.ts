// Requests that are refused for overload, by a limit or for their credentials are counted for each caller; every other failure has a line.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logReader } from '../../src/observe/log.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { startProcess } from '../server.ts';

const endedRequest = (code: string, principal?: string, network?: string): Observation => ({
  kind: 'requestEnded',
  requestId: 'r',
  method: 'POST',
  endpoint: 'databases.query',
  path: '/api/v2/databases/shop/query',
  status: 503,
  code,
  principal,
  network,
  ms: 1,
});

function createLog(level: 'info' | 'debug') {
  const lines: Record<string, unknown>[] = [];
  const observe = logReader({ level, destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  return { lines, observe };
}

test('refusals for overload are one line per code and principal, or network, in 5 seconds', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { lines, observe } = createLog('info');
  for (let i = 0; i < 1000; i++) {
    observe(endedRequest('WAREHOUSE_BUSY', i % 4 === 0 ? 'ada' : 'grace'));
    observe(endedRequest('RATE_LIMITED', 'ada'));
    observe(endedRequest('RATE_LIMITED', undefined, i % 10 === 0 ? '192.0.2.1' : '2001:db8::/64'));
    observe(endedRequest('SERVER_BUSY', '192.0.2.1'));
  }
  assert.deepEqual(lines, []);
  t.mock.timers.tick(5000);
  observe(endedRequest('RATE_LIMITED', 'linus'));
  t.mock.timers.tick(5000);
  t.mock.timers.tick(50_000);
  assert.deepEqual(
    lines.map(({ level, msg, code, principal, network, requests }) => [level, msg, code, principal, network, requests]),
    [
      [40, 'requestsRefused', 'WAREHOUSE_BUSY', 'ada', undefined, 250],
      [40, 'requestsRefused', 'RATE_LIMITED', 'ada', undefined, 1000],
      [40, 'requestsRefused', 'RATE_LIMITED', undefined, '192.0.2.1', 100],
      [40, 'requestsRefused', 'SERVER_BUSY', '192.0.2.1', undefined, 1000],
      [40, 'requestsRefused', 'WAREHOUSE_BUSY', 'grace', undefined, 750],
      [40, 'requestsRefused', 'RATE_LIMITED', undefined, '2001:db8::/64', 900],
      [40, 'requestsRefused', 'RATE_LIMITED', 'linus', undefined, 1],
    ],
  );
});

test('requests without valid credentials are one line for each address in 5 seconds', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { lines, observe } = createLog('info');
  for (let i = 0; i < 1000; i++) observe(endedRequest('UNAUTHENTICATED', undefined, '192.0.2.1'));
  assert.deepEqual(lines, []);
  t.mock.timers.tick(5000);
  assert.deepEqual(
    lines.map(({ level, msg, code, network, requests }) => [level, msg, code, network, requests]),
    [[40, 'requestsRefused', 'UNAUTHENTICATED', '192.0.2.1', 1000]],
  );
});

test('callers beyond the first hundred share a line for each code', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { lines, observe } = createLog('info');
  for (let i = 0; i < 1000; i++) observe(endedRequest('RATE_LIMITED', undefined, `192.0.${i >> 8}.${i & 255}`));
  t.mock.timers.tick(5000);
  assert.equal(lines.length, 101);
  assert.partialDeepStrictEqual(lines.at(-1), { code: 'RATE_LIMITED', requests: 900 });
  assert.ok(!('network' in (lines.at(-1) ?? {})));
});

test('refusals just before a stop are logged before it', () => {
  const { lines, observe } = createLog('info');
  observe(endedRequest('WAREHOUSE_BUSY', 'ada'));
  observe({ kind: 'serverStopped', ms: 1 });
  assert.deepEqual(
    lines.map(({ msg }) => msg),
    ['requestsRefused', 'serverStopped'],
  );
});

test('other failures have a line each, and refusals too at level debug', () => {
  const { lines, observe } = createLog('debug');
  for (const code of ['WAREHOUSE_SUSPENDED', 'WAREHOUSE_BUSY', 'RATE_LIMITED']) observe(endedRequest(code, 'ada'));
  assert.deepEqual(
    lines.map(({ msg, level, code }) => [msg, level, code]),
    [
      ['requestEnded', 40, 'WAREHOUSE_SUSPENDED'],
      ['requestEnded', 20, 'WAREHOUSE_BUSY'],
      ['requestEnded', 20, 'RATE_LIMITED'],
    ],
  );
});

test('the log of a server has a line for all requests with wrong credentials, the audit trail one for each', async (t) => {
  const server = await startProcess(['--log-level=info']);
  t.after(() => server.close());
  let text = '';
  server.child.stderr?.on('data', (chunk) => {
    text += chunk;
  });
  const headers = { authorization: 'Bearer tbl_wrong' };
  for (let i = 0; i < 5; i++) (await server.request('GET', '/api/v2/catalogs', { headers })).is(401, 'UNAUTHENTICATED');
  const events = await server.post('/api/v2/audit_events/search', { outcome: 'UNAUTHENTICATED' });
  const requests = events.is(200).at<{ requests?: number }[]>('auditEvents');
  assert.ok(requests.length > 0, events.text);
  await server.close();
  const lines = text.split('\n').filter((line) => line.includes('UNAUTHENTICATED'));
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)).map(({ msg, network, requests: count }) => [msg, network, count]),
    [['requestsRefused', '127.0.0.1', 5]],
  );
});
