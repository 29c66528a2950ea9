// Kills the server, or its engine, at the n-th statement of the store or the n-th call of the engine that a change makes.
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs, statementWaitSeconds } from '../deadline.ts';
import type { Fault, FaultPoint } from '../faults/fault_plan.ts';
import type { Random } from '../faults/random.ts';
import type { Scenario } from '../faults/scenarios.ts';
import type { ServerProcess } from '../faults/server_process.ts';
import { checkWhole, endOfTask, make } from '../faults/whole.ts';

export interface Step {
  readonly scenario: Scenario;
  readonly victim: 'server' | 'engine';
  readonly point: FaultPoint;
  readonly n: number;
  /** The engine's process is killed so long after the step began. */
  readonly delayMs: number;
}

const tasksEndMs = deadlineMs(60_000);
const engineBackMs = deadlineMs(20_000);
/** A change asks the store about this often; the sweep goes on beyond, to where nothing is struck. */
const usualStatements = 14;
const statementsOfTask = 40;
/** Requests of a task to what is outside. */
const requestsOutside = 5;

const statementsOf = ({ isTask }: Scenario) => (isTask ? statementsOfTask : usualStatements);

/** Says whether the change came to that step at all; throws where it is not whole afterwards. */
export async function killAtStep(server: ServerProcess, step: Step, id: string): Promise<boolean> {
  const { scenario, victim, point, n, delayMs } = step;
  await scenario.prepare(server.api, id);
  const fault: Fault = { point, n, lasting: false };
  await server.arm(victim, fault, delayMs);
  let answer = await make(server, scenario, id);
  if (answer.status === 202) await untilEndOrDeath(server);
  else if (answer.status === 0) await server.exited(2000);
  let struck: string | undefined = `the ${victim} was killed`;
  if (server.runs) struck = await server.disarm().catch(() => `the ${victim} was killed`);
  if (!server.runs) await server.start();
  if (victim === 'engine') await untilBack(server, delayMs);
  await server.noOrphans();
  // What nobody answered goes on where it was.
  if (scenario.act) answer = await scenario.act(server, id);
  const tasks = await server.api.endOfTasks(tasksEndMs);
  await server.recover();
  const task = answer.status === 202 ? tasks.find(({ taskId }) => taskId === answer.result.taskId) : undefined;
  if (answer.status === 202 && !task) throw new Error(`the accepted task ${answer.result.taskId} is lost`);
  await checkWhole(server, scenario, id, { answer, task: endOfTask(task), struck, fault });
  return struck !== undefined;
}

/** Until the kill has come and the server has noticed: whose statement it meets is told to try again. */
export async function untilBack(server: ServerProcess, delayMs: number): Promise<void> {
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

/** Every step that a change may have, and some beyond; which there are is only known when they are tried. */
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
    if (!scenario.reaches) continue;
    for (const point of ['asked', 'answered'] as const) {
      add('server', point, requestsOutside, [0]);
      add('engine', point, requestsOutside, [0]);
    }
  }
  return steps;
}

/** How far scenarios go: a step beyond one that was not reached is none. */
export class Reach {
  readonly #ends = new Map<string, number>();

  isBeyond(step: Step): boolean {
    return step.n >= (this.#ends.get(keyOf(step)) ?? Number.POSITIVE_INFINITY);
  }

  note(step: Step, wasReached: boolean): void {
    // The engine may have done its work before the kill came.
    if (!wasReached && step.delayMs === 0) this.#ends.set(keyOf(step), step.n + beyond);
  }
}

const keyOf = ({ scenario, victim, point }: Step) => `${scenario.name} ${victim} ${point}`;
/** A step more or less is due to what else runs meanwhile. */
const beyond = 2;

/** One step among those that changes have. */
export function randomStep(random: Random, scenarios: readonly Scenario[]): Step {
  const scenario = random.pick(scenarios);
  if (scenario.reaches && random.chance(0.25)) {
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
