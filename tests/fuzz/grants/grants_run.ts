// Random worlds of users, roles, grants and objects, created step by step on a server and in the model; after each step the answers
// of the service to random questions must be those of the model.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { TestServer } from '../../server.ts';
import { assertFor } from '../assert_for.ts';
import { GrantsAsker } from './grants_asker.ts';
import { stepSequences } from './grants_questions.ts';
import { GrantsSteps } from './grants_steps.ts';
import { GrantsWorld } from './grants_world.ts';

export interface GrantsRunOptions {
  readonly seed: number;
  readonly runs: number;
  /** Of a failure, as fast-check prints it. */
  readonly path?: string | undefined;
  /** No new run begins after this time. */
  readonly durationMs?: number | undefined;
}

const stepsMax = 60;

/** Throws with the shortest run in which an answer differs; otherwise returns the number of questions. */
export async function runGrantsModel(server: TestServer, options: GrantsRunOptions): Promise<number> {
  const { seed, runs, path, durationMs } = options;
  let questionCount = 0;
  const property = fc.asyncProperty(stepSequences(stepsMax), async (steps) => {
    const world = await GrantsWorld.begin(server);
    const [taker, asker] = [new GrantsSteps(world), new GrantsAsker(world)];
    for (const step of steps) {
      await taker.take(step);
      for (const question of step.questions) if (await asker.ask(question)) questionCount++;
    }
  });
  // Finding a shorter run takes minutes: only the replay of a failure searches for one.
  await assertFor(property, { seed, numRuns: runs, ...(path ? { path } : { endOnFailure: true }) }, durationMs);
  assert.ok(questionCount > 0, 'no question was asked');
  return questionCount;
}
