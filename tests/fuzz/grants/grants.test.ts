// Random users, roles, grants and objects through the real HTTP API, against a model of the rules: each request and each statement
// is allowed if and only if the model allows it. TEST_SEED (and TEST_PATH, which fast-check prints) replay a run; FUZZ_RUNS makes
// it longer.
import { after, before, test } from 'node:test';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { seedFrom } from '../../random.ts';
import { start, type TestServer } from '../../server.ts';
import { runGrantsModel } from './grants_run.ts';

const seed = seedFrom('TEST_SEED');
const path = process.env.TEST_PATH;
const runs = Number(process.env.FUZZ_RUNS ?? 60);
/** A replay has no time limit. */
const durationMs = path || runsAll ? undefined : new Budget(5).ms;

let server: TestServer;
before(async () => {
  // Deleted users keep sending requests.
  server = await start({ failedLoginsPerAddressMax: 1_000_000 });
});
after(() => server.close());

test('a request is allowed if and only if the rules allow it', {
  timeout: deadlineMs(120_000 + runs * 5000),
}, async (t) => {
  t.diagnostic(`TEST_SEED=${seed}`);
  t.diagnostic(`${await runGrantsModel(server, { seed, runs, path, durationMs })} authorization decisions`);
});
