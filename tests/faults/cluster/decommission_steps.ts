// Faults at each step of a decommission and of its cancellation, under reads and writes: the server that works on it holds at the step until something
// is killed, frozen or restarted. The decommission ends, or is cancelled, no row is lost or doubled, and the node is in service again.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineFromNow, eventually } from '../../deadline.ts';
import type { RingNode } from '../../engines/clickhouse/ring/ring.ts';
import { Random } from '../../random.ts';
import { type Answer, isAcknowledged, pathOf, type Request } from '../injection/api.ts';
import type { Fault as StepFault } from '../injection/fault_plan.ts';
import { requireAcknowledged } from '../scenarios/scenario_parts.ts';
import { type CheckedApi, certainAnswer, clearedMs, endedState } from './checked_api.ts';
import { type ClusterServer, type ClusterWorld, startCluster } from './cluster_world.ts';
import { hold } from './faults.ts';
import { nodeDifferences, occupy, replicatedTables } from './node_contents.ts';
import { ProbedTables, Prober } from './prober.ts';
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

/** Who takes part in one decommission: the server that holds at the step, the other one, the node that leaves, and one that stays. */
interface Place {
  readonly server: ClusterServer;
  readonly other: ClusterServer;
  readonly leaving: RingNode;
  readonly staying: RingNode;
  readonly nodes: readonly RingNode[];
  /** The path of the backend that leaves. */
  readonly backend: string;
}

const blows = blowsOn<Place>(
  {
    'the node': ({ leaving }) => [leaving],
    'another node': ({ staying }) => [staying],
    'all nodes': ({ nodes }) => nodes,
  },
  { hasKeeper: true },
);

const scenarios = ['decommission', 'cancellation'] as const;

export interface DecommissionStep {
  /** Its position among all steps. Together with the seed it decides all random choices at it, whatever else is tried. */
  readonly id: number;
  /** What is interrupted. */
  readonly scenario: (typeof scenarios)[number];
  readonly step: StepFault;
  readonly blow: Blow<Place>;
}

/** Of the statements to ClickHouse, those that drop something, and those that wait for a replica. */
const statements = ['DROP ', 'SYSTEM SYNC REPLICA'];
/** Some more than there are, and of the statements to the store, some for other reasons. */
const stepsMax = { store: 26, before: 10, after: 10, asked: 6 };
const steps = (['store', 'before', 'after', 'asked'] as const).flatMap((point) =>
  (point === 'asked' ? statements.map((text) => ({ callPrefixes: [text] })) : [{}]).flatMap((calls) =>
    Array.from({ length: stepsMax[point] }, (_, i): StepFault => ({ point, n: i + 1, isLasting: false, ...calls })),
  ),
);

export const allDecommissionSteps: readonly DecommissionStep[] = scenarios
  .flatMap((scenario) => steps.flatMap((step) => blows.map((blow) => ({ scenario, step, blow }))))
  .map((step, id) => ({ ...step, id }));

const kindOf = ({ scenario, step }: DecommissionStep) =>
  [scenario, step.point, ...(step.callPrefixes ?? [])].join(' ').trim();

export const describeDecommissionStep = (step: DecommissionStep): string =>
  `${step.blow.name} at ${kindOf(step)} ${step.step.n}`;

export interface DecommissionStepsOptions {
  readonly random: Random;
  readonly log?: (text: string) => void;
  /** Called for each step that was reached, when all is right again after its fault. */
  readonly struck?: () => void;
  readonly reached?: ReachedSteps;
}

/** A fault at each of these steps, in this order, without those that are known to be none. */
export async function strikeDecommissions(
  chosen: Iterable<DecommissionStep>,
  { random, log = () => {}, struck = () => {}, reached = new ReachedSteps() }: DecommissionStepsOptions,
): Promise<StepsReport> {
  const world = await startCluster({ kind: 'replicated', entry: armedServer });
  const problems: string[] = [];
  let [tried, count] = [0, 0];
  try {
    const run = new DecommissionsRun(world);
    await run.begin();
    for (const step of chosen) {
      tried++;
      const [kind, { n }] = [kindOf(step), step.step];
      if (reached.isBeyond(kind, n)) continue;
      const call = await run.strikeAt(step, random.fork(step.id)).catch((error: Error) => {
        throw new Error(`${describeDecommissionStep(step)}: ${error.message}`, { cause: error });
      });
      const isReached = typeof call === 'string';
      if (isReached) {
        count++;
        struck();
      } else reached.note(kind, call);
      log(
        `${describeDecommissionStep(step)}: ${isReached ? `${run.end} (${call})` : `not reached, there are ${call}`}`,
      );
    }
  } catch (error) {
    problems.push(String((error as Error).stack));
  } finally {
    problems.push(...world.servers.flatMap(({ api, failedStarts }) => [...api.problems, ...failedStarts]));
    await world.close();
  }
  return { tried, struck: count, problems };
}

