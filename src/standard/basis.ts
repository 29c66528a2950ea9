// The state that a conditional request expects of an object, checked in the transaction that changes it (rest-standard B4).
import type { Actor, Basis } from '../model/principal.ts';
import { Failure } from './failure.ts';

/** The object is not what it was when the caller looked it up. Look again, decide again (`Catalog.retrying`). */
export class ObjectChanged extends Failure {
  /** Of the object, where one is known that the next attempts have to take turns at. */
  readonly objectId: string | undefined;

  constructor(objectId?: string) {
    super('CHANGE_IN_PROGRESS', 'The object was changed by other requests at the same time.');
    this.objectId = objectId;
  }
}

/** Throws ObjectChanged: the precondition of the request is then checked against what there is now, and the change tried again. */
export function requireBasis(current: Basis, actor: Actor): void {
  const { basis } = actor;
  if (basis === undefined) return;
  if (current.objectId === basis.objectId) {
    if (current.version !== basis.version) throw new ObjectChanged();
    // A request may change its object in several steps.
    actor.basis = undefined;
  } else if (current.category === basis.category && current.name === basis.name) throw new ObjectChanged();
}
