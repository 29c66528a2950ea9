// A real full disk: work in progress fails with a message or waits, the tables are unchanged, the server continues, nothing is left
// over; and once there is space, everything works again.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { deadlineMs } from '../../deadline.ts';
import type { RawReply } from '../../raw_http.ts';
import { uri } from '../../server.ts';
import { closeExternalSystems, externalSystems, serviceHostFlags } from '../injection/external_systems.ts';
import { SmallDisk } from './small_disk.ts';

const skip = process.platform !== 'linux' && 'mount namespaces are Linux’s';
const diskMegabytes = 200;
/** Enough for the store to continue, too little for the requested work. */
const leftBytes = 1_500_000;
const manyRows = 250_000;
const manyRowsSql = `SELECT range AS id, md5(range::VARCHAR) || md5((range + 1)::VARCHAR) AS v FROM range(${manyRows})`;
const taskMsMax = deadlineMs(30_000);

let disk: SmallDisk;
let sources: string;
const path = uri`/databases/${'d'}`;
const table = `${path}/tables/t`;

interface TaskReply {
  readonly status: number;
  readonly code: string;
  readonly result: Readonly<Record<string, unknown>>;
}

const parsed = ({ status, text }: RawReply): TaskReply => ({
  status,
  ...(JSON.parse(text) as Omit<TaskReply, 'status'>),
});
const send = async (method: string, to: string, body?: unknown, headers = {}): Promise<TaskReply> =>
  parsed(await disk.server.send(method, to, { ...(body === undefined ? {} : { body }), headers }));

before(async () => {
  if (skip) return;
  sources = await mkdtemp(join(tmpdir(), 'tabularium-sources-'));
  const lines = Array.from({ length: 250_000 }, (_, i) => `${i},${Math.imul(i, 2654435761).toString(36).repeat(5)}\n`);
  await writeFile(join(sources, 'large.csv'), `id,v\n${lines.join('')}`);
  disk = await SmallDisk.start(diskMegabytes, [
    // Writes are not refused before the disk is full, because work in progress at that moment is what is tested here.
    '--disk-low-bytes=0',
    `--load-directories=${sources}`,
    ...serviceHostFlags,
  ]);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'v', type: 'STRING' },
  ];
  await disk.server.put(path);
  (await disk.server.post(`${path}/tables`, { name: 't', columns })).is(201);
  (await disk.server.query('d', "INSERT INTO t SELECT range, 'x' FROM range(1000)")).is(200);
});
after(async () => {
  await disk?.server.close();
  await closeExternalSystems();
  if (sources !== undefined) await rm(sources, { recursive: true });
});

const rowsOf = async (name: string) => (await disk.server.rows('d', `SELECT count(*) FROM ${name}`))[0]?.[0];

interface Case {
  readonly name: string;
  readonly ask: () => Promise<TaskReply>;
  /** The effect of the repeated request once there is space. */
  readonly requireDone: (answer: TaskReply) => Promise<void>;
}

const rowsAre = (name: string, count: number) => async () => assert.equal(await rowsOf(name), count);
let uploadLink = '';

const cases: readonly Case[] = [
  {
    name: 'a load',
    ask: () => send('POST', `${table}/load`, { source: { path: join(sources, 'large.csv') } }),
    requireDone: rowsAre('t', 251_000),
  },
  {
    name: 'rows of a query',
    ask: () => send('POST', `${table}/insert_select`, { sql: manyRowsSql }),
    requireDone: rowsAre('t', 251_000 + manyRows),
  },
  {
    name: 'a table made with its rows',
    ask: () => send('POST', `${path}/tables`, { name: 'made', asSelect: { sql: manyRowsSql, waitSeconds: 1 } }),
    requireDone: rowsAre('made', manyRows),
  },
  {
    name: 'a result of many pages',
    ask: () => send('POST', `${path}/query`, { sql: manyRowsSql, waitSeconds: 0 }),
    requireDone: async ({ result }) => assert.ok(((result.result as { pageCount: number }).pageCount ?? 0) > 1),
  },
  {
    name: 'an export',
    ask: async () =>
      send('POST', `${path}/export`, {
        sql: manyRowsSql,
        format: 'csv',
        to: { s3: { ...(await externalSystems()).objectStore, prefix: 'full' } },
      }),
    requireDone: async ({ result }) => assert.equal((result.result as { rowCount: number }).rowCount, manyRows),
  },
  {
    name: 'an upload',
    ask: async () => {
      if (uploadLink === '') {
        const upload = await send('POST', '/api/v2/uploads', { name: 'a.csv' });
        if (upload.status !== 201) return upload;
        uploadLink = String(upload.result.link);
      }
      return send('PUT', uploadLink, 'x'.repeat(8_000_000), { 'content-type': undefined });
    },
    requireDone: async ({ result }) => assert.equal(result.receivedBytes, 8_000_000),
  },
];

