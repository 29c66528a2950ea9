// Random SQL through `query`. FUZZ_SEED replays a run, FUZZ_STATEMENTS makes it longer.
import { after, before, test } from 'node:test';
import { deadlineMs } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { start, type TestServer } from '../../server.ts';
import { fuzzSql } from './sql_fuzz.ts';

const seed = seedFrom('FUZZ_SEED');
const statements = Number(process.env.FUZZ_STATEMENTS ?? 1500);

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

test('random SQL is answered, and nothing breaks', { timeout: deadlineMs(120_000 + statements * 50) }, async (t) => {
  t.diagnostic(`FUZZ_SEED=${seed}`);
  t.diagnostic(JSON.stringify(await fuzzSql(server, new Random(seed), statements)));
});
