// Runs some scenarios concurrently and kills the server or its engine at a random moment; then everything ends, the periodic maintenance
// runs, and each scenario must be applied completely or not at all. Repeated on one server.
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs } from '../deadline.ts';
import { type Answer, noAnswer } from '../faults/injection/api.ts';
import { externalSystems } from '../faults/injection/external_systems.ts';
import { ServerProcess } from '../faults/injection/server_process.ts';
import { storeEngineDifferences } from '../faults/scenarios/agreement.ts';
import { applyScenario, checkAtomicity, endOfTask } from '../faults/scenarios/atomicity.ts';
import { leftovers } from '../faults/scenarios/leftovers.ts';
import type { Scenario } from '../faults/scenarios/scenario_parts.ts';
import { Random } from '../random.ts';
import { waitUntilRestarted } from './steps.ts';

export interface InstantsOptions {
  readonly seed: number;
  readonly instants: number;
  /** After this many, others begin only if there is time left. */
  readonly atLeast?: number;
  readonly hasTime?: () => boolean;
  readonly scenarios: readonly Scenario[];
}

export interface InstantsReport {
  readonly seed: number;
  readonly kills: { server: number; engine: number };
  /** The scenarios that were running at the kill, and their responses. */
  readonly answers: Record<string, number>;
  /** Empty if nothing was wrong. */
  readonly problems: readonly string[];
}

const atOnce = 4;
/** After this time most scenarios have ended. */
const instantsWithinMs = [30, 100, 400];
const tasksEndMs = deadlineMs(60_000);
/** After this many kills, the data directory of a server is checked and another server begins. */
const instantsEach = 25;

export async function killAtInstants(options: InstantsOptions): Promise<InstantsReport> {
  const { seed, instants, atLeast = 0, hasTime = () => true } = options;
  const isMore = (instantsRun: number) => instantsRun < instants && (instantsRun < atLeast || hasTime());
  const report = {
    seed,
    kills: { server: 0, engine: 0 },
    answers: {} as Record<string, number>,
    problems: [] as string[],
  };
  for (let instantsRun = 0; isMore(instantsRun) && report.problems.length === 0; ) {
    const server = await ServerProcess.onEmptyDirectory();
    try {
      for (let n = 0; n < instantsEach && isMore(instantsRun); n++, instantsRun++)
        await killAtInstant(server, new Random(seed).fork(instantsRun), `i${instantsRun}x`, options.scenarios, report);
      report.problems.push(...(await checkDataDirectory(server)));
      if (report.problems.length === 0) await server.remove();
    } catch (error) {
      report.problems.push(
        `instant ${instantsRun}: ${(error as Error).stack}; retained for inspection: ${server.dataDirectory}`,
      );
    } finally {
      await server.kill();
    }
  }
  return report;
}

/** Stops it gracefully. */
export async function checkDataDirectory(server: ServerProcess): Promise<string[]> {
  await server.maintain();
  await server.stop();
  return [
    ...(await storeEngineDifferences(server.dataDirectory)),
    ...(await leftovers(server.dataDirectory, await externalSystems())),
  ];
}

async function killAtInstant(
  server: ServerProcess,
  random: Random,
  name: string,
  scenarios: readonly Scenario[],
  report: { kills: { server: number; engine: number }; answers: Record<string, number> },
): Promise<void> {
  // No scenario twice: schedules share one clock.
  const remaining = [...scenarios];
  const chosen = Array.from({ length: atOnce }, (_, i) => {
    const [scenario] = remaining.splice(random.below(remaining.length), 1) as [Scenario];
    return { scenario, id: `${name}${i}` };
  });
  for (const { scenario, id } of chosen) await scenario.prepare(server.api, id);
  const victim = random.chance(0.6) ? 'server' : 'engine';
  const answers: Promise<Answer>[] = chosen.map(({ scenario, id }) =>
    applyScenario(server, scenario, id).catch(() => noAnswer),
  );
  await pause(random.below(random.pick(instantsWithinMs)));
  if (victim === 'server') await server.kill();
  else server.killEngine();
  report.kills[victim]++;
  const first = await Promise.all(answers);
  if (!server.runs) await server.start();
  await waitUntilRestarted(server, 0);
  await server.noOrphans();
  await server.recover();
  for (const [i, { scenario, id }] of chosen.entries())
    if (scenario.requestAgain) first[i] = await scenario.requestAgain(server, id);
  const tasks = await server.api.endOfTasks(tasksEndMs);
  await server.maintain();
  for (const [i, { scenario, id }] of chosen.entries()) {
    const answer = first[i] as Answer;
    const outcome = `${answer.status} ${answer.code}`;
    report.answers[outcome] = (report.answers[outcome] ?? 0) + 1;
    const task = answer.status === 202 ? tasks.find(({ taskId }) => taskId === answer.result.taskId) : undefined;
    if (answer.status === 202 && !task) throw new Error(`the accepted task ${answer.result.taskId} is lost`);
    const fault = { point: 'store', n: 0, isLasting: false } as const;
    const interruption = `the ${victim} was killed at an instant`;
    await checkAtomicity(server, scenario, id, { answer, task: endOfTask(task), struck: interruption, fault });
  }
}
