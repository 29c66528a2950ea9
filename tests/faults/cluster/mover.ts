// A catalog that is moved to and fro between the warehouse of a server and those of the cluster, while rows are inserted into it: it is wholly in
// one of them, which the end of the task tells, with each row that was acknowledged once.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { eventually } from '../../deadline.ts';
import type { Random } from '../../random.ts';
import { type Answer, isAcknowledged, pathOf, type Request } from '../injection/api.ts';
import { requireAcknowledged } from '../scenarios/scenario_parts.ts';
import { type CheckedApi, certainAnswer, clearedMs, type PatientApi } from './checked_api.ts';

export interface EndOfMove {
  readonly state: string;
}

/** Of a server: the data are in its own process and on its disk. */
const home = 'default';
const catalog = pathOf('catalogs', 'moving');
const rowsEach = 20;
const pauseMs = 100;

export class Mover {
  readonly problems: string[] = [];
  /** That have succeeded. */
  moves = 0;
  readonly #random: Random;
  readonly #warehouses: readonly string[];
  #warehouse = home;
  #target = home;
  #taskId: string | undefined;
  #rows = 0;
  #halted = false;

  /** `warehouses`: to which it moves, and back. */
  constructor(random: Random, warehouses: readonly string[]) {
    this.#random = random;
    this.#warehouses = warehouses;
  }

  async create(api: CheckedApi): Promise<void> {
    await requireAcknowledged(api.post(pathOf('catalogs'), { name: 'moving', warehouse: home }));
    await requireAcknowledged(api.put(`${catalog}/databases/kept`, {}));
    const columns = [{ name: 'id', type: 'BIGINT' }];
    await requireAcknowledged(api.post(`${catalog}/databases/kept/tables`, { name: 't', columns }));
  }

  /** Until it is halted; resolves when its last request has been answered for certain. */
  async run(apis: readonly CheckedApi[]): Promise<void> {
    this.#halted = false;
    while (!this.#halted) {
      await this.#insert(apis);
      if (this.#taskId === undefined) await this.#move(apis);
      await pause(pauseMs);
    }
  }

  halt(): void {
    this.#halted = true;
  }

  /** `ends`: of all tasks. */
  async check(api: PatientApi, ends: ReadonlyMap<string, EndOfMove>): Promise<void> {
    if (this.#taskId !== undefined) {
      const end = ends.get(this.#taskId);
      if (end === undefined) this.problems.push(`the accepted move ${this.#taskId} is lost`);
      if (end?.state === 'succeeded') {
        this.#warehouse = this.#target;
        this.moves++;
      }
      this.#taskId = undefined;
    }
    let last: unknown;
    await eventually(
      `the catalog is in ${this.#warehouse}`,
      async () => {
        last = (await api.get(catalog)).result;
        const { state, warehouse } = last as { readonly state?: string; readonly warehouse?: string };
        return state === 'ready' && warehouse === this.#warehouse;
      },
      clearedMs,
    ).catch((error) => {
      throw new Error(`${(error as Error).message}: ${JSON.stringify(last)}`);
    });
    const sql = 'SELECT count(*), count(DISTINCT id) FROM t';
    const { status, code, result } = await api.post(`${catalog}/databases/kept/query`, { sql });
    if (status !== 200 || JSON.stringify(result.rows) !== JSON.stringify([[this.#rows, this.#rows]]))
      this.problems.push(
        `the moved catalog in ${this.#warehouse}: ${status} ${code} ${JSON.stringify(result.rows)} instead of ${this.#rows} rows`,
      );
  }

  async #insert(apis: readonly CheckedApi[]): Promise<void> {
    const rows = Array.from({ length: rowsEach }, (_, n) => ({ id: this.#rows + n }));
    const path = `${catalog}/databases/kept/tables/t/rows`;
    const answer = await this.#certain(apis, { method: 'POST', path, body: { rows }, key: randomUUID() });
    if (answer) this.#rows += rowsEach;
  }

  async #move(apis: readonly CheckedApi[]): Promise<void> {
    this.#target = this.#warehouse === home ? this.#random.pick(this.#warehouses) : home;
    const body = { warehouse: this.#target, retainSeconds: 0 };
    const answer = await this.#certain(apis, { method: 'POST', path: `${catalog}/move`, body, key: randomUUID() });
    if (answer) this.#taskId = String(answer.result.taskId);
  }

  async #certain(apis: readonly CheckedApi[], request: Request): Promise<Answer | undefined> {
    const answer = await certainAnswer(apis, request, this.#random);
    if (isAcknowledged(answer)) return answer;
    const what = `${request.method} ${request.path}: ${answer.status} ${answer.code} ${answer.message}`;
    this.problems.push(`the moved catalog: ${what} ${JSON.stringify(answer.result)}`);
    return undefined;
  }
}
