// A server, or a node of the cluster, is killed at a step of a change: the change is repeated with its key through either server until one answers
// for certain, and is then there once.
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { TaskError } from '../../../src/tasks/task.ts';
import { deadlineFromNow, deadlineMs, eventually } from '../../deadline.ts';
import type { RingNode } from '../../engines/clickhouse/ring/ring.ts';
import type { Random } from '../../random.ts';
import { type Answer, isAcknowledged, pathOf, type Request } from '../injection/api.ts';
import type { Fault } from '../injection/fault_plan.ts';
import type { ArmedFault } from './armed_server.ts';
import { type CheckedApi, clearedMs, endedState } from './checked_api.ts';
import {
  type ClusterKind,
  type ClusterServer,
  type ClusterWorld,
  startCluster,
  warehousesOf,
} from './cluster_world.ts';
import { leftCopies, nodeDifferences } from './node_contents.ts';
import {
  catalogOf,
  columns,
  renamedTo,
  rowsBefore,
  type StepPlace,
  type StepScenario,
  stepScenarios,
} from './step_scenarios.ts';

export interface ClusterStep {
  /** Its position among all steps. Together with the seed it decides all random choices at it, whatever else is tried. */
  readonly id: number;
  readonly scenario: StepScenario;
  /** In which the catalog is before. */
  readonly warehouse: string;
  /** Of a move. */
  readonly target: string | undefined;
  readonly fault: Fault;
  /** The position of a node; undefined: the server. */
  readonly node: number | undefined;
}

/** How many steps the changes have: those beyond the last are not tried. */
export class ReachedSteps {
  readonly #counts = new Map<string, number>();
  readonly #without = new Set<string>();

