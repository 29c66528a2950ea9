// The demo against a real server: its queries return rows, a second run loads nothing again, and its curl lines can be pasted.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { runDemo } from '../../src/demo/demo.ts';
import { openShell } from '../docs/pasting.ts';
import { start, type TestServer } from '../server.ts';

const scale = 0.001;

async function outputOf({ url, token, dataDirectory: dataDir }: TestServer): Promise<string[]> {
  const lines: string[] = [];
  const times = await runDemo({ url, token, scale, dataDir, out: (line) => void lines.push(line) });
  assert.equal(times.length, 13);
  return lines;
}

/** The codes of the answers to the curl lines of an output. */
async function runPasted(t: TestContext, server: TestServer, lines: readonly string[]): Promise<string[]> {
  const shell = openShell(t, server);
  const curls = lines.filter((line) => line.startsWith('curl '));
  const { answers } = await shell.paste(curls.join('\n'));
  assert.equal(answers.length, curls.length);
  return answers.map(({ body }) => (JSON.parse(body) as { code: string }).code);
}

test('the demo loads and queries the benchmark, twice, and its lines can be pasted', async (t) => {
  const server = await start();
  t.after(() => server.close());
  const [first, second] = [await outputOf(server), await outputOf(server)];
  for (const table of ['customer', 'supplier', 'part', 'dates', 'lineorder'])
    assert.ok(first.some((line) => line.startsWith(`# Table ${table}: `)));
  assert.equal(first.filter((line) => line.startsWith('  loaded ')).length, 5);
  assert.equal(second.filter((line) => line.endsWith('rows exist already, nothing to load')).length, 5);
  assert.deepEqual([...new Set(await runPasted(t, server, first))], ['0']);
  assert.deepEqual(
    await server.rows('ssb', 'SELECT count(*) FROM customer'),
    [[30]],
    'pasted rows are not inserted again',
  );
});
