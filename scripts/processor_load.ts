// The load of this machine's processors, so that tests use what is left and do not crowd a machine that is busy.
import { cpus } from 'node:os';

interface Times {
  readonly idleMs: number;
  readonly allMs: number;
}

function timesSinceBoot(): Times {
  const all = cpus().map(({ times }) => times);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  return { idleMs: sum(all.map(({ idle }) => idle)), allMs: sum(all.flatMap((times) => Object.values(times))) };
}

export class ProcessorLoad {
  #last = timesSinceBoot();

  /** The part of the processors' time that was idle since the last call: 0 to 1. */
  idlePart(): number {
    const last = this.#last;
    this.#last = timesSinceBoot();
    const allMs = this.#last.allMs - last.allMs;
    return allMs > 0 ? (this.#last.idleMs - last.idleMs) / allMs : 0;
  }
}
