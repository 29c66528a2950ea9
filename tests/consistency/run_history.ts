// Concurrent clients on lists, registers and rows of one table each, while engine and server are killed; every write has an
// idempotency key and is repeated until its outcome is definite. Then the history of all responses is checked.
import { setTimeout as pause } from 'node:timers/promises';
import { type Answer, isAcknowledged, noAnswer, pathOf, type Request } from '../faults/injection/api.ts';
import type { ServerProcess } from '../faults/injection/server_process.ts';
import { type Operation as Linear, linearize } from '../fuzz/concurrency/linear.ts';
import type { Random } from '../random.ts';
import { findAnomalies, type Operation } from './history.ts';

export interface HistoryOptions {
  readonly random: Random;
  readonly clients: number;
  /** Whether the run continues; called before each operation and each kill. */
  readonly hasTime: () => boolean;
  /** The average time between two kills, in milliseconds; undefined: no kills. */
  readonly killEveryMs: number | undefined;
}

export interface HistoryReport {
  readonly operations: number;
  /** Sent more than once before the outcome was definite. */
  readonly resent: number;
  readonly kills: { readonly engine: number; readonly server: number };
  readonly problems: readonly string[];
}

const keys = ['x', 'y', 'z'] as const;
const table = (name: string, ...more: readonly string[]) => pathOf('databases', 'history', 'tables', name, ...more);
const query = pathOf('databases', 'history', 'query');
const sql = (text: string, parameters: readonly unknown[] = []): Request => ({
  method: 'POST',
  path: query,
  body: { sql: text, parameters },
});

export async function runHistory(server: ServerProcess, options: HistoryOptions): Promise<HistoryReport> {
  const run = new HistoryRun(server, options);
  await run.prepare();
  await run.all();
  return run.report();
}

class HistoryRun {
  readonly #server: ServerProcess;
  readonly #options: HistoryOptions;
  readonly #lists: Operation[] = [];
  readonly #registers: (Linear<number> & { readonly key: string })[] = [];
  readonly #rows = new Map<number, boolean>();
  readonly #kills = { engine: 0, server: 0 };
  readonly #problems: string[] = [];
  #values = 0;
  #resent = 0;

  constructor(server: ServerProcess, options: HistoryOptions) {
    this.#server = server;
    this.#options = options;
  }

  async prepare(): Promise<void> {
    const retryUntilDefinite = async (request: Request) => {
      const answer = await this.#definite(request);
      if (!isAcknowledged(answer)) throw new Error(`${request.path}: ${JSON.stringify(answer)}`);
    };
    await retryUntilDefinite({ method: 'PUT', path: pathOf('databases', 'history'), body: {} });
    const tables = {
      lists: 'key VARCHAR(10) PRIMARY KEY, items BIGINT[]',
      registers: 'key VARCHAR(10) PRIMARY KEY, value BIGINT',
      entries: 'value BIGINT',
    };
    for (const [name, columns] of Object.entries(tables)) {
      await retryUntilDefinite({ method: 'DELETE', path: table(name) });
      await retryUntilDefinite({
        method: 'POST',
        path: table('create'),
        body: { sql: `CREATE TABLE ${name} (${columns})` },
      });
    }
    for (const key of keys) {
      await retryUntilDefinite(sql('INSERT INTO lists VALUES ($1, [])', [key]));
      await retryUntilDefinite(sql('INSERT INTO registers VALUES ($1, 0)', [key]));
    }
  }

