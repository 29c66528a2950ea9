// `import` while the server is killed and started again at several points: it continues, nothing is loaded twice, and counts and checksums are equal.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../../../deadline.ts';
import { type ServerProcess, startProcess } from '../../../server.ts';
import { type CommandLine, newCommandLine } from '../command_process.ts';
import { writeDuckdbFile } from './duckdb_files.ts';
import type { Report } from './imports.ts';

const rows = 150_000;

let server: ServerProcess;
let line: CommandLine;
before(async () => {
  server = await startProcess();
  line = newCommandLine();
  Object.assign(line.env, { TABULARIUM_URL: server.url, TABULARIUM_TOKEN: server.token });
  await writeDuckdbFile(`${line.directory}/shop.duckdb`, [
    'CREATE TABLE a_small AS SELECT i AS id FROM range(1000) AS r(i)',
    `CREATE TABLE b_large AS SELECT i AS id, repeat(md5(CAST(i AS VARCHAR)), 4) AS text, i * 1.25 AS price FROM range(${rows}) AS r(i)`,
    'CREATE TABLE c_small AS SELECT i AS id FROM range(1000) AS r(i)',
    'CREATE VIEW few AS SELECT id FROM b_large WHERE id < 10',
  ]);
});
after(async () => {
  line.remove();
  await server.close();
});

const tablesOf = async () => (await server.client.databases('shop').tables.list().all()).map(({ name }) => name);
const uploads = () => server.client.uploads.list().all();

/** What is observed before the server is killed; in the order of the import. */
const points: readonly (readonly [string, () => Promise<boolean>])[] = [
  ['the first table exists', async () => (await tablesOf()).includes('a_small')],
  [
    'parts of the large file have arrived',
    async () =>
      (await uploads()).some(({ state, receivedBytes }) => state === 'receiving' && receivedBytes > 8_000_000),
  ],
  [
    'the large file has arrived',
    async () => (await uploads()).some(({ state, receivedBytes }) => state === 'ready' && receivedBytes > 8_000_000),
  ],
];

test('the server is killed at several points, and the import ends as if it had not been', async (t) => {
  let isEnded = false;
  const running = line.run(['import', 'shop.duckdb', '-d', 'shop', '--json']).finally(() => {
    isEnded = true;
  });
  let kills = 0;
  for (const [name, isReached] of points) {
    await eventually(name, async () => isEnded || (await isReached().catch(() => false)), 60_000);
    if (isEnded) break;
    server.child.kill('SIGKILL');
    await server.exited;
    kills++;
    t.diagnostic(`killed when ${name}`);
    server = await startProcess([`--port=${new URL(server.url).port}`], server.dataDirectory);
  }
  const { code, stdout, stderr } = await running;
  assert.equal(code, 0, stdout + stderr);
  assert.ok(kills >= 2, `${kills} kills`);
  const report = JSON.parse(stdout) as Report;
  assert.deepEqual(
    report.tables.map(({ name, rows: count }) => `${name} ${count}`),
    ['a_small 1000', `b_large ${rows}`, 'c_small 1000'],
  );
  const [sums] = await server.client
    .query('SELECT count(*) AS n, count(DISTINCT id) AS ids, sum(price) AS total FROM b_large', { database: 'shop' })
    .all();
  assert.deepEqual(sums, { n: BigInt(rows), ids: BigInt(rows), total: `${((rows * (rows - 1)) / 2) * 1.25}.00` });
  // Compares rows and checksums of all tables.
  const again = await line.run(['import', 'shop.duckdb', '-d', 'shop', '--json']);
  assert.equal(again.code, 0, again.stdout + again.stderr);
  const { tables, views } = JSON.parse(again.stdout) as Report;
  assert.deepEqual(
    [...new Set(tables.map(({ state }) => state)), views],
    ['present', [{ name: 'few', state: 'present' }]],
  );
});
