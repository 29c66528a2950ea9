// What is granted, worked out so that asking is a look-up: once for each user and role that grants are made to, and put together
// for a principal as it asks. A change of one role's grants is so not worked out again for each of its members.

import type { Scope } from '../../model/principal.ts';
import { bitOf, holds } from '../../model/privileges.ts';
import { categoryScope, globalScope } from './grant_scopes.ts';

/** What is granted to one user or role, or what a token is confined to. */
export class GrantSet {
  /** By id of an object or mark of a place: a set of privileges (model/privileges.ts). */
  readonly privilegesById = new Map<string, number>();
  /** Ids above something that is granted. */
  readonly ancestors = new Set<string>();

  constructor(granted: Iterable<Scope>) {
    for (const { privilege, path } of granted) {
      const last = path.length - 1;
      const id = path[last] as string;
      this.privilegesById.set(id, (this.privilegesById.get(id) ?? 0) | bitOf(privilege));
      for (let i = 0; i < last; i++) this.ancestors.add(path[i] as string);
    }
  }
}

/** Ids whose sets one principal's rights remember; those of collections and of what holds tables are asked for most. */
const rememberedMax = 128;

/** What is granted to one principal, all of it together. */
export class Rights {
  /** Everything: `root` without a scope. */
  readonly isUnrestricted: boolean;
  /** Of the directory, when they were put together. */
  readonly version: number;
  readonly #granted: readonly GrantSet[];
  readonly #sets = new Map<string, number>();
  readonly #setsOfCollections = new Map<string, number>();

  constructor(version: number, granted: readonly GrantSet[], all = false) {
    this.version = version;
    this.#granted = granted;
    this.isUnrestricted = all;
  }

  /** The set of privileges on an id or mark itself. */
  privilegesOn(id: string): number {
    let set = this.#sets.get(id);
    if (set === undefined) {
      set = this.#gathered(id);
      if (this.#sets.size >= rememberedMax) this.#sets.clear();
      this.#sets.set(id, set);
    }
    return set;
  }

  /** On a collection at the top: what is granted on it and on everything. */
  privilegesOnCollection(category: string): number {
    let set = this.#setsOfCollections.get(category);
    if (set === undefined) {
      set = this.#gathered(globalScope) | this.#gathered(categoryScope(category));
      this.#setsOfCollections.set(category, set);
    }
    return set;
  }

  /** Whether something is granted on an id or in it. */
  hasAnyWithin(id: string): boolean {
    return this.#granted.some(({ privilegesById: sets, ancestors: above }) => sets.has(id) || above.has(id));
  }

  /** What may be read as such; what is in it is not listed. */
  readableIds(): string[] {
    const ids = new Set<string>();
    for (const { privilegesById: sets } of this.#granted)
      for (const [id, set] of sets) if (holds(set, 'read')) ids.add(id);
    return [...ids];
  }

  #gathered(id: string): number {
    let set = 0;
    for (const { privilegesById: sets } of this.#granted) set |= sets.get(id) ?? 0;
    return set;
  }
}