  async all(): Promise<void> {
    const { random, clients } = this.#options;
    const killing = this.#kill(random.fork(0));
    await Promise.all(Array.from({ length: clients }, (_, n) => this.#client(n, random.fork(n + 1))));
    await killing;
    await this.#readLists('at the end', keys);
    for (const key of keys) await this.#readRegister('at the end', key);
  }

  async report(): Promise<HistoryReport> {
    const problems = [...this.#problems, ...findAnomalies(this.#lists), ...(await this.#wrongRows())];
    for (const key of keys) {
      const registersOfKey = this.#registers.filter((candidate) => candidate.key === key);
      const { explained, stuck } = linearize<number>(registersOfKey, 0, String);
      if (!explained) problems.push(`no order explains the register ${key}: ${stuck.join('; ')}`);
    }
    const operations = this.#lists.length + this.#registers.length + this.#rows.size;
    return { operations, resent: this.#resent, kills: this.#kills, problems };
  }

  /** At least one kill happens on any machine. */
  #continues(): boolean {
    const { hasTime, killEveryMs } = this.#options;
    return hasTime() || (killEveryMs !== undefined && this.#kills.engine + this.#kills.server === 0);
  }

  async #client(n: number, random: Random): Promise<void> {
    for (let i = 0; this.#continues(); i++) {
      const name = `client ${n}, operation ${i}`;
      const chosen = keys.filter(() => random.chance(0.6));
      const key = random.pick(keys);
      const draw = random.next();
      if (draw < 0.3 && chosen.length > 0) await this.#append(name, chosen, random);
      else if (draw < 0.5) await this.#readLists(name, chosen.length > 0 ? chosen : keys);
      else if (draw < 0.65) await this.#writeRegister(name, key, random);
      else if (draw < 0.8) await this.#readRegister(name, key);
      else await this.#insertRow(name);
    }
  }

  async #kill(random: Random): Promise<void> {
    const { killEveryMs } = this.#options;
    if (killEveryMs === undefined) return;
    while (this.#continues()) {
      await pause(killEveryMs * (0.5 + random.next()));
      if (random.chance(0.6)) {
        if (this.#server.killEngine()) this.#kills.engine++;
        continue;
      }
      this.#kills.server++;
      await this.#server.kill();
      await this.#server.start();
    }
  }

  async #append(name: string, chosen: readonly string[], random: Random): Promise<void> {
    const appends = new Map(chosen.map((key) => [key, ++this.#values] as const));
    const cases = [...appends].map(([key, value]) => `WHEN '${key}' THEN ${value}`).join(' ');
    const value = `list_append(items, CASE key ${cases} END)`;
    const condition = `key IN (${chosen.map((key) => `'${key}'`).join(', ')})`;
    const request: Request = random.chance(0.5)
      ? sql(`UPDATE lists SET items = ${value} WHERE ${condition}`)
      : { method: 'POST', path: table('lists', 'update'), body: { set: { items: value }, where: condition } };
    const start = performance.now();
    const answer = await this.#definite({ ...request, key: crypto.randomUUID() });
    const description = `${name} (append ${JSON.stringify([...appends])} → ${answer.code})`;
    const outcome = isAcknowledged(answer) ? 'ok' : 'failed';
    this.#lists.push({ name: description, start, end: performance.now(), outcome, appends, reads: new Map() });
    if (outcome === 'failed') this.#problems.push(`${description}: ${JSON.stringify(answer)}`);
  }

  async #readLists(name: string, chosen: readonly string[]): Promise<void> {
    const start = performance.now();
    const list = chosen.map((key) => `'${key}'`).join(', ');
    const answer = await this.#definite(sql(`SELECT key, items FROM lists WHERE key IN (${list})`));
    const reads = new Map((answer.result.rows as [string, number[]][]).map(([key, items]) => [key, items]));
    const description = `${name} (read ${JSON.stringify(Object.fromEntries(reads))})`;
    this.#lists.push({ name: description, start, end: performance.now(), outcome: 'ok', appends: new Map(), reads });
  }

  async #writeRegister(name: string, key: string, random: Random): Promise<void> {
    const value = ++this.#values;
    const request: Request = random.chance(0.5)
      ? sql('UPDATE registers SET value = $1 WHERE key = $2', [value, key])
      : {
          method: 'POST',
          path: table('registers', 'update'),
          body: { set: { value: String(value) }, where: `key = '${key}'` },
        };
    const start = performance.now();
    const answer = await this.#definite({ ...request, key: crypto.randomUUID() });
    const description = `${name} (write ${key} = ${value} → ${answer.code})`;
    if (!isAcknowledged(answer)) this.#problems.push(`${description}: ${JSON.stringify(answer)}`);
    else this.#registers.push({ key, start, end: performance.now(), description, apply: () => value });
  }

  async #readRegister(name: string, key: string): Promise<void> {
    const start = performance.now();
    const answer = await this.#definite(sql('SELECT value FROM registers WHERE key = $1', [key]));
    const [[value]] = answer.result.rows as [[number]];
    const description = `${name} (read ${key} = ${value})`;
    const apply = (state: number) => (state === value ? state : undefined);
    this.#registers.push({ key, start, end: performance.now(), description, apply });
  }

  async #insertRow(name: string): Promise<void> {
    const value = ++this.#values;
    const body = { rows: [[value]] };
    const answer = await this.#definite({
      method: 'POST',
      path: table('entries', 'rows'),
      body,
      key: crypto.randomUUID(),
    });
    this.#rows.set(value, isAcknowledged(answer));
    if (!isAcknowledged(answer)) this.#problems.push(`${name} (insert): ${JSON.stringify(answer)}`);
  }

  async #wrongRows(): Promise<string[]> {
    const answer = await this.#definite(sql('SELECT value, count(*) FROM entries GROUP BY value'));
    const counts = new Map(answer.result.rows as [number, number][]);
    return [...this.#rows].flatMap(([value, isThere]) => {
      const count = counts.get(value) ?? 0;
      return count === Number(isThere) ? [] : [`the row ${value} (acknowledged: ${isThere}) occurs ${count} times`];
    });
  }

  /** Sends a request until its outcome is known; a write has a key, so that it is applied once. */
  async #definite(request: Request): Promise<Answer> {
    for (let attempt = 0; ; attempt++) {
      const answer = this.#server.runs ? await this.#sent(request) : noAnswer;
      if (answer.status !== 0 && answer.status < 500) return answer;
      if (attempt === 0) this.#resent++;
      await pause(20);
    }
  }

  #sent(request: Request): Promise<Answer> {
    try {
      return this.#server.api.send(request);
    } catch {
      // It was killed and has not yet reported its address.
      return Promise.resolve(noAnswer);
    }
  }
}
