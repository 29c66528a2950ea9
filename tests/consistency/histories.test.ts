// Histories of concurrent writes and reads while engine and server are killed are strictly serializable, and each write is applied
// once. `HISTORY_SEED` replays one; npm run soak runs longer ones.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Budget } from '../budget.ts';
import { closeExternalSystems } from '../faults/injection/external_systems.ts';
import { ServerProcess } from '../faults/injection/server_process.ts';
import { Random, seedFrom } from '../random.ts';
import { runHistory } from './run_history.ts';

after(closeExternalSystems);

test('appends, registers and rows under kills', async (t) => {
  const seed = seedFrom('HISTORY_SEED');
  t.diagnostic(`HISTORY_SEED=${seed}`);
  const server = await ServerProcess.onEmptyDirectory();
  try {
    const hasTime = new Budget(8).part();
    const options = { random: new Random(seed), clients: 6, hasTime, killEveryMs: 1500 };
    const { problems, operations, kills, resent: repeats } = await runHistory(server, options);
    t.diagnostic(JSON.stringify({ operations, kills, resent: repeats }));
    assert.deepEqual(problems, [], `HISTORY_SEED=${seed}`);
    assert.ok(kills.engine + kills.server > 0 && operations > 0);
  } finally {
    await server.kill();
    await server.remove();
  }
});
