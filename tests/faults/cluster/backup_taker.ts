// A catalog of a cluster that is backed up again and again while rows are written to it, first to one table and then to another: a backup that has
// succeeded has every write that was acknowledged before it, no half of one, and none of the second table without that of the first; and it is restored.
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { DirectoryTarget } from '../../../src/backups/targets/directory_target.ts';
import { verifyBackups } from '../../../src/backups/verification.ts';
import type { Random } from '../../random.ts';
import { type Answer, isAcknowledged, pathOf, type Request } from '../injection/api.ts';
import { requireAcknowledged } from '../scenarios/scenario_parts.ts';
import { type CheckedApi, certainAnswer, endedState, type PatientApi } from './checked_api.ts';

interface EndOfBackup {
  readonly state: string;
}

interface TakenBackup {
  readonly taskId: string;
  /** Of each table, which were acknowledged before. */
  readonly rows: number;
}

const catalog = pathOf('catalogs', 'backed up');
const restored = pathOf('catalogs', 'restored');
const tables = ['causes', 'effects'] as const;
const rowsEach = 20;
const pauseMs = 100;

export class BackupTaker {
  readonly problems: string[] = [];
  /** That were checked. */
  backups = 0;
  readonly #random: Random;
  readonly #warehouse: string;
  readonly #directory: string;
  #taken: TakenBackup | undefined;
  #rows = 0;
  #halted = false;

  /** `directory`: to which the servers may write backups. */
  constructor(random: Random, { warehouse, directory }: { readonly warehouse: string; readonly directory: string }) {
    this.#random = random;
    this.#warehouse = warehouse;
    this.#directory = join(directory, 'taken');
  }

  async create(api: CheckedApi): Promise<void> {
    await requireAcknowledged(api.post(pathOf('catalogs'), { name: 'backed up', warehouse: this.#warehouse }));
    await requireAcknowledged(api.put(`${catalog}/databases/d`, {}));
    const columns = [{ name: 'id', type: 'BIGINT' }];
    for (const name of tables) await requireAcknowledged(api.post(`${catalog}/databases/d/tables`, { name, columns }));
  }

  /** Until it is halted; resolves when its last request has been answered for certain. */
  async run(apis: readonly CheckedApi[]): Promise<void> {
    this.#halted = false;
    while (!this.#halted) {
      await this.#insert(apis);
      if (this.#taken === undefined) await this.#backUp(apis);
      await pause(pauseMs);
    }
  }

  halt(): void {
    this.#halted = true;
  }

  /** `ends`: of all tasks. */
  async check(api: PatientApi, ends: ReadonlyMap<string, EndOfBackup>): Promise<void> {
    const taken = this.#taken;
    this.#taken = undefined;
    if (taken === undefined) return;
    const end = ends.get(taken.taskId);
    if (end === undefined) this.problems.push(`the accepted backup ${taken.taskId} is lost`);
    if (end?.state !== 'succeeded') return;
    const { backups, faults } = await verifyBackups(new DirectoryTarget(this.#directory), taken.taskId);
    const rowsOf = new Map(
      backups.flatMap(({ manifest }) =>
        manifest.databases.flatMap((database) => database.tables.map(({ name, rows }) => [name, rows] as const)),
      ),
    );
    const [causes = -1, effects = -1] = tables.map((name) => rowsOf.get(name));
    const isRight =
      faults.length === 0 &&
      effects >= taken.rows &&
      causes >= effects &&
      causes <= effects + rowsEach &&
      causes % rowsEach === 0 &&
      effects % rowsEach === 0;
    if (!isRight)
      this.problems.push(`the backup of ${JSON.stringify(taken)}: ${JSON.stringify({ causes, effects, faults })}`);
    await this.#restore(api, taken.taskId, [causes, effects]);
    this.backups++;
  }

  async #restore(api: PatientApi, backupId: string, expected: readonly number[]): Promise<void> {
    const body = { name: 'restored', warehouse: this.#warehouse, from: { path: this.#directory }, backupId };
    const request = { method: 'POST', path: pathOf('catalogs', 'restore'), body, key: randomUUID() } as const;
    const restoring = await requireAcknowledged(api.send(request));
    const path = pathOf('tasks', String(restoring.result.taskId));
    let task: Readonly<Record<string, unknown>> = {};
    while (endedState(task) === undefined) task = (await api.get(`${path}?waitSeconds=10`)).result;
    if (endedState(task) !== 'succeeded') {
      this.problems.push(`a restore has ended so: ${JSON.stringify(task)}`);
      return;
    }
    for (const [index, table] of tables.entries()) {
      const sql = `SELECT count(*), count(DISTINCT id), coalesce(max(id) + 1, 0) FROM ${table}`;
      const { result } = await api.post(`${restored}/databases/d/query`, { sql });
      const rows = expected[index] as number;
      if (JSON.stringify(result.rows) !== JSON.stringify([[rows, rows, rows]]))
        this.problems.push(`the restored table ${table}: ${JSON.stringify(result)} instead of ${rows} rows`);
    }
    await requireAcknowledged(api.delete(`${restored}?cascade=true&purge=true`));
  }

  async #insert(apis: readonly CheckedApi[]): Promise<void> {
    const rows = Array.from({ length: rowsEach }, (_, n) => ({ id: this.#rows + n }));
    for (const table of tables) {
      const path = `${catalog}/databases/d/tables/${table}/rows`;
      if (!(await this.#certain(apis, { method: 'POST', path, body: { rows }, key: randomUUID() }))) return;
    }
    this.#rows += rowsEach;
  }

  async #backUp(apis: readonly CheckedApi[]): Promise<void> {
    const body = { to: { path: this.#directory } };
    const rows = this.#rows;
    const answer = await this.#certain(apis, { method: 'POST', path: `${catalog}/backup`, body, key: randomUUID() });
    if (answer) this.#taken = { taskId: String(answer.result.taskId), rows };
  }

  async #certain(apis: readonly CheckedApi[], request: Request): Promise<Answer | undefined> {
    const answer = await certainAnswer(apis, request, this.#random);
    if (isAcknowledged(answer)) return answer;
    const what = `${request.method} ${request.path}: ${answer.status} ${answer.code} ${answer.message}`;
    this.problems.push(`the catalog that is backed up: ${what} ${JSON.stringify(answer.result)}`);
    return undefined;
  }
}
