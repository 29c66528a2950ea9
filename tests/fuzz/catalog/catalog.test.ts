// Random commands over the whole catalog through the real HTTP API, against an in-memory model: status, code and key fields must agree; in
// each world (tests/every_endpoint/worlds.ts). FUZZ_SEED (and FUZZ_PATH, which fast-check prints) replay a run; FUZZ_RUNS makes it longer.
import { after, before, test } from 'node:test';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { worldOf } from '../../every_endpoint/worlds.ts';
import { seedFrom } from '../../random.ts';
import type { TestServer } from '../../server.ts';
import { runCatalogModel } from './catalog_run.ts';
import { clickhouse, duckdb } from './modelled_engines.ts';

const seed = seedFrom('FUZZ_SEED');
const path = process.env.FUZZ_PATH;
const runs = Number(process.env.FUZZ_RUNS ?? 60);
/** A replay has no time limit. */
const durationMs = path || runsAll ? undefined : new Budget(5).ms;

const world = worldOf(import.meta.url);
const { warehouse } = world;
const engine = warehouse === 'default' ? duckdb : clickhouse;
let server: TestServer;
before(async () => {
  server = await world.start();
});
after(() => server?.close());

test('the catalog responds like its model', { timeout: deadlineMs(120_000 + runs * 5000) }, async (t) => {
  t.diagnostic(`FUZZ_SEED=${seed}`);
  t.diagnostic(`${await runCatalogModel(server, { seed, runs, path, durationMs, warehouse, engine })} commands`);
});
