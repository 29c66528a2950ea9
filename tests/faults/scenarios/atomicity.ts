// After an interrupted change was recovered: it is complete or absent, consistent with the response; and it can be repeated.
import assert from 'node:assert/strict';
import { deadlineMs } from '../../deadline.ts';
import { type Answer, isAcknowledged } from '../injection/api.ts';
import type { Fault } from '../injection/fault_plan.ts';
import { expectationDifferences } from './expectation.ts';
import type { ClockedWorld, Scenario } from './scenario_parts.ts';

const taskWaitMs = deadlineMs(60_000);

/** The part of a task's record that `checkAtomicity` needs. */
export function endOfTask(record: object | undefined): InterruptedChange['task'] {
  const { state, error } = (record ?? {}) as { state?: string; error?: { code: string } | null };
  return state === undefined ? undefined : { state, code: error?.code };
}

export interface InterruptedChange {
  readonly answer: Answer;
  /** How the task ended, if the response was 202; with the code of its failure. */
  readonly task: { readonly state: string; readonly code: string | undefined } | undefined;
  /** The fault; undefined: none. */
  readonly struck: string | undefined;
  readonly fault: Fault;
}

/** Applies it. */
export async function applyScenario(world: ClockedWorld, scenario: Scenario, id: string): Promise<Answer> {
  return scenario.requestAgain ? scenario.requestAgain(world, id) : world.api.send(await scenario.request(id));
}

export async function checkAtomicity(
  world: ClockedWorld,
  scenario: Scenario,
  id: string,
  interrupted: InterruptedChange,
): Promise<void> {
  const { answer, task, struck } = interrupted;
  const message = describeInterruption(scenario, interrupted);
  const acknowledged = answer.status === 202 ? task?.state === 'succeeded' : isAcknowledged(answer);
  if (scenario.refusal) {
    if (answer.status !== 0 && answer.status < 500) assert.equal(answer.code, scenario.refusal, message);
  } else if (struck === undefined) assert(acknowledged, message);
  const refused = answer.status >= 400 && answer.status < 500;
  // A statement that was started several times without a response may have taken effect (codes.ts).
  const failed = answer.status === 202 && !acknowledged && task?.code !== 'TASK_ATTEMPTS_EXHAUSTED';
  const isApplied = await isDone(world, scenario, id, acknowledged, refused || failed, message);
  await makeAgain(world, scenario, id, isApplied, message);
}

function describeInterruption({ name }: Scenario, { answer, task, struck, fault }: InterruptedChange): string {
  const call = struck?.replace(/"/g, '').slice(0, 90);
  const { point, n, isLasting } = fault;
  return `${name}: broken ${isLasting ? 'from' : 'at'} ${point} ${n} (${call}), answer ${JSON.stringify(answer).slice(0, 300)}, task ${JSON.stringify(task)}`;
}

/** Whether the change was applied; throws if it was applied partially, or not as the response said. */
async function isDone(
  world: ClockedWorld,
  scenario: Scenario,
  id: string,
  acknowledged: boolean,
  refused: boolean,
  message: string,
): Promise<boolean> {
  const fromAfter = await afterIt(world, scenario, id);
  if (acknowledged) assert.deepEqual(fromAfter, [], `acknowledged, and not so: ${message}`);
  if (fromAfter.length === 0 && !refused) return true;
  const fromBefore = await expectationDifferences(world, scenario.before(id));
  const halfMade = `neither as before nor, if it may be, as after (${fromAfter.join('; ')}): ${message}`;
  assert.deepEqual(fromBefore, [], halfMade);
  return false;
}

async function afterIt(world: ClockedWorld, scenario: Scenario, id: string): Promise<string[]> {
  return [
    ...(await expectationDifferences(world, scenario.after(id))),
    ...((await scenario.extraDifferences?.(world, id)) ?? []),
  ];
}

async function makeAgain(
  world: ClockedWorld,
  scenario: Scenario,
  id: string,
  isApplied: boolean,
  message: string,
): Promise<void> {
  if (scenario.requestAgain) return;
  const answer = await applyScenario(world, scenario, id);
  if (answer.status === 202) await world.api.endOfTasks(taskWaitMs);
  if (scenario.refusal) return assert.equal(answer.code, scenario.refusal, message);
  if (isApplied && scenario.repeatCondition && scenario.repeatCondition !== 'more') {
    return assert.equal(answer.code, scenario.repeatCondition, `a second time: ${message}`);
  }
  assert(isAcknowledged(answer), `cannot be made again: ${JSON.stringify(answer)}: ${message}`);
  if (isApplied && scenario.repeatCondition === 'more') return;
  assert.deepEqual(await afterIt(world, scenario, id), [], `made again, and not so: ${message}`);
}