  /** `kind`: of the steps that are counted together. `n`: of its step. */
  isBeyond(kind: string, n: number): boolean {
    return n > (this.#counts.get(kind) ?? Number.POSITIVE_INFINITY) + spareSteps;
  }

  /** How many there were when nothing happened. None counts the second time only: the other server may have taken the task. */
  note(kind: string, count: number): void {
    if (count > 0 || this.#without.has(kind)) this.#counts.set(kind, Math.max(count, this.#counts.get(kind) ?? 0));
    this.#without.add(kind);
  }
}

const kindOf = (step: ClusterStep) => `${describePlace(step)} ${step.fault.point}`;
/** Work beside a change can add or take a step. */
const spareSteps = 2;

export interface StepsReport {
  readonly tried: number;
  /** Of these, the ones that were reached. */
  readonly struck: number;
  /** Empty if nothing was wrong. */
  readonly problems: readonly string[];
}

/** Between two of these steps a change changes nothing, in the store or on a node. */
const changing: Readonly<Record<'store' | 'asked', readonly string[]>> = {
  store: ['begin', 'commit', 'update "intents"', 'update "tasks"'],
  asked: ['ALTER', 'CREATE', 'DELETE', 'DROP', 'EXCHANGE', 'INSERT', 'KILL', 'RENAME', 'SYSTEM', 'TRUNCATE', 'UPDATE'],
};
/** Some more than a change has. */
const stepsMax = { store: 30, before: 5, after: 5, asked: 36 };
const stepsOfMoveMax: typeof stepsMax = { store: 66, before: 18, after: 16, asked: 60 };
/** The warehouse of a server, from which catalogs move to the cluster, and to which they move back. */
const home = 'default';
const answerMs = 10_000;
const certainMs = 120_000;
const repeatPauseMs = 50;
/** The module of servers that can be armed. */
export const armedServer = new URL('armed_server.ts', import.meta.url);

const faultsAt = (point: keyof typeof stepsMax, count: number): readonly Fault[] => {
  const calls = point === 'store' || point === 'asked' ? { callPrefixes: changing[point] } : {};
  return Array.from({ length: count }, (_, i) => ({ point, n: i + 1, isLasting: false, ...calls }));
};

/** Each with the position of the node that is killed; undefined: the server. */
function kills({ isMove }: StepScenario) {
  const max = isMove ? stepsOfMoveMax : stepsMax;
  const faultsOfNodes = (['before', 'after', 'asked'] as const).flatMap((point) => faultsAt(point, max[point]));
  return [
    ...[...faultsAt('store', max.store), ...faultsOfNodes].map((fault) => ({ fault, node: undefined })),
    ...faultsOfNodes.map((fault) => ({ fault, node: 1 })),
  ];
}

const placesOf = (kind: ClusterKind, { isMove }: StepScenario): readonly Pick<ClusterStep, 'warehouse' | 'target'>[] =>
  warehousesOf[kind].flatMap((warehouse): readonly Pick<ClusterStep, 'warehouse' | 'target'>[] =>
    isMove
      ? [
          { warehouse: home, target: warehouse },
          { warehouse, target: home },
        ]
      : [{ warehouse, target: undefined }],
  );

/** Of all changes in all warehouses of an installation. */
export const allClusterSteps = (kind: ClusterKind): readonly ClusterStep[] =>
  stepScenarios
    .flatMap((scenario) =>
      placesOf(kind, scenario).flatMap((place) => kills(scenario).map((kill) => ({ scenario, ...place, ...kill }))),
    )
    .map((step, id) => ({ ...step, id }));

const describePlace = ({ scenario, warehouse, target }: ClusterStep) =>
  `${scenario.name} ${target === undefined ? `in ${warehouse}` : `from ${warehouse} to ${target}`}`;

export const describeStep = (step: ClusterStep) =>
  `${describePlace(step)}: ${step.node === undefined ? 'the server' : `node ${step.node + 1}`} killed at ${step.fault.point} ${step.fault.n}`;

export interface StepsOptions {
  readonly kind: ClusterKind;
  readonly random: Random;
  readonly log?: (text: string) => void;
  readonly reached?: ReachedSteps;
}

/** Kills at each of these steps, in this order, without those that are known to be none. */
export async function killAtSteps(
  steps: Iterable<ClusterStep>,
  { kind, random, log = () => {}, reached = new ReachedSteps() }: StepsOptions,
): Promise<StepsReport> {
  const world = await startCluster({ kind, entry: armedServer });
  const [{ api }] = world.servers as [ClusterServer];
  const problems: string[] = [];
  let [tried, struck] = [0, 0];
  try {
    // On a loaded machine a node may have been given up again since it was available.
    for (const warehouse of world.warehouses)
      await certainly(api, { method: 'PUT', path: databaseIn(warehouse), body: {} });
    for (const step of steps) {
      tried++;
      const kind = kindOf(step);
      if (reached.isBeyond(kind, step.fault.n)) continue;
      const call = await killAt(world, step, random.fork(step.id));
      const isReached = typeof call === 'string';
      log(
        `${describeStep(step)}: ${isReached ? call.replaceAll(/\s+/g, ' ') : `not reached, there are ${call ?? 'more'}`}`,
      );
      if (isReached) struck++;
      else if (call !== undefined) reached.note(kind, call);
    }
    await eventually('old copies are deleted', async () => (await leftCopies(world)).length === 0, certainMs);
    problems.push(...(await nodeDifferences(world)));
  } catch (error) {
    problems.push(String((error as Error).stack));
  } finally {
    problems.push(...world.servers.flatMap(({ api, failedStarts }) => [...api.problems, ...failedStarts]));
    await world.close();
  }
  return { tried, struck, problems };
}

const databaseIn = (catalog: string) => `${pathOf('catalogs', catalog)}/databases/steps`;

/** @returns what the server was about to do at that step; if the change does not have it, how many it has, and undefined if it was refused. */
async function killAt(world: ClusterWorld, step: ClusterStep, random: Random): Promise<string | number | undefined> {
  const { id, scenario, warehouse, target, fault } = step;
  // A move runs in the server that has the other warehouse, which is the first one.
  const servers = scenario.isMove ? world.servers : random.shuffled(world.servers);
  const [server, other] = servers as [ClusterServer, ClusterServer];
  const victim = step.node === undefined ? undefined : (world.ring.nodes[step.node] as RingNode);
  const catalog = target === undefined ? warehouse : `to ${target} ${id}`;
  const place: StepPlace = {
    database: databaseIn(catalog),
    table: `t${id}`,
    loadDirectory: world.loadDirectory,
    target,
  };
  if (scenario.isMove) await prepareCatalog(server.api, { name: catalog, warehouse });
  if (scenario.needsTable) await prepare(server.api, place);
  const request = { ...scenario.request(place), key: randomUUID() };
  await arm(server, { fault, pid: victim?.pid });
  const first = server.api.send(request, answerMs);
  // Either the same server continues after its restart, or the other one takes over.
  const restartsFirst = random.chance(0.5) || scenario.isMove === true;
  const firstAnswer = await first;
  const hasEnded = async () => {
    if (firstAnswer.status !== 202) return true;
    return endedState((await other.api.get(pathOf('tasks', String(firstAnswer.result.taskId)))).result) !== undefined;
  };
  // What a task does has steps, too.
  await eventually('the step is reached or the change ends', async () => struckAt(server) || hasEnded(), certainMs);
  const call = struckAt(server) ?? (await disarm(server, fault));
  const struck = typeof call === 'string';
  const restart = async () => {
    if (!struck) return;
    const killed = victim ?? server;
    // The signal may still be on its way: until the process has ended, it counts as started.
    await killed.kill();
    await killed.start();
  };
  // A node must be back, because changes need all of them.
  if (restartsFirst || victim !== undefined) await restart();
  const apis = restartsFirst ? [server.api, other.api] : [other.api, server.api];
  const answer = isAcknowledged(firstAnswer) ? firstAnswer : await certain(apis, request);
  if (!restartsFirst && victim === undefined) await restart();
  if (!isAcknowledged(answer))
    throw new Error(`${describeStep(step)}: ${JSON.stringify(answer)} after ${JSON.stringify(firstAnswer)}`);
  if (scenario.isMove) await moves(other.api, request, answer);
  else if (answer.status === 202) await taskSucceeds(other.api, String(answer.result.taskId));
  for (const { api } of world.servers) await isAsAfter(api, step, place);
  return struck || isAcknowledged(firstAnswer) ? call : undefined;
}

async function prepareCatalog(api: CheckedApi, body: { readonly name: string; readonly warehouse: string }) {
  await certainly(api, { method: 'POST', path: pathOf('catalogs'), body });
  await certainly(api, { method: 'PUT', path: databaseIn(body.name), body: {} });
}

async function prepare(api: CheckedApi, { database, table }: StepPlace): Promise<void> {
  const rows = Array.from({ length: rowsBefore }, (_, id) => ({ id, n: 0 }));
  await certainly(api, { method: 'PUT', path: `${database}/tables/${table}`, body: { columns } });
  await certainly(api, { method: 'POST', path: `${database}/tables/${table}/rows`, body: { rows } });
}

async function certainly(api: CheckedApi, request: Request): Promise<void> {
  const answer = await certain([api], { ...request, key: randomUUID() });
  if (!isAcknowledged(answer)) throw new Error(`${request.path}: ${JSON.stringify(answer)}`);
}

/** The first answer that is none of a fault. */
async function certain(apis: readonly CheckedApi[], request: Request): Promise<Answer> {
  const isOver = deadlineFromNow(certainMs);
  for (let attempt = 0; ; attempt++) {
    const answer = await (apis[attempt % apis.length] as CheckedApi).send(request, answerMs);
    if ((answer.status !== 0 && answer.status < 500) || isOver()) return answer;
    await pause(repeatPauseMs);
  }
}

export async function arm(server: ClusterServer, fault: ArmedFault): Promise<void> {
  rmSync(join(server.directory, 'struck'), { force: true });
  await setFault(server, fault);
}

/** @returns the step at which it has struck meanwhile; if it does not strike any more, how many steps of that kind there were. */
export async function disarm(server: ClusterServer, { point }: Fault): Promise<string | number> {
  await setFault(server, { fault: { point, n: Number.MAX_SAFE_INTEGER, isLasting: false } });
  const counts = () =>
    JSON.parse(readFileSync(join(server.directory, 'armed'), 'utf8')) as Partial<Record<string, number>>;
  return struckAt(server) ?? counts()[point] ?? 0;
}

async function setFault(server: ClusterServer, fault: ArmedFault): Promise<void> {
  const armedFile = join(server.directory, 'armed');
  rmSync(armedFile, { force: true });
  writeFileSync(join(server.directory, 'fault.json'), JSON.stringify(fault));
  server.signal('SIGUSR2');
  await eventually('the server is armed', () => existsSync(armedFile) || struckAt(server));
}

/** The step at which an armed server struck; undefined if it has not reached it. */
export function struckAt({ directory }: ClusterServer): string | undefined {
  const file = join(directory, 'struck');
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

/** How a task ends. */
async function taskEnds(
  api: CheckedApi,
  taskId: string,
): Promise<{ readonly state: string; readonly error?: TaskError }> {
  let last: Readonly<Record<string, unknown>> = {};
  await eventually(
    'the task has ended',
    async () => {
      last = (await api.get(pathOf('tasks', taskId))).result;
      return endedState(last) !== undefined;
    },
    certainMs,
  ).catch((error) => {
    throw new Error(`${(error as Error).message}: ${JSON.stringify(last)}`);
  });
  return { state: String(last.state), ...(last.error ? { error: last.error as TaskError } : {}) };
}

async function taskSucceeds(api: CheckedApi, taskId: string): Promise<void> {
  const end = await taskEnds(api, taskId);
  if (end.state !== 'succeeded') throw new Error(`the task ${taskId} has ended so: ${JSON.stringify(end)}`);
}

/** A move that was given up after an interruption has left the catalog where it was, and succeeds when it is repeated. */
async function moves(api: CheckedApi, request: Request, first: Answer): Promise<void> {
  const end = await taskEnds(api, String(first.result.taskId));
  if (end.state === 'succeeded') return;
  if (end.error?.code !== 'TASK_INTERRUPTED') throw new Error(`the move has ended so: ${JSON.stringify(end)}`);
  const again = await certain([api], { ...request, key: randomUUID() });
  if (!isAcknowledged(again)) throw new Error(`the move is not repeated: ${JSON.stringify(again)}`);
  await taskSucceeds(api, String(again.result.taskId));
}

async function isAsAfter(api: CheckedApi, step: ClusterStep, place: StepPlace): Promise<void> {
  const { database, table, target } = place;
  const { after } = step.scenario;
  const name = after?.renamed ? renamedTo(table) : table;
  const sql = `SELECT ${after?.select ?? 'count(*)'} FROM "${name}"`;
  let answer: Answer | undefined;
  await eventually(
    'the table answers',
    async () => {
      answer = await api.send({ method: 'POST', path: `${database}/query`, body: { sql } }, deadlineMs(answerMs));
      return answer.status !== 0 && answer.status < 500;
    },
    clearedMs,
  ).catch((error) => {
    throw new Error(`${describeStep(step)}: ${(error as Error).message}: ${JSON.stringify(answer)}`);
  });
  const isRight =
    after === undefined
      ? answer?.code === 'SQL_INVALID'
      : answer?.status === 200 && JSON.stringify(answer.result.rows) === JSON.stringify(after.rows);
  if (!isRight)
    throw new Error(`${describeStep(step)}: ${JSON.stringify(answer)} instead of ${JSON.stringify(after?.rows)}`);
  if (target === undefined) return;
  const { result } = await api.get(catalogOf(database));
  if (result.state !== 'ready' || result.warehouse !== target)
    throw new Error(`${describeStep(step)}: the catalog is ${JSON.stringify(result)}`);
}
