// Steps that are assigned to statements while they run (see `recordStep` in engine.ts): recorded in the transaction of the statement,
// at its end. Once the transaction is committing, it is too late to assign a step.

export class RunningWrite {
  #step: string | undefined;
  #isCommitting = false;

  recordStep(step: string): boolean {
    if (!this.#isCommitting) this.#step = step;
    return !this.#isCommitting;
  }

  /** Call at the beginning of each attempt of the statement; conflicts may lead to several. */
  attempt(): void {
    this.#isCommitting = false;
  }

  /** Call before the attempt is committed. Returns the step to record with it. */
  committing(): string | undefined {
    this.#isCommitting = true;
    return this.#step;
  }
}

export class LateSteps {
  /** By the result path of the statement. */
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

  /** False if it is too late, or no such statement is running. */
  recordStep(resultPath: string, step: string): boolean {
    return this.#running.get(resultPath)?.recordStep(step) ?? false;
  }
}
