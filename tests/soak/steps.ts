// Kills the server or its engine at the n-th statement of the store or the n-th call of the engine during a change.
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs, statementWaitSeconds } from '../deadline.ts';
import type { Fault, FaultPoint } from '../faults/injection/fault_plan.ts';
import type { ServerProcess } from '../faults/injection/server_process.ts';
import { applyScenario, checkAtomicity, endOfTask } from '../faults/scenarios/atomicity.ts';
import type { Scenario } from '../faults/scenarios/scenarios.ts';
import type { Random } from '../random.ts';

export interface Step {
  readonly scenario: Scenario;
  readonly victim: 'server' | 'engine';
  readonly point: FaultPoint;
  readonly n: number;
  /** Delays after the beginning of the step at which the engine's process is killed. */
  readonly delayMs: number;
}

const tasksEndMs = deadlineMs(60_000);
const engineBackMs = deadlineMs(20_000);
/** A change executes about this many statements of the store; the sweep continues until a step is not reached. */
const usualStatements = 14;
const statementsOfTask = 40;
/** Requests that a task sends to other services. */
const requestsOutside = 5;

const statementsOf = ({ isTask }: Scenario) => (isTask ? statementsOfTask : usualStatements);

/** @returns whether the change reached that step; throws if the state afterwards is incomplete. */
export async function killAtStep(server: ServerProcess, step: Step, id: string): Promise<boolean> {
  const { scenario, victim, point, n, delayMs } = step;
  await scenario.prepare(server.api, id);
  const fault: Fault = { point, n, isLasting: false };
  await server.arm(victim, fault, delayMs);
  let answer = await applyScenario(server, scenario, id);
  if (answer.status === 202) await untilEndOrDeath(server);
  else if (answer.status === 0) await server.waitForExit(2000);
  let interruption: string | undefined = `the ${victim} was killed`;
  if (server.runs) interruption = await server.disarm().catch(() => `the ${victim} was killed`);
  if (!server.runs) await server.start();
  if (victim === 'engine') await waitUntilRestarted(server, delayMs);
  await server.noOrphans();
  // A change without a response continues where it was interrupted.
  if (scenario.requestAgain) answer = await scenario.requestAgain(server, id);
  const tasks = await server.api.endOfTasks(tasksEndMs);
  await server.recover();
  const task = answer.status === 202 ? tasks.find(({ taskId }) => taskId === answer.result.taskId) : undefined;
  if (answer.status === 202 && !task) throw new Error(`the accepted task ${answer.result.taskId} is lost`);
  await checkAtomicity(server, scenario, id, { answer, task: endOfTask(task), struck: interruption, fault });
  return interruption !== undefined;
}

/** Waits until the server has noticed the kill: statements that fail because of it are retried. */
export async function waitUntilRestarted(server: ServerProcess, delayMs: number): Promise<void> {
  await pause(delayMs + 20);
  const deadline = Date.now() + engineBackMs;
  for (;;) {
    const { status, code } = await server.api.post('/api/v2/catalogs/default/query', {
      sql: 'SELECT 1',
      waitSeconds: statementWaitSeconds(),
    });
    if (status === 200) return;
    if (status !== 503 || Date.now() > deadline) throw new Error(`the engine does not come back: ${status} ${code}`);
    await pause(20);
  }
}

async function untilEndOrDeath(server: ServerProcess): Promise<void> {
  const deadline = Date.now() + tasksEndMs;
  while (server.runs && Date.now() < deadline) {
    const { result } = await server.api.get('/api/v2/tasks?pageSize=1000');
    const open = (result.tasks as { state: string }[] | undefined)?.some(
      ({ state }) => !['succeeded', 'failed', 'cancelled'].includes(state),
    );
    if (open === false) return;
  }
}

/** Every step that a change may have, and some beyond its last, because the number of steps is not known in advance. */
export function allSteps(scenarios: readonly Scenario[]): Step[] {
  const steps: Step[] = [];
  for (const scenario of scenarios) {
    const add = (victim: Step['victim'], point: FaultPoint, last: number, delays: readonly number[]) => {
      for (let n = 1; n <= last; n++) for (const delayMs of delays) steps.push({ scenario, victim, point, n, delayMs });
    };
    const calls = scenario.isTask ? 6 : 2;
    add('server', 'store', statementsOf(scenario), [0]);
    add('server', 'before', calls, [0]);
    add('server', 'after', calls, [0]);
    add('engine', 'before', calls, [0, 1, 3, 10]);
    add('engine', 'after', calls, [0]);
    if (!scenario.usesServices) continue;
    for (const point of ['asked', 'answered'] as const) {
      add('server', point, requestsOutside, [0]);
      add('engine', point, requestsOutside, [0]);
    }
  }
  return steps;
}

/** The number of steps of each scenario: a step that was not reached ends the sweep. */
export class StepCounts {
  readonly #ends = new Map<string, number>();

  isBeyond(step: Step): boolean {
    return step.n >= (this.#ends.get(keyOf(step)) ?? Number.POSITIVE_INFINITY);
  }

  note(step: Step, wasReached: boolean): void {
    // The engine may have finished its work before the kill.
    if (!wasReached && step.delayMs === 0) this.#ends.set(keyOf(step), step.n + extraSteps);
  }
}

const keyOf = ({ scenario, victim, point }: Step) => `${scenario.name} ${victim} ${point}`;
/** The number of steps can differ by one because of concurrent background work. */
const extraSteps = 2;

/** One random step of a random change. */
export function randomStep(random: Random, scenarios: readonly Scenario[]): Step {
  const scenario = random.pick(scenarios);
  if (scenario.usesServices && random.chance(0.25)) {
    const point = random.pick(['asked', 'answered'] as const);
    return { scenario, victim: 'server', point, n: 1 + random.below(requestsOutside), delayMs: random.pick([0, 0, 5]) };
  }
  if (random.chance(0.35)) {
    const point = random.pick(['before', 'after'] as const);
    return { scenario, victim: 'engine', point, n: 1 + random.below(2), delayMs: random.pick([0, 0, 1, 3, 10, 30]) };
  }
  const point = random.pick(['store', 'store', 'before', 'after'] as const);
  const n = 1 + random.below(point === 'store' ? statementsOf(scenario) : 2);
  return { scenario, victim: 'server', point, n, delayMs: 0 };
}

export const describeStep = ({ scenario, victim, point, n, delayMs }: Step) =>
  `${scenario.name}: ${victim} killed at ${point} ${n}${delayMs > 0 ? ` + ${delayMs} ms` : ''}`;
