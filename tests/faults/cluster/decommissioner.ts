// An operator who takes nodes of a warehouse that replicates out of service and back, one after the other, while faults happen: a decommission ends
// or is cancelled, the node has none of the tables afterwards, and is enabled or registered again.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineFromNow } from '../../deadline.ts';
import type { RingNode } from '../../engines/clickhouse/ring/ring.ts';
import type { Random } from '../../random.ts';
import { type Answer, isAcknowledged, pathOf, type Request } from '../injection/api.ts';
import { type CheckedApi, certainAnswer, endedState } from './checked_api.ts';
import { replicatedTables } from './node_contents.ts';

export const noDecommissions = () => ({ completed: 0, cancelled: 0, enabled: 0, registered: 0 });

/** A fault lasts up to 9 s, and a node that returns needs its time. */
const stateMs = 90_000;
const pauseMs = 100;
const betweenMs = 1500;
/** Longer than statements of the other clients run: none is cancelled. */
const drainSeconds = 60;
/** No deadline of the product ends a decommission here. */
const timeoutSeconds = 86_400;

export class Decommissioner {
  readonly problems: string[] = [];
  readonly counts = noDecommissions();
  readonly #random: Random;
  readonly #warehouse: string;
  readonly #nodes: readonly RingNode[];
  #halted = false;
  #waitsFor = '';

  /** `nodes`: registered as `node-1` and so on. */
  constructor(random: Random, warehouse: string, nodes: readonly RingNode[]) {
    this.#random = random;
    this.#warehouse = warehouse;
    this.#nodes = nodes;
  }

  get waitsFor(): string {
    return this.#waitsFor;
  }

  /** Until it is halted; resolves when all nodes are in service. */
  async run(apis: readonly CheckedApi[]): Promise<void> {
    this.#halted = false;
    while (!this.#halted && this.problems.length === 0) {
      await pause(this.#random.below(betweenMs));
      if (!this.#halted) await this.#takeOutAndBack(apis, this.#random.below(this.#nodes.length));
    }
    this.#waitsFor = '';
  }

  halt(): void {
    this.#halted = true;
  }

  async #takeOutAndBack(apis: readonly CheckedApi[], index: number): Promise<void> {
    const backend = this.#backendPath(index);
    const body = { drainSeconds, timeoutSeconds };
    const begun = await this.#send(apis, { method: 'POST', path: `${backend}/decommission`, body });
    if (begun === undefined) return;
    const taskId = String(begun.result.taskId);
    if (this.#random.chance(0.4) && (await this.#isCancelled(apis, backend))) {
      await this.#ends(apis, taskId, 'cancelled');
      this.counts.cancelled++;
    } else {
      if (!(await this.#ends(apis, taskId, 'succeeded'))) return;
      this.counts.completed++;
      await this.#requireNoTables(index);
      await this.#bringBack(apis, index);
    }
    await this.#is(apis, `${backend} in service`, backend, ({ result }) => result.availability === 'available');
  }

  /** False if it is too late for that. */
  async #isCancelled(apis: readonly CheckedApi[], backend: string): Promise<boolean> {
    await pause(this.#random.below(betweenMs));
    const request: Request = { method: 'POST', path: `${backend}/cancel_decommission`, body: {}, key: randomUUID() };
    const answer = await certainAnswer(apis, request, this.#random);
    const isLate = answer.code === 'TASK_NOT_CANCELLABLE' || answer.code === 'CHANGE_NOT_SUPPORTED';
    if (!isAcknowledged(answer) && !isLate) this.#note(request, answer);
    return isAcknowledged(answer);
  }

  async #bringBack(apis: readonly CheckedApi[], index: number): Promise<void> {
    const backend = this.#backendPath(index);
    if (this.#random.chance(0.5)) {
      if (await this.#send(apis, { method: 'POST', path: `${backend}/enable`, body: {} })) this.counts.enabled++;
      return;
    }
    await this.#send(apis, { method: 'DELETE', path: backend });
    const body = { name: nameOf(index), location: this.#nodes[index]?.url };
    const path = `${pathOf('warehouses', this.#warehouse)}/backends`;
    if (await this.#send(apis, { method: 'POST', path, body })) this.counts.registered++;
  }

  #ends(apis: readonly CheckedApi[], taskId: string, state: string): Promise<boolean> {
    return this.#is(apis, `the decommission ${taskId} ${state}`, pathOf('tasks', taskId), ({ result }) => {
      const ended = endedState(result);
      if (ended !== undefined && ended !== state)
        throw new Error(`${taskId} should have ${state}: ${JSON.stringify(result)}`);
      return ended !== undefined;
    });
  }

  /** Waits for an answer of 200 that is as expected. @returns false, with a problem, if it does not come. */
  async #is(
    apis: readonly CheckedApi[],
    what: string,
    path: string,
    isRight: (answer: Answer) => boolean,
  ): Promise<boolean> {
    const isOver = deadlineFromNow(stateMs);
    for (;;) {
      const answer = await this.#random.pick(apis).send({ method: 'GET', path });
      if (answer.status === 200 && isRight(answer)) return true;
      this.#waitsFor = `${what}: ${answer.status} ${JSON.stringify(answer.result)}`;
      if (isOver()) this.problems.push(`not in time: ${this.#waitsFor}`);
      if (isOver()) return false;
      await pause(pauseMs);
    }
  }

  /** It has no replica of a table that others have. While a node is down nobody can ask it. */
  async #requireNoTables(index: number): Promise<void> {
    const paths = await Promise.all(this.#nodes.map(replicatedTables));
    const others = new Set(paths.filter((_, position) => position !== index).flat());
    const left = paths[index]?.filter((path) => others.has(path)) ?? [];
    if (left.length > 0) this.problems.push(`${nameOf(index)} is decommissioned and has ${left}`);
  }

  /** The same request with the same key until it is acknowledged. */
  async #send(apis: readonly CheckedApi[], request: Request): Promise<Answer | undefined> {
    const answer = await certainAnswer(apis, { ...request, key: randomUUID() }, this.#random);
    if (isAcknowledged(answer)) return answer;
    this.#note(request, answer);
    return undefined;
  }

  #note({ method, path }: Request, { status, code, message, result }: Answer): void {
    this.problems.push(`decommission: ${method} ${path}: ${status} ${code} ${message} ${JSON.stringify(result)}`);
  }

  #backendPath(index: number): string {
    return `${pathOf('warehouses', this.#warehouse)}/backends/${nameOf(index)}`;
  }
}

const nameOf = (index: number): string => `node-${index + 1}`;
