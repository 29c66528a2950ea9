// A sample of what `npm run soak` does by the hundred: the server's process and the engine's are killed with SIGKILL, at steps
// of changes and at random moments. SOAK_SEED replays a run.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { killRandomly } from '../soak/kills.ts';
import { describeStep, killAtStep, randomStep } from '../soak/steps.ts';
import { disagreements } from './agreement.ts';
import { Random, seedFrom } from './random.ts';
import { scenarios } from './scenarios.ts';
import { ServerProcess } from './server_process.ts';

const stepsSampled = 10;
const roundsSampled = 6;
const seed = seedFrom('SOAK_SEED');

describe('a process that is killed', () => {
  test('at a step of a change', { timeout: 120_000 }, async (t) => {
    t.diagnostic(`SOAK_SEED=${seed}`);
    const random = new Random(seed);
    const server = await ServerProcess.onEmptyDirectory();
    try {
      for (let i = 0; i < stepsSampled; i++) {
        const step = randomStep(random, scenarios);
        t.diagnostic(
          `${describeStep(step)}: ${(await killAtStep(server, step, String(i))) ? 'struck' : 'not reached'}`,
        );
      }
      await server.stop();
      assert.deepEqual(await disagreements(server.dataDirectory), []);
      await server.remove();
    } finally {
      await server.kill();
    }
  });

  test('at a random moment', { timeout: 120_000 }, async (t) => {
    const report = await killRandomly({ seed, rounds: roundsSampled, workers: 3, tablesEach: 3 });
    t.diagnostic(JSON.stringify(report));
    assert.deepEqual(report.problems, []);
  });
});
