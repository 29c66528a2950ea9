// The steps of statements that write and run now. A statement without a step can be given one until it takes it.
import { Failure } from '../../../standard/failure.ts';

interface RunningWrite {
  step: string | undefined;
  isTaken: boolean;
}

export class RunningWrites {
  readonly #writes = new Map<string, RunningWrite>();

  /** @returns false if no such statement runs, if it has a step, or if it is too late. */
  assign(resultPath: string, step: string): boolean {
    const write = this.#writes.get(resultPath);
    if (!write || write.isTaken || write.step !== undefined) return false;
    write.step = step;
    return true;
  }

  /** `work` calls `takeStep` before its effects can no longer be undone: its step is final then. */
  async run<T>(
    resultPath: string,
    step: string | undefined,
    work: (takeStep: () => string | undefined) => Promise<T>,
  ): Promise<T> {
    if (this.#writes.has(resultPath)) throw new Failure('CHANGE_IN_PROGRESS', 'the statement runs already');
    const write: RunningWrite = { step, isTaken: false };
    this.#writes.set(resultPath, write);
    try {
      return await work(() => {
        write.isTaken = true;
        return write.step;
      });
    } finally {
      this.#writes.delete(resultPath);
    }
  }
}
