// The step of a writing statement that may become a task while it runs: the engine remembers the statement by the id of the task,
// so that another run of the task does not repeat the work. A statement that ends in time has no step, and costs nothing more.

interface Begun {
  /** Retains the step as long as the task may run again. */
  readonly keep: (step: string) => Promise<void>;
  /** Gives the step to the statement in the engine; false where that commits already, or has ended. */
  readonly remember: (step: string) => Promise<boolean>;
}

export class TaskStep {
  #step: string | undefined;
  #begun: Begun | undefined;
  #isHandedOver = false;

  /** The statement is about to be handed to the engine. Returns the step it was given before; what is given later is kept here. */
  begin(begun: Begun): string | undefined {
    this.#begun = begun;
    return this.#step;
  }

  /** The engine takes the statement now. Returns the step given so far. */
  handOver(): string | undefined {
    this.#isHandedOver = true;
    return this.#step;
  }

  /** Whether the engine will remember the statement by the step. */
  async give(step: string): Promise<boolean> {
    await this.#begun?.keep(step);
    if (this.#begun && this.#isHandedOver) return this.#begun.remember(step).catch(() => false);
    this.#step = step;
    return true;
  }
}
