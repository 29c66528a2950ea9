// A server, or a node of the cluster, is killed at a step of a change: the change is repeated with its key through either server until one answers
// for certain, and is then there once.
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineFromNow, deadlineMs, eventually } from '../../deadline.ts';
import type { RingNode } from '../../engines/clickhouse/ring/ring.ts';
import type { Random } from '../../random.ts';
import { type Answer, isAcknowledged, type Request } from '../injection/api.ts';
import type { Fault } from '../injection/fault_plan.ts';
import { endOfTask } from '../scenarios/atomicity.ts';
import { requireAcknowledged } from '../scenarios/scenario_parts.ts';
import type { ArmedFault } from './armed_server.ts';
import { type CheckedApi, clearedMs } from './checked_api.ts';
import {
  type ClusterKind,
  type ClusterServer,
  type ClusterWorld,
  startCluster,
  warehousesOf,
} from './cluster_world.ts';
import { nodeDifferences } from './node_contents.ts';
import { columns, renamedTo, rowsBefore, type StepPlace, type StepScenario, stepScenarios } from './step_scenarios.ts';

export interface ClusterStep {
  /** Its position among all steps. Together with the seed it decides all random choices at it, whatever else is tried. */
  readonly id: number;
  readonly scenario: StepScenario;
  readonly warehouse: string;
  readonly fault: Fault;
  /** The position of a node; undefined: the server. */
  readonly node: number | undefined;
}

/** How many steps the changes have: those beyond the last are not tried. */
export class ReachedSteps {
  readonly #ends = new Map<string, number>();

  /** `kind`: of the steps that are counted together. `n`: of its step. */
  isBeyond(kind: string, n: number): boolean {
    return n >= (this.#ends.get(kind) ?? Number.POSITIVE_INFINITY);
  }

  note(kind: string, n: number, isReached: boolean): void {
    const end = n + (isReached ? Number.POSITIVE_INFINITY : spareSteps);
    this.#ends.set(kind, Math.min(end, this.#ends.get(kind) ?? Number.POSITIVE_INFINITY));
  }
}

const kindOf = ({ scenario, warehouse, fault }: ClusterStep) => `${scenario.name} ${warehouse} ${fault.point}`;
/** Work beside a change can add or take a step. */
const spareSteps = 2;

export interface StepsReport {
  readonly tried: number;
  /** Of these, the ones that were reached. */
  readonly struck: number;
  /** Empty if nothing was wrong. */
  readonly problems: readonly string[];
}

/** Some more than a change has. */
const stepsMax = { store: 14, before: 2, after: 2 };
const answerMs = 10_000;
const certainMs = 120_000;
const repeatPauseMs = 50;
/** The module of servers that can be armed. */
export const armedServer = new URL('armed_server.ts', import.meta.url);

const faults = (['store', 'before', 'after'] as const).flatMap((point) =>
  Array.from({ length: stepsMax[point] }, (_, i): Fault => ({ point, n: i + 1, isLasting: false })),
);

/** Of all changes in all warehouses of an installation. */
export const allClusterSteps = (kind: ClusterKind): readonly ClusterStep[] =>
  stepScenarios
    .flatMap((scenario) =>
      warehousesOf[kind].flatMap((warehouse) =>
        faults.flatMap((fault) => [undefined, 1].map((node) => ({ scenario, warehouse, fault, node }))),
      ),
    )
    .map((step, id) => ({ ...step, id }));

export const describeStep = ({ scenario, warehouse, fault, node }: ClusterStep) =>
  `${scenario.name} in ${warehouse}: ${node === undefined ? 'the server' : `node ${node + 1}`} killed at ${fault.point} ${fault.n}`;

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
    for (const warehouse of world.warehouses) await requireAcknowledged(api.put(databaseIn(warehouse), {}));
    for (const step of steps) {
      tried++;
      const kind = kindOf(step);
      if (reached.isBeyond(kind, step.fault.n)) continue;
      log(describeStep(step));
      const isReached = await killAt(world, step, random.fork(step.id));
      reached.note(kind, step.fault.n, isReached);
      if (isReached) struck++;
    }
    problems.push(...(await nodeDifferences(world)));
  } catch (error) {
    problems.push(String((error as Error).stack));
  } finally {
    problems.push(...world.servers.flatMap(({ api, failedStarts }) => [...api.problems, ...failedStarts]));
    await world.close();
  }
  return { tried, struck, problems };
}

const databaseIn = (warehouse: string) => `/api/v2/catalogs/${warehouse}/databases/steps`;

/** @returns whether the change has that step. */
async function killAt(world: ClusterWorld, step: ClusterStep, random: Random): Promise<boolean> {
  const { id, scenario, warehouse, fault } = step;
  const [server, other] = random.shuffled(world.servers) as [ClusterServer, ClusterServer];
  const victim = step.node === undefined ? undefined : (world.ring.nodes[step.node] as RingNode);
  const place: StepPlace = { database: databaseIn(warehouse), table: `t${id}`, loadDirectory: world.loadDirectory };
  if (scenario.needsTable) await prepare(server.api, place);
  const request = { ...scenario.request(place), key: randomUUID() };
  await arm(server, { fault, pid: victim?.pid });
  const first = server.api.send(request, answerMs);
  // Either the same server continues after its restart, or the other one takes over.
  const restartsFirst = random.chance(0.5);
  const firstAnswer = await first;
  const struck = struckAt(server) !== undefined;
  const restart = async () => {
    if (!struck) return;
    const killed = victim ?? server;
    // The signal may still be on its way: until the process has ended, it counts as started.
    await killed.kill();
    await killed.start();
  };
  if (!struck) await arm(server, { fault: { ...fault, n: Number.MAX_SAFE_INTEGER } });
  // A node must be back, because changes need all of them.
  if (restartsFirst || victim !== undefined) await restart();
  const apis = restartsFirst ? [server.api, other.api] : [other.api, server.api];
  const answer = isAcknowledged(firstAnswer) ? firstAnswer : await certain(apis, request);
  if (!restartsFirst && victim === undefined) await restart();
  if (!isAcknowledged(answer))
    throw new Error(`${describeStep(step)}: ${JSON.stringify(answer)} after ${JSON.stringify(firstAnswer)}`);
  if (answer.status === 202) await taskSucceeds(other.api, String(answer.result.taskId));
  for (const { api } of world.servers) await isAsAfter(api, step, place);
  return struck;
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
  const [file, armedFile, struck] = ['fault.json', 'armed', 'struck'].map((name) => join(server.directory, name)) as [
    string,
    string,
    string,
  ];
  for (const old of [armedFile, struck]) rmSync(old, { force: true });
  writeFileSync(file, JSON.stringify(fault));
  server.signal('SIGUSR2');
  await eventually('the server is armed', () => existsSync(armedFile));
}

/** The step at which an armed server struck; undefined if it has not reached it. */
export function struckAt({ directory }: ClusterServer): string | undefined {
  const file = join(directory, 'struck');
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

async function taskSucceeds(api: CheckedApi, taskId: string): Promise<void> {
  let last: unknown;
  await eventually(
    'the task has succeeded',
    async () => {
      last = (await api.get(`/api/v2/tasks/${taskId}`)).result;
      return endOfTask(last as object)?.state === 'succeeded';
    },
    certainMs,
  ).catch((error) => {
    throw new Error(`${(error as Error).message}: ${JSON.stringify(last)}`);
  });
}

async function isAsAfter(api: CheckedApi, step: ClusterStep, { database, table }: StepPlace): Promise<void> {
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
}
