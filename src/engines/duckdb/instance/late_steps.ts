// Steps given to statements that write while they run (engine.ts, `remember`): recorded in the statement's own transaction, at its
// end. Once that transaction is being committed it is too late for a step.

export class RunningWrite {
  #step: string | undefined;
  #isCommitting = false;

  remember(step: string): boolean {
    if (!this.#isCommitting) this.#step = step;
    return !this.#isCommitting;
  }

  /** An attempt of the statement begins; conflicts may lead to several. */
  attempt(): void {
    this.#isCommitting = false;
  }

  /** The attempt is about to be committed. Returns the step to record with it. */
  committing(): string | undefined {
    this.#isCommitting = true;
    return this.#step;
  }
}

export class LateSteps {
  /** By where a statement leaves its result. */
  readonly #running = new Map<string, RunningWrite>();

  async during<T>(resultPath: string, work: (running: RunningWrite) => Promise<T>): Promise<T> {
    const running = new RunningWrite();
    this.#running.set(resultPath, running);
    try {
      return await work(running);
    } finally {
      this.#running.delete(resultPath);
    }
  }

  /** False where it is too late, or no such statement runs. */
  remember(resultPath: string, step: string): boolean {
    return this.#running.get(resultPath)?.remember(step) ?? false;
  }
}
