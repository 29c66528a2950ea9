// The 13 queries of the Star Schema Benchmark through REST compared with DuckDB in process on a copy of the same file; the data
// is loaded through REST.
import { join } from 'node:path';
import { loadSsb, ssbQueries } from '../src/demo/ssb_load.ts';
import { copyCatalogFile, DirectDuckdb } from './harness/duckdb.ts';
import { type Bench, compare, interleaved, type Measure } from './harness/report.ts';
import { TabulariumServer, timed } from './harness/server.ts';

const ratioMax = 1.05;
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

async function load(dataDirectory: string, scale: number): Promise<{ rows: number; ms: number }> {
  const server = await TabulariumServer.start({ dataDirectory, pinned: false });
  try {
    const loaded = await loadSsb({ url: server.url, token: server.token, scale });
    return { rows: sum(loaded.map((table) => table.rows)), ms: sum(loaded.map((table) => table.elapsedMs)) };
  } finally {
    await server.stop();
  }
}

export const bench: Bench = {
  name: 'ssb',
  claim: `The 13 SSB queries at scale 1 through REST: at most ${ratioMax} times the time of DuckDB in process.`,
  async run({ quick, workDirectory, print }) {
    const scale = quick ? 0.01 : 1;
    const dataDirectory = join(workDirectory, 'data');
    const loaded = await load(dataDirectory, scale);
    const loadRate = (loaded.rows / loaded.ms) * 1000;
    print(`  loaded ${loaded.rows} rows, ${loadRate.toFixed(0)} a second`);
    const file = await copyCatalogFile(dataDirectory, join(workDirectory, 'direct'));
    const server = await TabulariumServer.start({ dataDirectory, pinned: false });
    const direct = await DirectDuckdb.open(file, 'ssb');
    const queries = await ssbQueries();
    const texts = queries.map((query) => query.sql);
    const runThroughRest = async (): Promise<readonly number[]> => {
      const ms: number[] = [];
      for (const text of texts) ms.push((await timed(() => server.query('ssb', text))).ms);
      return ms;
    };
    try {
      await runThroughRest();
      await direct.statements(texts);
      const compared = await interleaved(quick ? 2 : 7, runThroughRest, () => direct.statements(texts));
      const shared = { unit: 'ms', baseline: 'DuckDB in process' };
      const total = compare(compared, {
        ...shared,
        what: '13 queries, total',
        serviceValue: sum,
        baselineValue: sum,
        target: { text: `≤ ${ratioMax}`, isMet: (ratio) => ratio <= ratioMax },
      });
      print(`  total: ${total.value.toFixed(0)} ms, ${total.ratio?.toFixed(3)}`);
      const perQuery: Measure[] = queries.map(({ name }, i) =>
        compare(compared, {
          ...shared,
          what: name.toUpperCase(),
          serviceValue: (ms) => ms[i] as number,
          baselineValue: (ms) => ms[i] as number,
        }),
      );
      return {
        measures: [total, ...perQuery, { what: 'load through REST, all five tables', value: loadRate, unit: 'rows/s' }],
        notes: [
          `Scale ${scale}, ${loaded.rows.toLocaleString('en-US')} rows, both sides warm. REST: from the request to the last byte, seen by the client; in process: run and rows read.`,
          'The load includes making the rows, in the process of the benchmark.',
        ],
      };
    } finally {
      await Promise.all([server.stop(), direct.stop()]);
    }
  },
};
