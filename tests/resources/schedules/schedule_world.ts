// A real server whose schedules use a clock of the test, with a table in which their runs insert rows.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import type { Settings } from '../../../src/settings/read_settings.ts';
import { deadlineMs } from '../../deadline.ts';
import { type Reply, start, type TestServer, uri } from '../../server.ts';

export const minute = 60_000;
export const hour = 60 * minute;
export const day = 24 * hour;

export const insertRun = (runName: string) => ({ sql: `INSERT INTO ran VALUES ('${runName}')`, database: 'shop' });
export const path = (name: string) => uri`/schedules/${name}`;

export class ScheduleWorld {
  /** The clock of the schedules; everything else uses that of the machine. */
  now: number;
  /** Called before each statement of the store; may throw. */
  onStoreStatement: (() => void) | undefined;
  server!: TestServer;
  services!: Services;
  dataDir = '';
  readonly #settings: Partial<Settings>;
  /** Tasks that have ended. */
  readonly #ended = new Set<string>();

  constructor(now: string, settings: Partial<Settings> = {}) {
    this.now = Date.parse(now);
    this.#settings = settings;
  }

  async open(): Promise<void> {
    this.dataDir = await mkdtemp(join(tmpdir(), 'tabularium-schedules-'));
    await this.restart();
    (await this.server.put('/api/v2/databases/shop')).is(201);
    (await this.server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE ran (who STRING)' })).is(201);
  }

  async restart(): Promise<void> {
    const settings = { dataDir: this.dataDir, logLevel: 'fatal', ...this.#settings } as const;
    this.server = await start(settings, {
      assembled: (all) => {
        this.services = all;
      },
      scheduleClock: () => this.now,
      injectStore: () => this.onStoreStatement?.(),
      taskRetryPauseMs: 10,
    });
  }

  async close(): Promise<void> {
    await this.server.close();
    await rm(this.dataDir, { recursive: true, force: true });
  }

  async create(name: string, more: object = {}): Promise<Reply> {
    const body: Record<string, unknown> = { name, query: insertRun(name), cron: '0 * * * *', ...more };
    if ('request' in more) delete body.query;
    return (await this.server.post('/api/v2/schedules', body)).is(201);
  }

  /** Sets the clock; submits the tasks that are due, and waits until they have ended. */
  async setTime(time: number | string): Promise<void> {
    this.now = typeof time === 'string' ? Date.parse(time) : time;
    const { schedules, tasks } = this.services;
    await schedules.dispatch();
    for (let unfinished = await this.#unfinished(); unfinished.length > 0; unfinished = await this.#unfinished()) {
      for (const { taskId, endedAt } of unfinished) {
        const ended = endedAt === null ? await tasks.wait(taskId, deadlineMs(10_000)) : { endedAt };
        assert(ended?.endedAt, `a task does not end: ${JSON.stringify(ended)}`);
        this.#ended.add(taskId);
      }
    }
  }

  /** Hour by hour, with one statement of the store failing at each: the schedule of `runName` has run once an hour. */
  async requireOneRunEach(runName: string): Promise<void> {
    for (let n = 1; n <= 30; n++) {
      let count = 0;
      this.onStoreStatement = () => {
        if (++count === n) throw new Error('the disk is gone');
      };
      this.now += hour;
      await this.services.schedules.dispatch();
      this.onStoreStatement = undefined;
      await this.setTime(this.now);
      assert.equal(await this.countRuns(runName), n, `statement ${n} failed`);
    }
  }

  async #unfinished() {
    return (await this.services.tasks.list({ limit: 1000 })).items.filter(({ taskId }) => !this.#ended.has(taskId));
  }

  async countRuns(runName: string): Promise<number> {
    const rows = await this.server.rows('shop', 'SELECT count(*) FROM ran WHERE who = $1', [runName]);
    return Number(rows[0]?.[0]);
  }

  get = async (name: string) => (await this.server.get(path(name))).is(200);

  /** The record of the last run's task. */
  async lastTask(name: string): Promise<Reply> {
    return (await this.server.get((await this.get(name)).at('lastTask'))).is(200);
  }
}