/** For a decommission, and for a node to come back. */
const stateMs = 90_000;
const pauseMs = 100;
/** Requests during a fault are answered within this time, or sent again. */
const answerMs = 20_000;
/** Of a decommission that is to be cancelled, and of one that is to end soon. */
const drainSeconds = { cancellation: 3600, decommission: 1 };

class DecommissionsRun {
  readonly #world: ClusterWorld;
  readonly #tables: ProbedTables;
  #probers: readonly Prober[] = [];
  /** Of the step. */
  #random = new Random(0);
  /** How the last one ended. */
  end = '';

  constructor(world: ClusterWorld) {
    this.#world = world;
    this.#tables = new ProbedTables(world.warehouses[0] as string);
  }

  async begin(): Promise<void> {
    const [{ api }] = this.#world.servers as [ClusterServer];
    await this.#tables.create(api);
    // Its tables are dropped by a statement of its own.
    const other = `/api/v2/catalogs/${this.#tables.catalog}/databases/other`;
    await requireAcknowledged(api.put(other, {}));
    const columns = [{ name: 'id', type: 'BIGINT' }];
    await requireAcknowledged(api.post(`${other}/tables`, { name: 't', columns }));
    await requireAcknowledged(api.post(`${other}/tables/t/rows`, { rows: [{ id: 1 }] }));
  }

