// Measures the load of the processors, so that tests use what is left and do not overload a busy machine.
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

  /** The idle fraction of the processors' time since the last call: 0 to 1. */
  idlePart(): number {
    const last = this.#last;
    this.#last = timesSinceBoot();
    const allMs = this.#last.allMs - last.allMs;
    return allMs > 0 ? (this.#last.idleMs - last.idleMs) / allMs : 0;
  }
}
