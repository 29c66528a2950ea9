// The step of a writing statement that may become a task while it runs. The engine records the id of the task with the statement, so that
// a rerun of the task does not repeat the work. A statement that ends in time has no step and no extra cost.

interface StepHandlers {
  /** Retains the step as long as the task may run again. */
  readonly retain: (step: string) => Promise<void>;
  /** Assigns the step to the running statement in the engine; returns false if it is committing or has ended. */
  readonly recordStep: (step: string) => Promise<boolean>;
}

export class TaskStep {
  #step: string | undefined;
  #handlers: StepHandlers | undefined;
  #isHandedOver = false;

  /** Called before the statement is handed to the engine. Returns the step assigned so far; a later step goes through `handlers`. */
  begin(handlers: StepHandlers): string | undefined {
    this.#handlers = handlers;
    return this.#step;
  }

  /** Called when the engine takes the statement. Returns the step assigned so far. */
  handOver(): string | undefined {
    this.#isHandedOver = true;
    return this.#step;
  }

  /** Returns whether the engine will record the step with the statement. */
  async assign(step: string): Promise<boolean> {
    await this.#handlers?.retain(step);
    if (this.#handlers && this.#isHandedOver) return this.#handlers.recordStep(step).catch(() => false);
    this.#step = step;
    return true;
  }
}
