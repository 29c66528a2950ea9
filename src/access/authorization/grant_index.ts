// Grants by what they are on: when an object is dropped, those on it and on what was in it are found without a look at all.
import type { Grant } from './directory_types.ts';

interface Place {
  readonly parent: string | undefined;
  grants: Grant[] | undefined;
  children: Set<string> | undefined;
}

export class GrantIndex {
  readonly #places = new Map<string, Place>();

  add(grant: Grant): void {
    const place = this.#enter(grant.path, grant.path.length - 1);
    if (place.grants) place.grants.push(grant);
    else place.grants = [grant];
  }

  remove(grant: Grant): void {
    const place = this.#places.get(grant.onId);
    const at = place?.grants?.indexOf(grant) ?? -1;
    if (!place?.grants || at < 0) return;
    // The order does not matter: the last takes the room.
    const last = place.grants.pop() as Grant;
    if (last !== grant) place.grants[at] = last;
    if (place.grants.length === 0) place.grants = undefined;
    this.#leave(grant.onId, place);
  }

  /** Those on an id and on everything in it. */
  findWithin(id: string): Grant[] {
    const found: Grant[] = [];
    const open = [id];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const place = this.#places.get(next);
      if (place?.grants) for (const grant of place.grants) found.push(grant);
      if (place?.children) for (const child of place.children) open.push(child);
    }
    return found;
  }

  #enter(path: readonly string[], at: number): Place {
    const id = path[at] as string;
    const known = this.#places.get(id);
    if (known) return known;
    const made: Place = { parent: path[at - 1], grants: undefined, children: undefined };
    this.#places.set(id, made);
    if (at > 0) {
      const above = this.#enter(path, at - 1);
      above.children ??= new Set();
      above.children.add(id);
    }
    return made;
  }

  /** What holds nothing any more goes. */
  #leave(id: string, place: Place): void {
    if (place.grants || place.children) return;
    this.#places.delete(id);
    const { parent } = place;
    const above = parent === undefined ? undefined : this.#places.get(parent);
    if (parent === undefined || !above?.children) return;
    above.children.delete(id);
    if (above.children.size === 0) above.children = undefined;
    this.#leave(parent, above);
  }
}
