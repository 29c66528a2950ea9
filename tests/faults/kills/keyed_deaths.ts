// A keyed request of each kind, and the death of the engine, the server or both before, during or after the commit of its work by
// the engine; then the request is repeated, twice concurrently and once more: it takes effect once, and each response says so. A
// cell counts the kills that happened within its window.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs, spentMs } from '../../deadline.ts';
import type { Random } from '../../random.ts';
import { waitUntilRestarted } from '../../soak/steps.ts';
import { type Answer, isAcknowledged } from '../injection/api.ts';
import type { Victim } from '../injection/server_entry.ts';
import { ServerProcess } from '../injection/server_process.ts';
import { type KeyedKind, keyedKinds } from '../scenarios/keyed_requests.ts';

/** `during`: the log of the catalog has grown, and no answer was sent. */
export type KillMoment = 'before' | 'during' | 'after';

export interface Cell {
  readonly kind: KeyedKind;
  readonly victim: Victim;
  readonly moment: KillMoment;
}

const victims = ['engine', 'server', 'both'] as const;
const moments = ['before', 'during', 'after'] as const;

export const allCells: readonly Cell[] = keyedKinds.flatMap((kind) =>
  victims.flatMap((victim) => moments.map((moment) => ({ kind, victim, moment }))),
);

export const describeCell = ({ kind, victim, moment }: Cell) => `${kind.name}: ${victim} killed ${moment} the commit`;

/** Kills that miss the window are repeated at most this often. */
const triesMax = 12;
const growthMsMax = spentMs(3_000);
const engineDeathsMax = 3;
const settledMsMax = deadlineMs(30_000);
/** The wait for a server that may not have been killed. */
const deadMsMax = spentMs(1_000);
const resendPauseMs = 40;

export class KeyedDeaths {
  readonly #server: ServerProcess;
  #serial = 0;
  #engineDeaths = 0;

  constructor(server: ServerProcess) {
    this.#server = server;
  }

  /** The number of kills in the window: one, or none after many tries. Throws if the request did not take effect exactly once. */
  async run(cell: Cell): Promise<number> {
    for (let n = 0; n < triesMax; n++) if (await this.#try(cell)) return 1;
    return 0;
  }

  async #try({ kind, victim, moment }: Cell): Promise<boolean> {
    const server = this.#server;
    if (victim === 'engine') this.#engineDeaths++;
    else this.#engineDeaths = 0;
    const id = `k${++this.#serial}x`;
    await this.#ready();
    await kind.prepare(server.api, id);
    const request = { ...kind.request(id), key: `key-${id}` };
    const before = this.#logBytes();
    let isHit = false;
    let first: Answer;
    if (moment === 'during') {
      const { promise: requestSent, resolve } = Promise.withResolvers<void>();
      const answering = server.api.send(request, undefined, resolve);
      await requestSent;
      isHit = this.#logGrows(before);
      server.strike(victim);
      first = await answering;
    } else {
      await server.arm(victim, { point: moment, n: 1, isLasting: false, callPrefixes: kind.commits });
      first = await server.api.send(request);
    }
    if (kind.isTask) await this.#waitUntilSettled();
    else if (victim !== 'engine') await server.waitForExit(deadMsMax);
    if (moment !== 'during') {
      // Killed after the call: the engine has reported the commit.
      isHit = server.struck !== undefined;
      if (server.runs) await server.disarm().catch(() => undefined);
    }
    // An engine that died after its answer leaves the server with the answer.
    const mayAnswer = kind.isTask || (victim === 'engine' && moment === 'after');
    if (isAcknowledged(first) && !mayAnswer) isHit = false;
    await this.#waitUntilServed();
    if (isAcknowledged(first)) this.#require(kind.answer(first, id), 'the first answer', first);
    else this.#require(first.status === 0 || first.status === 503, 'the first answer', first);
    const repeated = await Promise.all([this.#resend(request), this.#resend(request)]);
    repeated.push(await this.#resend(request));
    for (const answer of repeated)
      this.#require(kind.answer(answer, id), `after ${first.status} ${first.code}`, answer);
    await this.#ready();
    const wrong = await kind.wrong(server.api, id);
    if (wrong !== undefined) throw new Error(`${wrong}; the first answer was ${first.status} ${first.code}`);
    return isHit;
  }

  #require(isRight: boolean, request: string, { status, code, message, result }: Answer): void {
    if (isRight) return;
    throw new Error(`${request}: ${status} ${code} ${message} ${JSON.stringify(result).slice(0, 300)}`);
  }

  async #resend(request: Parameters<ServerProcess['api']['send']>[0]): Promise<Answer> {
    const deadline = Date.now() + settledMsMax;
    for (;;) {
      const answer = await this.#server.api.send(request);
      if (answer.status !== 503 || Date.now() > deadline) return answer;
      await pause(resendPauseMs);
    }
  }

  /** Waits until the tasks have ended, or the server has died. */
  async #waitUntilSettled(): Promise<void> {
    const { api } = this.#server;
    const deadline = Date.now() + settledMsMax;
    while (this.#server.runs && Date.now() < deadline) {
      const { result } = await api.get('/api/v2/tasks?pageSize=1000');
      const all = result.tasks as { readonly state: string }[] | undefined;
      if (all?.every(({ state }) => ['succeeded', 'failed', 'cancelled'].includes(state))) return;
      await pause(10);
    }
  }

  async #waitUntilServed(): Promise<void> {
    if (!this.#server.runs) await this.#server.start();
    await this.#server.noOrphans();
  }

  /** Waits until the engine accepts statements again. A server that has lost many engines delays the next start for long. */
  async #ready(): Promise<void> {
    if (this.#engineDeaths >= engineDeathsMax) {
      this.#engineDeaths = 0;
      await this.#server.kill();
      await this.#server.start();
    }
    await waitUntilRestarted(this.#server, 0);
  }

  /** Polls without yielding: the time between the commit and its report is hardly a millisecond. */
  #logGrows(before: number): boolean {
    const deadline = performance.now() + growthMsMax;
    while (performance.now() < deadline) if (this.#logBytes() > before) return true;
    return false;
  }

  #logBytes(): number {
    const directory = join(this.#server.dataDirectory, 'catalogs');
    const logs = readdirSync(directory).filter((file) => file.endsWith('.wal'));
    return logs.reduce((sum, file) => sum + (statSync(join(directory, file), { throwIfNoEntry: false })?.size ?? 0), 0);
  }
}

export interface DeathsReport {
  readonly cells: number;
  readonly problems: readonly string[];
}

/** Cells in random order, each on the same server, until `deadline` (ms since 1970). */
export async function runCells(cells: readonly Cell[], random: Random, deadline: number): Promise<DeathsReport> {
  const remaining = [...cells];
  const problems: string[] = [];
  const server = await ServerProcess.onEmptyDirectory();
  const deaths = new KeyedDeaths(server);
  let cellsRun = 0;
  try {
    while (remaining.length > 0 && Date.now() < deadline) {
      const [cell] = remaining.splice(random.below(remaining.length), 1) as [Cell];
      try {
        if ((await deaths.run(cell)) === 0) problems.push(`${describeCell(cell)}: no kill fell into the window`);
      } catch (error) {
        problems.push(`${describeCell(cell)}: ${(error as Error).message}`);
        if (!server.runs) await server.start();
      }
      cellsRun++;
    }
    if (server.runs) await server.stop();
    if (problems.length === 0) await server.remove();
  } finally {
    await server.kill();
  }
  return { cells: cellsRun, problems };
}