  /** @returns what the server was about to do at the step; if it was not reached, how many there were. */
  async strikeAt(step: DecommissionStep, random: Random): Promise<string | number> {
    this.#random = random;
    const place = this.#newPlace();
    const { server, other } = place;
    // Until the step is reached nothing else asks the server that holds there, so that the steps are those of the decommission.
    const [quiet, loud] = [server, other].map((each) => new Prober(each.host.name, each.api, this.#tables));
    if (quiet === undefined || loud === undefined) throw new Error('there are two servers');
    this.#probers = [quiet, loud];
    const working = [loud.run()];
    const problems: string[] = [];
    let call: string | number = 0;
    try {
      call = await this.#interrupted(step, place, () => void working.push(quiet.run()));
      await this.#cleared(`${place.backend} is in service again`, (prober, ms) => prober.hasWorkedSince(ms));
    } catch (error) {
      const { patientApi } = other;
      const { result } = await patientApi.get(place.backend);
      problems.push(`${(error as Error).message}; the backend: ${JSON.stringify(result)}`);
    }
    for (const prober of this.#probers) prober.halt();
    await Promise.all(working);
    problems.push(...(await this.#found()));
    if (problems.length > 0) throw new Error(problems.join('\n'));
    return call;
  }

  #newPlace(): Place {
    const [server, other] = this.#random.shuffled(this.#world.servers) as [ClusterServer, ClusterServer];
    const [leaving, staying] = this.#random.shuffled(this.#world.ring.nodes) as [RingNode, RingNode];
    const name = `node-${this.#world.ring.nodes.indexOf(leaving) + 1}`;
    const backend = `${pathOf('warehouses', this.#tables.catalog)}/backends/${name}`;
    return { server, other, leaving, staying, nodes: this.#world.ring.nodes, backend };
  }

  async #occupied(node: RingNode): Promise<() => Promise<void>> {
    const { api } = this.#world.servers[0] as ClusterServer;
    const object = pathOf('warehouses', this.#tables.catalog);
    const answer = await api.post('/api/v2/audit_events/search', { object, action: 'warehouses.create' });
    const [event] = (answer.result.auditEvents ?? []) as { objectId: string }[];
    assert.ok(event, `the event of the warehouse: ${answer.code} ${answer.message}`);
    return await occupy(node, event.objectId);
  }

  async #interrupted({ scenario, step, blow }: DecommissionStep, place: Place, struck: () => void) {
    const { server, other, leaving, backend } = place;
    const apis = [server.api, other.api];
    const body = { drainSeconds: drainSeconds[scenario] };
    const decommission: Request = { method: 'POST', path: `${backend}/decommission`, body, key: randomUUID() };
    const cancel: Request = { method: 'POST', path: `${backend}/cancel_decommission`, body: {}, key: randomUUID() };
    const isCancellation = scenario === 'cancellation';
    // A statement keeps the node from leaving until the decommission is cancelled.
    const release = isCancellation ? await this.#occupied(leaving) : async () => {};
    const begun = isCancellation ? await this.#acknowledged([server.api], decommission) : undefined;
    await holdAt(server, step);
    const request = isCancellation ? cancel : decommission;
    const first = server.api.send(request, answerMs);
    let answer: Answer | undefined;
    // A step that ends the answer or the task is the last one.
    const certain = first.then(async (given) => {
      answer = isAcknowledged(given) ? given : await certainAnswer(apis, request, this.#random);
      return answer;
    });
    const taskId = () => (begun ?? answer)?.result.taskId;
    const hasEnded = async () =>
      answer !== undefined &&
      (taskId() === undefined || endedState((await other.api.get(pathOf('tasks', String(taskId())))).result));
    await eventually(
      'the step is reached or the decommission ends',
      async () => server.isStopped || hasEnded(),
      stateMs,
    );
    const call = await heldAt(server, step);
    if (typeof call === 'string') await this.#struck(blow, place);
    struck();
    await this.#cleared(blow.name, (prober, ms) => prober.hasReadAndWrittenSince(ms));
    const isCancelled = this.#isDone(request, await certain) && isCancellation;
    await release();
    this.end = isCancelled ? 'cancelled' : 'succeeded';
    await this.#ends(apis, String(taskId()), this.end);
    if (!isCancelled) {
      const left = await replicatedTables(leaving);
      if (left.length > 0) throw new Error(`the decommissioned node has ${left}`);
      await this.#acknowledged(apis, { method: 'POST', path: `${backend}/enable`, body: {}, key: randomUUID() });
    }
    for (const api of apis) await this.#is(api, backend, ({ result }) => result.availability === 'available');
    return call;
  }

  async #struck(blow: Blow<Place>, place: Place): Promise<void> {
    const end = await begin(blow, place, this.#world);
    await hold(this.#random);
    await end();
  }

  /** Within the time that a 503 may last, everything works that `works` asks for. */
  async #cleared(what: string, works: (prober: Prober, sinceMs: number) => boolean): Promise<void> {
    const ended = performance.now();
    const late = () => this.#probers.filter((prober) => !works(prober, ended));
    const isOver = () => late().length === 0 || this.#probers.some(({ problems }) => problems.length > 0);
    await eventually(`everything works after ${what}`, isOver, clearedMs).catch((error: Error) => {
      throw new Error(`${error.message}: ${late().map(({ name, last }) => `${name} (${last})`)}`);
    });
    const problems = this.#probers.flatMap((prober) => prober.problems);
    if (problems.length > 0) throw new Error(problems.join('\n'));
  }

  /** A cancellation can be too late. */
  #isDone({ method, path }: Request, answer: Answer): boolean {
    const isLate = answer.code === 'TASK_NOT_CANCELLABLE' || answer.code === 'CHANGE_NOT_SUPPORTED';
    if (isAcknowledged(answer)) return true;
    if (path.endsWith('/cancel_decommission') && isLate) return false;
    throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  }

  async #acknowledged(apis: readonly CheckedApi[], request: Request): Promise<Answer> {
    const answer = await certainAnswer(apis, request, this.#random);
    if (!this.#isDone(request, answer)) throw new Error(`${request.path}: ${JSON.stringify(answer)}`);
    return answer;
  }

  async #ends(apis: readonly CheckedApi[], taskId: string, state: string): Promise<void> {
    const isEnded = ({ result }: Answer) => endedState(result) !== undefined;
    const { result } = await this.#is(this.#random.pick(apis), pathOf('tasks', taskId), isEnded);
    if (endedState(result) !== state) throw new Error(`the task should have ${state}: ${JSON.stringify(result)}`);
  }

  async #is(api: CheckedApi, path: string, isRight: (answer: Answer) => boolean): Promise<Answer> {
    const isOver = deadlineFromNow(stateMs);
    for (;;) {
      const answer = await api.send({ method: 'GET', path }, answerMs);
      if (answer.status === 200 && isRight(answer)) return answer;
      if (isOver()) throw new Error(`not in time: ${path}: ${JSON.stringify(answer)}`);
      await pause(pauseMs);
    }
  }

  /** What is wrong when nothing is written any more: each row is to be there once, on each node. */
  async #found(): Promise<string[]> {
    const problems = this.#probers.flatMap((prober) => prober.problems);
    for (const { patientApi } of this.#world.servers) problems.push(...(await this.#tables.check(patientApi)));
    problems.push(...(await nodeDifferences(this.#world)));
    return problems;
  }
}
