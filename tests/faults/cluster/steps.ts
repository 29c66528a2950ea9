// The server that makes a change holds at one of its steps until something is killed, frozen or restarted: the change is repeated with its key through
// either server until one answers for certain, and is then there once, also after a frozen server has continued.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { TaskError } from '../../../src/tasks/task.ts';
import { deadlineFromNow, deadlineMs, eventually } from '../../deadline.ts';
import type { RingNode } from '../../engines/clickhouse/ring/ring.ts';
import type { Random } from '../../random.ts';
import { type Answer, isAcknowledged, pathOf, type Request } from '../injection/api.ts';
import type { Fault } from '../injection/fault_plan.ts';
import { type CheckedApi, clearedMs, endedState } from './checked_api.ts';
import {
  type ClusterKind,
  type ClusterServer,
  type ClusterWorld,
  startCluster,
  warehousesOf,
} from './cluster_world.ts';
import { hold } from './faults.ts';
import { leftCopies, nodeDifferences } from './node_contents.ts';
import {
  armedServer,
  type Blow,
  begin,
  blowsOn,
  heldAt,
  holdAt,
  ReachedSteps,
  type StepsReport,
} from './step_faults.ts';
import {
  catalogOf,
  columns,
  renamedTo,
  restoredFrom,
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
  readonly blow: Blow<Struck>;
}

/** Who takes part in a change. */
interface Struck {
  readonly server: ClusterServer;
  readonly node: RingNode;
  readonly nodes: readonly RingNode[];
}

const kindOf = (step: ClusterStep) => `${describePlace(step)} ${step.fault.point}`;
/** Between two of these steps a change changes nothing, in the store or on a node. */
const changing: Readonly<Record<'store' | 'asked', readonly string[]>> = {
  store: ['begin', 'commit', 'update "intents"', 'update "tasks"'],
  asked: ['ALTER', 'CREATE', 'DELETE', 'DROP', 'EXCHANGE', 'INSERT', 'KILL', 'RENAME', 'SYSTEM', 'TRUNCATE', 'UPDATE'],
};
/** Some more than a change has. */
const stepsMax = { store: 30, before: 5, after: 5, asked: 36 };
const stepsOfBackupMax: typeof stepsMax = { store: 40, before: 5, after: 5, asked: 60 };
const stepsOfMoveMax: typeof stepsMax = { store: 66, before: 18, after: 16, asked: 60 };
/** The warehouse of a server, from which catalogs move to the cluster, and to which they move back. */
const home = 'default';
const answerMs = 10_000;
const certainMs = 120_000;
/** How long the other server tries to take over a change before the fault ends: longer than a lease on work lasts. */
const takenOverMs = 12_000;
/** With which a task may end that a fault interrupts. The servers pause briefly between its attempts, and a node can be away for longer. */
const codesOfFaults: readonly string[] = ['TASK_ATTEMPTS_EXHAUSTED', 'TASK_INTERRUPTED', 'WAREHOUSE_FAILED'];
const repeatPauseMs = 50;
const faultsAt = (point: keyof typeof stepsMax, count: number): readonly Fault[] => {
  const calls = point === 'store' || point === 'asked' ? { callPrefixes: changing[point] } : {};
  return Array.from({ length: count }, (_, i) => ({ point, n: i + 1, isLasting: false, ...calls }));
};

function faultsOf({ isMove, hasOwnDatabase }: StepScenario): readonly Fault[] {
  const ofOthers = hasOwnDatabase ? stepsOfBackupMax : stepsMax;
  const max = isMove ? stepsOfMoveMax : ofOthers;
  return (['store', 'before', 'after', 'asked'] as const).flatMap((point) => faultsAt(point, max[point]));
}

const blowsOf = (kind: ClusterKind) =>
  blowsOn<Struck>(
    { 'a node': ({ node }) => [node], 'all nodes': ({ nodes }) => nodes },
    { hasKeeper: kind === 'replicated' },
  );

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
      placesOf(kind, scenario).flatMap((place) =>
        faultsOf(scenario).flatMap((fault) => blowsOf(kind).map((blow) => ({ scenario, ...place, fault, blow }))),
      ),
    )
    .map((step, id) => ({ ...step, id }));

