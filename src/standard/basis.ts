// The state that a conditional request expects of an object, checked in the transaction that changes it (rest-standard B4).
import type { Actor, Basis } from '../model/principal.ts';
import { Failure } from './failure.ts';

/** The object has changed since it was read. The caller reads it again and retries (see `Catalog.retrying`). */
export class ObjectChanged extends Failure {
  /** The object that the next attempts must serialize on, if known. */
  readonly objectId: string | undefined;

  constructor(objectId?: string) {
    super('CHANGE_IN_PROGRESS', 'The object was changed by other requests at the same time.');
    this.objectId = objectId;
  }
}

/** Throws ObjectChanged; the precondition is then checked against the current state and the change is retried. */
export function requireBasis(current: Basis, actor: Actor): void {
  const { basis } = actor;
  if (basis === undefined) return;
  if (current.objectId === basis.objectId) {
    if (current.version !== basis.version) throw new ObjectChanged();
    // A request may change its object in several steps.
    actor.basis = undefined;
  } else if (current.category === basis.category && current.name === basis.name) throw new ObjectChanged();
}
