// Why a store cannot be opened, or cannot execute a statement, whichever database it uses.
import { OperatorError } from '../operator/operator_error.ts';
import { Failure } from '../standard/failure.ts';

/** Thrown if another process has exclusive use of the store. */
export class StoreInUse extends OperatorError {
  override readonly name: string = 'StoreInUse';
}

/** The store cannot be opened, or is not a metadata store. The message addresses the operator. */
export class StoreUnusable extends OperatorError {
  override readonly name: string = 'StoreUnusable';
}

/** The disk is full. The database has rolled the transaction back: unlike after other Failures, it cannot continue. */
export class StoreFull extends Failure {
  constructor(cause: unknown) {
    super('STORAGE_FULL', 'the disk of the service is full', {}, { cause });
  }
}
