// A process of the engine that is prepared ahead, without a file: it takes over when the process that holds the files ends. Started
// once the engine has served a first statement, while it is idle where possible; one that is lost is replaced after a pause.
import type { EngineProcess } from './engine_process.ts';

/** After the first statement; then so often it is looked whether the engine is idle. */
const delayMs = 1_000;
/** So often the start gives way to statements that run. */
const looksMax = 5;
/** Before the one that replaces a lost one. */
const replaceAfterMs = [1_000, 5_000, 30_000, 300_000];
/** After so long without a loss the pauses begin anew. */
const quietMs = 600_000;

export interface SpareProcessOptions {
  /** Starts a process and has it prepared, with the settings of now. */
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
  /** Of the start that is under way; one of another number ends its process. */
  #start = 0;
  #starting: Promise<void> = Promise.resolve();
  #losses = 0;
  #lastLossAt = 0;

  constructor(options: SpareProcessOptions) {
    this.#options = options;
  }

  /** From now on there is one, until it is taken or `stop`. */
  want(): void {
    if (this.#isWanted) return;
    this.#isWanted = true;
    this.#schedule(delayMs);
  }

  /** Whether a process is prepared, and only waits for the files. */
  get isReady(): boolean {
    return this.#process?.alive === true && this.#process === this.#prepared;
  }

  /** The process, which may still be preparing itself; undefined: there is none. The caller owns it. */
  take(): EngineProcess | undefined {
    const process = this.#process;
    this.#process = undefined;
    this.#isWanted = false;
    this.#cancel();
    return process?.alive ? process : undefined;
  }

  /** The settings changed: one that was started with those of before ends. */
  replace(): void {
    const process = this.#process;
    this.#process = undefined;
    this.#cancel();
    void process?.discard();
    if (this.#isWanted) this.#schedule(delayMs);
  }

  /** Resolves when its process is gone. */
  async stop(): Promise<void> {
    const process = this.take();
    await Promise.all([process?.discard(), this.#starting]);
  }

  /** A process ended by itself; passed over where it is not the spare. */
  died(process: EngineProcess, reason: string): void {
    if (process !== this.#process) return;
    this.#process = undefined;
    this.#failed(reason);
  }

  #cancel(): void {
    this.#start++;
    clearTimeout(this.#timer);
  }

  #schedule(afterMs: number, looks = 1): void {
    this.#timer = setTimeout(() => {
      if (this.#options.isBusy() && looks < looksMax) this.#schedule(delayMs, looks + 1);
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
      if (start === this.#start) this.#failed((error as Error).message);
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
        this.#failed((error as Error).message);
      },
    );
  }

  #failed(reason: string): void {
    if (performance.now() - this.#lastLossAt > quietMs) this.#losses = 0;
    this.#lastLossAt = performance.now();
    const pauseMs = replaceAfterMs[Math.min(this.#losses, replaceAfterMs.length - 1)] as number;
    this.#losses++;
    this.#options.lost(reason);
    this.#schedule(pauseMs);
  }
}
