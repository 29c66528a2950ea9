// The state that a conditional request expects of an object, checked in the transaction that changes it (rest-standard B4).
import type { Actor } from '../model/principal.ts';
import { ObjectChanged } from './context.ts';
import type { ObjectRow } from './object_rows.ts';

/** Throws ObjectChanged: the precondition of the request is then checked against what there is now, and the change tried again. */
export function requireBasis(row: ObjectRow, actor: Actor): void {
  const { basis } = actor;
  if (basis === undefined) return;
  if (row.id === basis.objectId) {
    if (row.version !== basis.version) throw new ObjectChanged();
    // A request may change its object in several steps.
    actor.basis = undefined;
  } else if (row.category === basis.category && row.name === basis.name) throw new ObjectChanged();
}
