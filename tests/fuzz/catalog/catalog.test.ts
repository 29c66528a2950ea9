// Random commands over the whole catalog through the real HTTP API, against an in-memory model: status, code and key fields
// must agree; on SQLite, and where it is imported with `?store=postgresql`, on PostgreSQL. FUZZ_SEED (and FUZZ_PATH, which fast-check prints) replay a run; FUZZ_RUNS makes it longer.
import { after, before, test } from 'node:test';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { newStoreDatabase, urlOfDatabase } from '../../postgresql.ts';
import { seedFrom } from '../../random.ts';
import { start, type TestServer } from '../../server.ts';
import { runCatalogModel } from './catalog_run.ts';

const seed = seedFrom('FUZZ_SEED');
const path = process.env.FUZZ_PATH;
const runs = Number(process.env.FUZZ_RUNS ?? 60);
/** A replay has no time limit. */
const durationMs = path || runsAll ? undefined : new Budget(5).ms;

const isOnPostgresql = new URL(import.meta.url).searchParams.get('store') === 'postgresql';
let server: TestServer;
before(async () => {
  server = await start(isOnPostgresql ? { store: urlOfDatabase(await newStoreDatabase()) } : {});
});
after(() => server.close());

test('the catalog responds like its model', { timeout: deadlineMs(120_000 + runs * 5000) }, async (t) => {
  t.diagnostic(`FUZZ_SEED=${seed}`);
  t.diagnostic(`${await runCatalogModel(server, { seed, runs, path, durationMs })} commands`);
});
