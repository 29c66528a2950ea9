// A spare engine process without files: it takes over when the process that holds the files ends. Started once the engine has
// served a first statement, while the engine is idle if possible; a lost spare is replaced after a delay.
import type { EngineProcess } from './engine_process.ts';

/** Delay after the first statement, and between checks whether the engine is idle. */
const delayMs = 1_000;
/** After this many checks the spare starts although statements are running. */
const idleChecksMax = 5;
/** Delays before lost spares are replaced, by the number of recent losses. */
const replaceAfterMs = [1_000, 5_000, 30_000, 300_000];
/** After this long without a loss, the delays start over. */
const quietMs = 600_000;

export interface SpareProcessOptions {
  /** Starts a process that prepares itself with the current settings. */
  readonly launch: () => Promise<EngineProcess>;
  readonly isBusy: () => boolean;
  readonly ready: (pid: number, ms: number) => void;
  readonly lost: (reason: string) => void;
}

export class SpareProcess {
  readonly #options: SpareProcessOptions;
  #isWanted = false;
  #process: EngineProcess | undefined;
  #prepared: EngineProcess | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The number of the start in progress; a start with another number discards its process. */
  #start = 0;
  #starting: Promise<void> = Promise.resolve();
  #losses = 0;
  #lastLossAt = 0;

  constructor(options: SpareProcessOptions) {
    this.#options = options;
  }

  /** Maintains a spare from now on, until `take` or `stop`. */
  want(): void {
    if (this.#isWanted) return;
    this.#isWanted = true;
    this.#schedule(delayMs);
  }

  /** Whether a process is prepared and only waits for the files. */
  get isReady(): boolean {
    return this.#process?.alive === true && this.#process === this.#prepared;
  }

  /** Returns the process, which may still be preparing itself, or undefined. The caller owns it. */
  take(): EngineProcess | undefined {
    const process = this.#process;
    this.#process = undefined;
    this.#isWanted = false;
    this.#cancel();
    return process?.alive ? process : undefined;
  }

  /** The settings changed: discards a process that was started with the old ones. */
  replace(): void {
    const process = this.#process;
    this.#process = undefined;
    this.#cancel();
    void process?.discard();
    if (this.#isWanted) this.#schedule(delayMs);
  }

  /** Resolves when its process has exited. */
  async stop(): Promise<void> {
    const process = this.take();
    await Promise.all([process?.discard(), this.#starting]);
  }

  /** A process ended by itself; ignored if it is not the spare. */
  died(process: EngineProcess, reason: string): void {
    if (process !== this.#process) return;
    this.#process = undefined;
    this.#handleLoss(reason);
  }

  #cancel(): void {
    this.#start++;
    clearTimeout(this.#timer);
  }

  #schedule(afterMs: number, checks = 1): void {
    this.#timer = setTimeout(() => {
      if (this.#options.isBusy() && checks < idleChecksMax) this.#schedule(delayMs, checks + 1);
      else this.#starting = this.#launch();
    }, afterMs).unref();
  }

  async #launch(): Promise<void> {
    const start = ++this.#start;
    const began = performance.now();
    let process: EngineProcess;
    try {
      process = await this.#options.launch();
    } catch (error) {
      if (start === this.#start) this.#handleLoss((error as Error).message);
      return;
    }
    if (start !== this.#start) return process.discard();
    this.#process = process;
    process.prepared.then(
      () => {
        if (process !== this.#process) return;
        this.#prepared = process;
        this.#options.ready(process.pid, performance.now() - began);
      },
      (error: unknown) => {
        if (process !== this.#process) return;
        this.#process = undefined;
        void process.discard();
        this.#handleLoss((error as Error).message);
      },
    );
  }

  #handleLoss(reason: string): void {
    if (performance.now() - this.#lastLossAt > quietMs) this.#losses = 0;
    this.#lastLossAt = performance.now();
    const replaceMs = replaceAfterMs[Math.min(this.#losses, replaceAfterMs.length - 1)] as number;
    this.#losses++;
    this.#options.lost(reason);
    this.#schedule(replaceMs);
  }
}
