// A platform where users cannot create namespaces, but with Landlock and seccomp: the engine runs under these, and works as elsewhere.
// In a separate file, because a process tries its platform only once.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../server.ts';

const { PATH: path } = process.env;
const programs = mkdtempSync(join(tmpdir(), 'tabularium-programs-'));
const database = '/api/v2/databases/d';
let server: TestServer;
let activeMeasures: readonly string[];
before(async () => {
  // All programs except `unshare`.
  symlinkSync(execFileSync('/bin/sh', ['-c', 'command -v sh'], { encoding: 'utf8' }).trim(), join(programs, 'sh'));
  process.env.PATH = programs;
  server = await start();
  (await server.put(database)).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'text', type: 'STRING' },
  ];
  (await server.post(`${database}/tables`, { name: 't', columns })).is(201);
  const record = (await server.get('/api/v2/warehouses/default')).is(200);
  const confinement = record.at<{ measure: string; active: boolean; reason: string | null }[]>('confinement');
  assert.match(confinement.find(({ measure }) => measure === 'namespaces')?.reason ?? '', /unshare/);
  activeMeasures = confinement.flatMap((status) => (status.active ? [status.measure] : []));
});
after(async () => {
  await server.close();
  process.env.PATH = path;
  rmSync(programs, { recursive: true, force: true });
});

test('the measures that the warehouse shows apply to the engine', (t) => {
  if (process.platform !== 'linux') return t.diagnostic('not Linux');
  const listed = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8').trim().split(' ');
  // Without processes that are still the launcher, whose command line ends with that of the engine.
  const engines = listed.filter((pid) =>
    /^[^\0]*\0[^\0]*worker\.[tj]s\0$/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')),
  );
  assert.ok(engines.length > 0);
  for (const pid of engines) {
    const [, mode] = /\nSeccomp:\s(\d)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    assert.equal(mode, activeMeasures.includes('seccomp') ? '2' : '0');
  }
  t.diagnostic(`active: ${activeMeasures.join(', ')}`);
});

test('rows are written, sorted, returned through a file, and read again', async () => {
  const sql = `INSERT INTO t SELECT range, repeat(md5(range::VARCHAR), 4) FROM range(200000)`;
  (await server.query('d', sql)).is(200);
  assert.deepEqual(await server.rows('d', 'SELECT count(*), max(id) FROM t'), [[200_000, 199_999]]);
  const limits = { memoryLimitBytes: 64 * 1024 * 1024 };
  (await server.request('PATCH', '/api/v2/warehouses/default', { body: limits })).is(200);
  const sorted = await server.rows('d', 'SELECT id FROM (SELECT * FROM t ORDER BY text, id) LIMIT 1 OFFSET 150000');
  assert.equal(sorted.length, 1);
  const large = server.client.query('SELECT * FROM t', { database: 'd', rowsMax: 100_000 });
  assert.equal((await large.summary()).rowCount, 100_000);
  (await server.post(`${database}/tables/t/rows`, { rows: [[-1, 'one']] })).is(201);
  assert.deepEqual(await server.rows('d', 'SELECT text FROM t WHERE id < 0'), [['one']]);
});
