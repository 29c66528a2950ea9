// The failure of work whose engine process ended under it: what of it was done is unknown.
import { Failure } from '../standard/failure.ts';

export class EngineLost extends Failure {
  /** Whether it is certain that this work ended the process: it crashed or had to be killed, and nothing else ran. */
  readonly isToBlame: boolean;

  constructor({ isToBlame }: { readonly isToBlame: boolean }) {
    super('WAREHOUSE_FAILED', 'the engine of the warehouse stopped while the request ran');
    this.isToBlame = isToBlame;
  }
}
