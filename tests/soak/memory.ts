// Memory of server and engine under a steady mixed workload: constant after the warm-up. The workload creates and drops its objects, so
// that neither data nor history grows without bound.
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { type ServerProcess, startProcess } from '../server.ts';

export interface MemoryReport {
  readonly rounds: number;
  /** Medians, in MiB, of the first and last quarter of the time after the warm-up. For the server: without mapped files. */
  readonly server: readonly [number, number];
  readonly engine: readonly [number, number];
  /** Resident pages of mapped files, of which the metadata store's grow with the file up to 64 MiB; the kernel can reclaim them. */
  readonly mappedFiles: readonly [number, number];
  readonly problems: readonly string[];
}

interface Sample {
  readonly server: number;
  readonly mappedFiles: number;
  readonly engine: number;
}

/** The caches of server and engine are filled during this time. */
const warmShare = 1 / 6;
const growthMax = 0.05;
const clients = 4;
/** DuckDB caches file blocks in memory up to its limit: a low limit is reached within the warm-up. */
const engineMemory = '128MiB';
const sampleEveryMs = 1_000;
const mebibyte = 1024 * 1024;

export async function measureMemory(durationMs: number): Promise<MemoryReport> {
  const server = await startProcess(['--query-history-max=500', `--warehouse-memory-bytes=${engineMemory}`]);
  try {
    (await server.put('/api/v2/databases/shop')).is(201);
    const endMs = performance.now() + durationMs;
    const hasTime = () => performance.now() < endMs;
    const samples: Sample[] = [];
    const sampling = (async () => {
      for (; hasTime(); await pause(sampleEveryMs)) samples.push(await sampleOf(server));
    })();
    const rounds = await Promise.all(Array.from({ length: clients }, (_, n) => client(server, n, hasTime)));
    await sampling;
    const warm = samples.slice(Math.ceil(samples.length * warmShare));
    const quarter = Math.max(1, Math.floor(warm.length / 4));
    const growth = (metric: keyof Sample) =>
      [median(warm.slice(0, quarter), metric), median(warm.slice(-quarter), metric)] as const;
    const growthBySubject = { server: growth('server'), engine: growth('engine') };
    const problems = Object.entries(growthBySubject).flatMap(([of, [first, last]]) =>
      last > first * (1 + growthMax) ? [`the memory of the ${of} grew from ${first} to ${last} MiB`] : [],
    );
    const mappedFiles = growth('mappedFiles');
    return { rounds: rounds.reduce((sum, count) => sum + count, 0), ...growthBySubject, mappedFiles, problems };
  } finally {
    await server.close();
  }
}

async function client(server: ServerProcess, n: number, hasTime: () => boolean): Promise<number> {
  const tables = '/api/v2/databases/shop/tables';
  const name = `t${n}`;
  for (let round = 0; ; round++) {
    if (!hasTime()) return round;
    await server.post(tables, { sql: `CREATE TABLE ${name} (id BIGINT PRIMARY KEY, text VARCHAR)` });
    const rows = Array.from({ length: 200 }, (_, id) => [id, `text ${round} ${id}`]);
    const headers = { 'x-service-idempotency-key': crypto.randomUUID() };
    await server.request('POST', `${tables}/${name}/rows`, { body: { rows }, headers });
    await server.query('shop', `SELECT count(*), ${round} FROM ${name} WHERE text LIKE '%${round % 10}'`);
    await server.query('shop', `UPDATE ${name} SET text = 'x' WHERE id < $1`, { parameters: [100] });
    await server.query('shop', `SELECT nothing_${round} FROM ${name}`);
    await server.patch(`${tables}/${name}`, { comment: `round ${round}` });
    await server.get(`${tables}/${name}/rows?pageSize=50`);
    await server.get(tables);
    await server.delete(`${tables}/${name}?purge=true`);
  }
}

async function sampleOf(server: ServerProcess): Promise<Sample> {
  const backend = await server.get('/api/v2/warehouses/default/backends/embedded');
  const status = readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
  const mebibytes = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  return {
    server: mebibytes('RssAnon'),
    // The kernel counts a file on a tmpfs as shared memory.
    mappedFiles: mebibytes('RssFile') + mebibytes('RssShmem'),
    engine: backend.at<number>('memoryUsedBytes') / mebibyte,
  };
}

function median(samples: readonly Sample[], metric: keyof Sample): number {
  const values = samples.map((sample) => sample[metric]).sort((a, b) => a - b);
  return Math.round(values[values.length >> 1] ?? 0);
}
