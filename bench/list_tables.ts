// The list of 1,000 tables in one page, compared with a bare node:http server that sends the same bytes.
import { join } from 'node:path';
import { fillStore, tablesPath } from './harness/filled_store.ts';
import { BareServer, Generator } from './harness/load.ts';
import type { LoadResult } from './harness/load_job.ts';
import { type Bench, compare, interleaved } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const connections = 8;
const tables = 1000;
const ratioMin = 0.4;

export const bench: Bench = {
  name: 'list_tables',
  claim: `The list of ${tables} tables in one page: at least ${ratioMin * 100} % of the MB/s of a bare node:http server that sends the same bytes.`,
  async run({ quick, workDirectory, print }) {
    const dataDirectory = join(workDirectory, 'data');
    await fillStore(dataDirectory, tables, { inEngine: false });
    const server = await TabulariumServer.start({ dataDirectory, pinned: true });
    const generator = new Generator({ pinned: true });
    const path = `${tablesPath}?pageSize=${tables}`;
    const answer = await server.capture(path);
    const bare = await BareServer.start(answer);
    const job = {
      connections,
      count: 1,
      order: 'cycle',
      status: 200,
      awake: true,
      warmupMs: 300,
      durationMs: quick ? 500 : 3000,
    } as const;
    const list = (port: number) =>
      generator.load({ ...job, port, template: { method: 'GET', path, headers: server.authorization } });
    try {
      // The first response is built from the store; all others come from the cache of pages.
      const compared = await interleaved<LoadResult, LoadResult>(
        quick ? 2 : 7,
        () => list(server.port),
        () => list(bare.port),
      );
      const measure = compare(compared, {
        what: `list of ${tables} tables, ${(answer.body.length / 1e6).toFixed(1)} MB a page`,
        unit: 'MB/s',
        serviceValue: (result) => result.megabytesPerSecond,
        baselineValue: (result) => result.megabytesPerSecond,
        baseline: 'bare node:http, the same bytes',
        target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin },
      });
      print(`  ${measure.what}: ${measure.ratio?.toFixed(2)}`);
      const cold = await coldPages(dataDirectory, path, quick ? 2 : 5);
      return {
        measures: [measure, { what: 'the same page made from the store, after a start', value: cold, unit: 'ms' }],
        notes: [
          `${connections} connections; server and bare server on one core, the load generator on another, alternately.`,
        ],
      };
    } finally {
      await Promise.all([server.stop(), bare.stop(), generator.stop()]);
    }
  },
};

/** Median milliseconds of the first list after a start. */
async function coldPages(dataDirectory: string, path: string, times: number): Promise<number> {
  const { cp } = await import('node:fs/promises');
  const ms: number[] = [];
  for (let i = 0; i < times; i++) {
    const copy = `${dataDirectory}_cold_${i}`;
    await cp(dataDirectory, copy, { recursive: true });
    const server = await TabulariumServer.start({ dataDirectory: copy, pinned: true });
    try {
      await server.capture('/livez');
      const startMs = performance.now();
      await server.capture(path);
      ms.push(performance.now() - startMs);
    } finally {
      await server.stop();
    }
  }
  return ms.sort((a, b) => a - b)[Math.floor(times / 2)] as number;
}
