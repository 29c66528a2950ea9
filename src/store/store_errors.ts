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

/** The database has rolled the transaction back: unlike after other Failures, it cannot continue. */
export class StoreFailure extends Failure {}

/** The disk is full. */
export class StoreFull extends StoreFailure {
  constructor(cause: unknown) {
    super('STORAGE_FULL', 'the disk of the service is full', {}, { cause });
  }
}

/** The database does not respond, or not in time. Its last change may have been committed. */
export class StoreUnavailable extends StoreFailure {
  constructor(message: string, cause?: unknown) {
    super('STORE_UNAVAILABLE', message, {}, { cause });
  }
}

/**
 * The transaction certainly changed nothing: it was rolled back, or never began. What the request did before it is not known here, so
 * the outcome remains that of the code until the request ends.
 */
export class StoreUnchanged extends StoreUnavailable {}