/** The outcome: of the request, or of its task once that has ended or waits for a retry. */
async function outcome(reply: TaskReply): Promise<TaskReply> {
  if (reply.status !== 202) return reply;
  for (const deadline = Date.now() + taskMsMax; ; ) {
    const task = await send('GET', `${reply.result.uri}?waitSeconds=1`);
    const { endedAt, progressText } = task.result;
    if (endedAt !== null || String(progressText).includes('the disk of the service is full')) return task;
    // Its end cannot be written: it is retried until it can.
    if (disk.freeBytes === 0) return task;
    assert.ok(Date.now() < deadline, JSON.stringify(task));
  }
}

for (const { name, ask, requireDone: done } of cases) {
  test(`${name} on a full disk, and after space was freed`, {
    skip,
    timeout: deadlineMs(120_000),
  }, async () => {
    const before = await rowsOf('t');
    await disk.fillLeaving(leftBytes);
    const reply = await ask();
    const failed = await outcome(reply);
    const { state, error } = failed.result as { state?: string; error?: { code: string } | null };
    const code = reply.status === 202 ? (error?.code ?? state) : failed.code;
    assert.match(String(code), /^(?:STORAGE_FULL|pending|running)$/, JSON.stringify(failed).slice(0, 500));
    await disk.free();
    if (reply.status === 202) {
      await send('POST', `${reply.result.uri}/cancel`, {});
      const ended = await send('GET', `${reply.result.uri}?waitSeconds=20`);
      assert.equal(ended.result.state, state === 'failed' ? 'failed' : 'cancelled', JSON.stringify(ended));
    }
    assert.equal(await rowsOf('t'), before);
    const retried = await ask();
    const answer = retried.status === 202 ? await send('GET', `${retried.result.uri}?waitSeconds=30`) : retried;
    assert.ok([200, 201].includes(answer.status), JSON.stringify(answer));
    if (retried.status === 202) assert.equal(answer.result.state, 'succeeded', JSON.stringify(answer).slice(0, 500));
    await done(answer);
  });
}

test('without a free byte the server runs, refuses what it cannot store, and accepts it later', {
  skip,
}, async () => {
  await disk.fillLeaving(0);
  for (const [method, to, body] of [
    ['POST', '/api/v2/databases', { name: 'none' }],
    ['POST', '/api/v2/uploads', { name: 'b.csv' }],
    ['POST', `${table}/rows`, { rows: [[1, 'x'.repeat(100_000)]] }],
    ['POST', `${path}/query`, { sql: 'SELECT 1', waitSeconds: 0 }],
  ] as const)
    assert.equal((await send(method, to, body)).code, 'STORAGE_FULL', to);
  assert.equal((await send('GET', table)).status, 200);
  await disk.free();
  await disk.server.client.databases.create({ name: 'none' });
  (await disk.server.post(`${table}/rows`, { rows: [[1, 'x']] })).is(201);
});

test('no files are left over', { skip }, async () => {
  const tasks = (await disk.server.get('/api/v2/tasks?pageSize=100')).at<{ taskId: string; state: string }[]>('tasks');
  assert.deepEqual(
    tasks.filter(({ state }) => !['succeeded', 'failed', 'cancelled'].includes(state)),
    [],
  );
  assert.deepEqual(Object.keys(disk.filesIn('spool')), []);
  for (const name of Object.keys(disk.filesIn('results')))
    assert.equal(tasks.find(({ taskId }) => name.startsWith(taskId))?.state, 'succeeded', name);
  assert.equal(Object.keys(disk.filesIn('files')).length, 1);
});
