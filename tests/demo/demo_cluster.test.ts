// `npm run demo:cluster`, the README's third command: the results of the cluster, of DuckDB and of the second server are equal.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { missingRing } from '../engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../postgresql.ts';

const script = fileURLToPath(new URL('../../scripts/demo_cluster.ts', import.meta.url));

async function run(words: readonly string[], environment: NodeJS.ProcessEnv = {}) {
  // A demo that runs inside a test would report to the runner.
  const { NODE_TEST_CONTEXT: _, ...env } = { ...process.env, ...environment };
  const child = spawn(process.execPath, [script, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  // It ends what it has started.
  after(() => void child.kill('SIGTERM'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

describe('the demo on a cluster', { skip: missingRing || missingPostgresql }, () => {
  test('ends with equal results', async () => {
    const { code, output } = await run(['--exit', '--scale', '0.01']);
    assert.equal(code, 0, output);
    assert.match(output, /healthy: 1 shards? with 3 replicas each/);
    assert.match(output, /cluster and DuckDB: all results are equal/);
    assert.match(output, /both servers: all results are equal/);
  });

  test('names the programs that it needs and does not find', async () => {
    const { code, output } = await run(['--exit'], { PATH: '/nonexistent' });
    assert.equal(code, 1, output);
    assert.match(output, /apt-get install python3/);
    assert.match(output, /apt-get install util-linux/);
  });
});
