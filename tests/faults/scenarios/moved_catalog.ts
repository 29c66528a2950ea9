// A catalog that is moved between two warehouses of a server while something goes wrong: afterwards it is wholly in one of them, with all of its
// rows, and can be used, changed and moved again.
import assert from 'node:assert/strict';
import { deadlineMs, eventually } from '../../deadline.ts';
import { type Answer, type Api, pathOf } from '../injection/api.ts';
import { requireAcknowledged } from './scenario_parts.ts';

const name = 'lake';
const other = 'second';
const catalog = pathOf('catalogs', name);
export const movedPath = catalog;
const table = `${catalog}/databases/d/tables/t`;
const firstRows = 3_000;
const taskQuietMs = 60_000;
const taskMsMax = deadlineMs(taskQuietMs);

export class MovedCatalog {
  /** Where it is. */
  #warehouse = 'default';
  #rows = firstRows;
  #keyed = 0;
  readonly #tasks = new Set<string>();

  /** Creates it. */
  async create(api: Api): Promise<void> {
    await requireAcknowledged(api.post(pathOf('warehouses'), { name: other }));
    await requireAcknowledged(api.put(catalog));
    await requireAcknowledged(api.put(`${catalog}/databases/d`));
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'text', type: 'STRING' },
    ];
    for (const made of ['t', 'empty'])
      await requireAcknowledged(api.post(`${catalog}/databases/d/tables`, { name: made, columns, primaryKey: ['id'] }));
    await requireAcknowledged(
      api.post(`${catalog}/databases/d/views`, { name: 'v', sql: `SELECT id FROM ${name}.d.t` }),
    );
    await requireAcknowledged(this.#query(api, `INSERT INTO d.t SELECT range, 'n' || range FROM range(${firstRows})`));
  }

  /** Adds a row with a key, as before each move. */
  async prepare(api: Api): Promise<void> {
    this.#keyed++;
    await requireAcknowledged(this.#insertKeyed(api));
    this.#rows++;
  }

  move(api: Api): Promise<Answer> {
    const warehouse = this.#warehouse === 'default' ? other : 'default';
    return api.post(`${catalog}/move`, { warehouse, retainSeconds: 0 });
  }

  #insertKeyed(api: Api): Promise<Answer> {
    const rows = [[1_000_000 + this.#keyed, 'keyed']];
    return api.send({ method: 'POST', path: `${table}/rows`, body: { rows }, key: `key-${this.#keyed}` });
  }

  #query = (api: Api, sql: string): Promise<Answer> => api.post(`${catalog}/query`, { sql, waitSeconds: 60 });

  /** How the task ended; undefined if the request was refused, or did not arrive. */
  async end(api: Api, { status, code, result }: Answer): Promise<string | undefined> {
    const tasks = (await api.endOfTasks(taskMsMax)).filter(({ type }) => type === 'move_catalog');
    const submitted = tasks.filter(({ taskId }) => !this.#tasks.has(taskId));
    for (const { taskId } of submitted) this.#tasks.add(taskId);
    assert.ok(submitted.length <= 1, 'a request submits one task');
    if (status === 202) assert.equal(submitted[0]?.taskId, result.taskId, 'the task is lost');
    else assert.ok(status === 0 || status >= 500, `${status} ${code}`);
    return submitted[0]?.state;
  }

  /** Waits until the task has ended, or the server is dead. */
  async endOrDeath(server: { readonly runs: boolean; readonly api: Api }): Promise<void> {
    await eventually(
      'the move ends, or the server',
      async () => {
        if (!server.runs) return true;
        const { status, result } = await server.api.get('/api/v2/tasks?pageSize=1000');
        const tasks = status === 200 ? (result.tasks as { readonly state: string }[]) : [{ state: 'unknown' }];
        return tasks.every(({ state }) => ['succeeded', 'failed', 'cancelled'].includes(state));
      },
      taskQuietMs,
    );
  }

  /** Throws unless everything is as the end of the task says. */
  async verify(api: Api, hasMoved: boolean, what: string): Promise<void> {
    if (hasMoved) this.#warehouse = this.#warehouse === 'default' ? other : 'default';
    await eventually(`the catalog is ready: ${what}`, async () => {
      const { result } = await api.get(catalog);
      return result.state === 'ready' && result.warehouse === this.#warehouse;
    });
    await this.#requireRows(api, what);
    await eventually(`the keyed insert is known: ${what}`, async () => (await this.#insertKeyed(api)).status === 201);
    await this.#requireRows(api, `after a repeated request: ${what}`);
    await requireAcknowledged(api.patch(catalog, { comment: what.slice(0, 100) }));
  }

  async #requireRows(api: Api, what: string): Promise<void> {
    for (const from of ['d.t', 'd.v']) {
      const sql = `SELECT count(*), count(DISTINCT id) FROM ${from}`;
      const { result } = await requireAcknowledged(
        eventually(`${from} is read: ${what}`, async () => {
          const answer = await this.#query(api, sql);
          return answer.status === 200 && answer;
        }),
      );
      assert.deepEqual(result.rows, [[this.#rows, this.#rows]], what);
    }
    assert.deepEqual((await this.#query(api, 'SELECT count(*) FROM d.empty')).result.rows, [[0]], what);
  }
}