const describePlace = ({ scenario, warehouse, target }: ClusterStep) =>
  `${scenario.name} ${target === undefined ? `in ${warehouse}` : `from ${warehouse} to ${target}`}`;

export const describeStep = (step: ClusterStep) =>
  `${describePlace(step)}: ${step.blow.name} at ${step.fault.point} ${step.fault.n}`;

export interface StepsOptions {
  readonly kind: ClusterKind;
  readonly random: Random;
  readonly log?: (text: string) => void;
  readonly reached?: ReachedSteps;
}

/** A fault at each of these steps, in this order, without those that are known to be none. */
export async function strikeAtSteps(
  steps: Iterable<ClusterStep>,
  { kind, random, log = () => {}, reached = new ReachedSteps() }: StepsOptions,
): Promise<StepsReport> {
  const world = await startCluster({ kind, entry: armedServer });
  const [{ api }] = world.servers as [ClusterServer];
  const problems: string[] = [];
  const made: { readonly step: ClusterStep; readonly place: StepPlace }[] = [];
  let [tried, struck] = [0, 0];
  try {
    // On a loaded machine a node may have been given up again since it was available.
    for (const warehouse of world.warehouses)
      await certainly(api, { method: 'PUT', path: databaseIn(warehouse), body: {} });
    for (const step of steps) {
      tried++;
      const kind = kindOf(step);
      if (reached.isBeyond(kind, step.fault.n)) continue;
      const { call, place } = await strikeAt(world, step, random.fork(step.id));
      made.push({ step, place });
      const isReached = typeof call === 'string';
      log(
        `${describeStep(step)}: ${isReached ? call.replaceAll(/\s+/g, ' ') : `not reached, there are ${call ?? 'more'}`}`,
      );
      if (isReached) struck++;
      else if (call !== undefined) reached.note(kind, call);
    }
    // What a server that was frozen has sent late would show by now.
    for (const { step, place } of made) await isAsAfter(api, step, place);
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

const databaseIn = (catalog: string, name = 'steps') => `${pathOf('catalogs', catalog)}/databases/${name}`;

interface Strike {
  /** What the server was about to do at that step; if the change does not have it, how many it has, and undefined if it was refused. */
  readonly call: string | number | undefined;
  readonly place: StepPlace;
}

async function strikeAt(world: ClusterWorld, step: ClusterStep, random: Random): Promise<Strike> {
  const { id, scenario, warehouse, target, fault, blow } = step;
  // A move runs in the server that has the other warehouse, which is the first one.
  const servers = scenario.isMove ? world.servers : random.shuffled(world.servers);
  const [server, other] = servers as [ClusterServer, ClusterServer];
  const catalog = target === undefined ? warehouse : `to ${target} ${id}`;
  const { loadDirectory, backupDirectory } = world;
  const database = databaseIn(catalog, scenario.hasOwnDatabase ? `d${id}` : undefined);
  const place: StepPlace = { database, table: `t${id}`, loadDirectory, backupDirectory, target };
  if (scenario.isMove) await prepareCatalog(server.api, { name: catalog, warehouse });
  if (scenario.hasOwnDatabase) await certainly(server.api, { method: 'PUT', path: database, body: {} });
  if (scenario.needsTable) await prepare(server.api, place);
  if (scenario.prepares) await certainlyDone(server.api, scenario.prepares(place));
  const request = { ...scenario.request(place), key: randomUUID() };
  await holdAt(server, fault);
  let firstAnswer: Answer | undefined;
  const first = server.api.send(request, answerMs).then((answer) => {
    firstAnswer = answer;
    return answer;
  });
  const hasEnded = async () => {
    if (firstAnswer?.status !== 202) return firstAnswer !== undefined;
    return endedState((await other.api.get(pathOf('tasks', String(firstAnswer.result.taskId)))).result) !== undefined;
  };
  // What a task does has steps, too.
  await eventually('the step is reached or the change ends', async () => server.isStopped || hasEnded(), certainMs);
  const call = await heldAt(server, fault);
  const isStruck = typeof call === 'string';
  if (isStruck) {
    const { nodes } = world.ring;
    const end = await begin(blow, { server, node: random.pick(nodes), nodes }, world);
    // Either the same server continues, or the other one takes over meanwhile.
    const isTakenOver = blow.isOfServer && random.chance(0.5) && scenario.isMove !== true;
    await Promise.all([hold(random), isTakenOver ? takenOver(other.api, request) : undefined]);
    await end();
  }
  const given = await first;
  const answer = isAcknowledged(given) ? given : await certain([other.api, server.api], request, clearedMs);
  if (!isAcknowledged(answer))
    throw new Error(`${describeStep(step)}: ${JSON.stringify(answer)} after ${JSON.stringify(given)}`);
  if (answer.status === 202) await taskSucceeds(world, { step, place, request, taskId: String(answer.result.taskId) });
  for (const { api } of world.servers) await isAsAfter(api, step, place);
  await scenario.check?.(place);
  return { call: isStruck || isAcknowledged(given) ? call : undefined, place };
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

async function certainly(api: CheckedApi, request: Request): Promise<Answer> {
  const answer = await certain([api], { ...request, key: randomUUID() });
  if (!isAcknowledged(answer)) throw new Error(`${request.path}: ${JSON.stringify(answer)}`);
  return answer;
}

async function certainlyDone(api: CheckedApi, request: Request): Promise<void> {
  const end = await taskEnds(api, String((await certainly(api, request)).result.taskId));
  if (end.state !== 'succeeded') throw new Error(`${request.path}: ${JSON.stringify(end)}`);
}

/** The first answer that is none of a fault. */
function certain(apis: readonly CheckedApi[], request: Request, withinMs = certainMs): Promise<Answer> {
  return certainUntil(deadlineFromNow(withinMs), apis, request);
}

/** Ends also without an answer: what the server holds can keep the other one from the change. */
async function takenOver(api: CheckedApi, request: Request): Promise<void> {
  const began = performance.now();
  await certainUntil(() => performance.now() - began > takenOverMs, [api], request);
}

async function certainUntil(isOver: () => boolean, apis: readonly CheckedApi[], request: Request): Promise<Answer> {
  for (let attempt = 0; ; attempt++) {
    const answer = await (apis[attempt % apis.length] as CheckedApi).send(request, answerMs);
    if ((answer.status !== 0 && answer.status < 500) || isOver()) return answer;
    await pause(repeatPauseMs);
  }
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

interface TaskOfChange {
  readonly step: ClusterStep;
  readonly place: StepPlace;
  readonly request: Request;
  readonly taskId: string;
}

/** A task that says that it has failed by the fault has changed nothing, and succeeds when it is repeated. */
async function taskSucceeds(world: ClusterWorld, { step, place, request, taskId }: TaskOfChange): Promise<void> {
  const [{ api }, other] = world.servers as [ClusterServer, ClusterServer];
  const end = await taskEnds(other.api, taskId);
  if (end.state === 'succeeded') return;
  const what = `${describeStep(step)}: the task ${taskId} has ended so: ${JSON.stringify(end)}`;
  if (end.state !== 'failed' || !codesOfFaults.includes(end.error?.code ?? '')) throw new Error(what);
  await isUnchanged(api, place, what);
  const again = await certain([other.api, api], { ...request, key: randomUUID() }, clearedMs);
  if (!isAcknowledged(again)) throw new Error(`${what}; then: ${JSON.stringify(again)}`);
  const repeated = await taskEnds(other.api, String(again.result.taskId));
  if (repeated.state !== 'succeeded') throw new Error(`${what}; then: ${JSON.stringify(repeated)}`);
}

async function isUnchanged(api: CheckedApi, { database, table }: StepPlace, what: string): Promise<void> {
  const query = {
    method: 'POST',
    path: `${database}/query`,
    body: { sql: `SELECT count(*) FROM "${table}"` },
  } as const;
  const answer = await certain([api], query, clearedMs);
  if (answer.status !== 200 || JSON.stringify(answer.result.rows) !== JSON.stringify([[rowsBefore]]))
    throw new Error(`${what}, but the table has: ${JSON.stringify(answer)}`);
}

async function isAsAfter(api: CheckedApi, step: ClusterStep, place: StepPlace): Promise<void> {
  const { table, target } = place;
  const { after } = step.scenario;
  const database = after?.restored ? restoredFrom(place) : place.database;
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
