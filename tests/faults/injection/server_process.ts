// A server in a separate process: started, armed, killed, and restarted on the same data. Checks that no engine outlives it.
import { type ChildProcess, fork } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs } from '../../deadline.ts';
import { scenarioFlags } from '../scenarios/scenario_flags.ts';
import { type ClockedWorld, scheduleClock } from '../scenarios/scenario_parts.ts';
import { Api } from './api.ts';
import { externalSystems } from './external_systems.ts';
import { type Fault, FaultPlan } from './fault_plan.ts';
import type { Order, Report, Victim } from './server_entry.ts';

const entry = new URL('./server_entry.ts', import.meta.url);
const readyMsMax = deadlineMs(60_000);
const orphanMsMax = deadlineMs(5_000);

export class ServerProcess implements ClockedWorld {
  readonly dataDirectory: string;
  /** How long each start took until the server was ready. */
  readonly startMs: number[] = [];
  #child: ChildProcess | undefined;
  #api: Api | undefined;
  #enginePids: number[] = [];
  #orders = new Map<number, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>();
  #orderIds = 0;
  #exited: Promise<void> = Promise.resolve();
  #clockMs = scheduleClock.ms;
  /** For its calls to other services: counted here, where these services run. */
  readonly #outside = new FaultPlan((_fault, call) => {
    writeFileSync(this.#struckFile, call);
    this.#killNow();
  });
  #killNow: () => void = () => {};

  constructor(dataDirectory: string) {
    this.dataDirectory = dataDirectory;
  }

  static async onEmptyDirectory(): Promise<ServerProcess> {
    const server = new ServerProcess(await mkdtemp(join(tmpdir(), 'tabularium-kills-')));
    await server.start();
    return server;
  }

  get api(): Api {
    if (!this.#api) throw new Error('the server does not run');
    return this.#api;
  }

  get runs(): boolean {
    return this.#child !== undefined;
  }

  async start(): Promise<void> {
    const before = performance.now();
    (await externalSystems()).hit = (point, call) => this.#outside.reach(point, call);
    const flags = ['--port', '0', '--data-dir', this.dataDirectory, '--warehouse-threads', '2', ...scenarioFlags];
    // Retained beside the data, to examine failures.
    const log = openSync(`${this.dataDirectory}.log`, 'a');
    const child = fork(entry, [...flags, '--log-level', process.env.FAULTS_LOG ?? 'warn'], {
      stdio: ['ignore', 'ignore', log, 'ipc'],
      execArgv: [],
      env: {
        ...process.env,
        FAULTS_STRUCK: this.#struckFile,
        FAULTS_CLOCK: String(this.#clockMs),
      },
    });
    closeSync(log);
    this.#child = child;
    this.#exited = new Promise((resolve) => child.once('exit', () => resolve()));
    child.once('exit', () => this.#onExit(child));
    const ready = new Promise<{ url: string; token: string }>((resolve, reject) => {
      child.once('exit', (code, signal) => reject(new Error(`the server did not start: ${code ?? signal}`)));
      child.on('message', (report: Report) => this.#receive(report, resolve));
    });
    const { url, token } = await withTimeout(ready, readyMsMax, 'the server is not ready in time');
    this.startMs.push(performance.now() - before);
    this.#api = new Api(url, token);
  }

  /** The step at which a process is killed. */
  async arm(victim: Victim, fault: Fault, delayMs = 0): Promise<void> {
    rmSync(this.#struckFile, { force: true });
    // A kill of an earlier process does not count.
    this.#outside.arm({ point: 'asked', n: Number.POSITIVE_INFINITY, isLasting: false });
    if (fault.point === 'asked' || fault.point === 'answered') {
      const kill = () => this.strike(victim);
      this.#killNow = () => void (delayMs > 0 ? setTimeout(kill, delayMs) : kill());
      this.#outside.arm(fault);
    } else await this.#sendOrder({ kind: 'arm', victim, fault, delayMs });
  }

  /** The name of the step of the last kill; also for a dead server. */
  get struck(): string | undefined {
    return existsSync(this.#struckFile) ? readFileSync(this.#struckFile, 'utf8') : undefined;
  }

  get #struckFile(): string {
    return `${this.dataDirectory}.struck`;
  }

  /** The killed step; undefined if the server still runs and nothing was killed. */
  async disarm(): Promise<string | undefined> {
    const interruption = (await this.#sendOrder({ kind: 'disarm' })) as string | undefined;
    return this.#outside.disarm() ?? interruption;
  }

  async setClock(ms: number): Promise<void> {
    this.#clockMs = ms;
    await this.#sendOrder({ kind: 'clock', ms });
  }

  /** Sets the clock of the whole process this far from the true one, until it ends. */
  async jump(ms: number): Promise<void> {
    await this.#sendOrder({ kind: 'jump', ms });
  }

  /** Runs the periodic maintenance now. */
  async maintain(): Promise<void> {
    await this.#sendOrder({ kind: 'maintain' });
  }

  async recover(): Promise<void> {
    await this.#sendOrder({ kind: 'recover' });
  }

  async columnsInEngine(path: readonly string[]): Promise<string[] | undefined> {
    return (await this.#sendOrder({ kind: 'columns', path })) as string[] | undefined;
  }

  /** Stops it gracefully. */
  async stop(): Promise<void> {
    await this.#sendOrder({ kind: 'stop' });
    this.#child?.kill('SIGKILL');
    await this.#exited;
    await this.noOrphans();
  }

  /** SIGKILL now, to the server itself. */
  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL');
    await this.#exited;
  }

  /** SIGKILL now, without waiting for its effect. */
  strike(victim: Victim): void {
    if (victim !== 'server') this.killEngine();
    if (victim !== 'engine') this.#child?.kill('SIGKILL');
  }

  /** SIGKILL now to its newest engine; false if it has none. */
  killEngine(): boolean {
    const pid = this.#enginePids.at(-1);
    if (pid === undefined || !isAlive(pid)) return false;
    process.kill(pid, 'SIGKILL');
    return true;
  }

  /** Waits until it is dead, if a kill is pending. */
  async waitForExit(waitMs: number): Promise<boolean> {
    await Promise.race([this.#exited, pause(waitMs, undefined, { ref: false })]);
    return !this.runs;
  }

  /** Throws if an engine of a dead server is still alive. */
  async noOrphans(): Promise<void> {
    const deadline = Date.now() + orphanMsMax;
    const endedPids = this.runs ? this.#enginePids.slice(0, -1) : this.#enginePids;
    for (const pid of endedPids) {
      while (isAlive(pid)) {
        if (Date.now() > deadline) throw new Error(`the engine's process ${pid} outlives its server`);
        await pause(10);
      }
    }
    this.#enginePids = this.runs ? this.#enginePids.slice(-1) : [];
  }

  /** Deletes its data, which no process writes any more. */
  async remove(): Promise<void> {
    await this.kill();
    await this.noOrphans();
    await rm(this.dataDirectory, { recursive: true, force: true });
    for (const suffix of ['log', 'struck']) await rm(`${this.dataDirectory}.${suffix}`, { force: true });
  }

  #receive(report: Report, ready: (address: { url: string; token: string }) => void): void {
    if (report.kind === 'ready') ready(report);
    else if (report.kind === 'engine') this.#enginePids.push(report.pid);
    else {
      const waiting = this.#orders.get(report.id);
      this.#orders.delete(report.id);
      if (report.error === undefined) waiting?.resolve(report.answer);
      else waiting?.reject(new Error(report.error));
    }
  }

  #sendOrder(order: Order): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const id = ++this.#orderIds;
      this.#orders.set(id, { resolve, reject });
      const refused = () => reject(new Error(`the server is gone and cannot ${order.kind}`));
      if (!this.#child?.connected) return refused();
      this.#child.send({ id, order }, (error) => error && refused());
    });
  }

  #onExit(child: ChildProcess): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    this.#api?.close();
    for (const { reject } of this.#orders.values()) reject(new Error('the server died'));
    this.#orders.clear();
  }
}

/** A zombie is dead: it waits for its parent. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    if (process.platform !== 'linux') return true;
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function withTimeout<T>(work: Promise<T>, ms: number, description: string): Promise<T> {
  const timeout = new AbortController();
  const tooLate = pause(ms, undefined, { signal: timeout.signal }).then(() => {
    throw new Error(description);
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    timeout.abort();
    tooLate.catch(() => {});
  }
}
