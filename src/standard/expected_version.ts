// The state that a conditional request expects of an object, checked in the transaction that changes it (rest-standard B4).
import type { Actor, ObjectVersion } from '../model/principal.ts';
import { Failure } from './failure.ts';

/** The object has changed since it was read. The caller reads it again and retries (see `Catalog.retrying`). */
export class ObjectChanged extends Failure {
  /** The object that the next attempts must serialize on, if known. */
  readonly objectId: string | undefined;

  constructor(objectId?: string) {
    super('CHANGE_IN_PROGRESS', 'the object was changed by other requests at the same time');
    this.objectId = objectId;
  }
}

/**
 * Throws ObjectChanged; the precondition is then checked against the current state and the change is retried. `afterCommit`: runs its
 * argument once the checked change is certain, because until then the check may have to be repeated.
 */
export function requireExpectedVersion(
  current: ObjectVersion,
  actor: Actor,
  afterCommit: (effect: () => void) => void,
): void {
  const { expectedVersion: expected } = actor;
  if (expected === undefined) return;
  if (current.objectId === expected.objectId) {
    if (current.version !== expected.version) throw new ObjectChanged();
    // A request may change its object in several steps.
    afterCommit(() => {
      actor.expectedVersion = undefined;
    });
  } else if (current.category === expected.category && current.name === expected.name) throw new ObjectChanged();
}
