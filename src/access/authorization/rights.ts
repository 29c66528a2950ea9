// Grants in a form that makes a decision a look-up: a set of privileges by id, computed once for each user and role, and combined for a
// principal on demand. A change of a role's grants is therefore not recomputed for each of its members.

import type { Scope } from '../../model/principal.ts';
import { bitOf, holds } from '../../model/privileges.ts';
import { categoryScope, globalScope } from './grant_scopes.ts';

/** The grants of one user or role, or the scopes of a token. */
export class GrantSet {
  /** Sets of privileges (see model/privileges.ts) by object id or grant scope. */
  readonly privilegesById = new Map<string, number>();
  /** Ids of all ancestors of granted objects. */
  readonly ancestors = new Set<string>();
  /** Of the grants to read. */
  readonly readPaths: (readonly string[])[] = [];

  constructor(granted: Iterable<Scope>) {
    for (const { privilege, path } of granted) {
      if (holds(bitOf(privilege), 'read')) this.readPaths.push(path);
      const last = path.length - 1;
      const id = path[last] as string;
      this.privilegesById.set(id, (this.privilegesById.get(id) ?? 0) | bitOf(privilege));
      for (let i = 0; i < last; i++) this.ancestors.add(path[i] as string);
    }
  }
}

/** Ids cached for one principal; those of collections and of the parents of tables are looked up most. */
const cachedIdsMax = 128;

/** The combined grants of one principal. */
export class Rights {
  /** All privileges on everything: `root`. */
  readonly isUnrestricted: boolean;
  /** `rightsVersion` of the directory when these rights were computed. */
  readonly version: number;
  readonly #grantSets: readonly GrantSet[];
  readonly #cache = new Map<string, number>();
  readonly #collectionCache = new Map<string, number>();

  constructor(version: number, grantSets: readonly GrantSet[], isUnrestricted = false) {
    this.version = version;
    this.#grantSets = grantSets;
    this.isUnrestricted = isUnrestricted;
  }

  /** The set of privileges granted on an id or scope itself. */
  privilegesOn(id: string): number {
    let set = this.#cache.get(id);
    if (set === undefined) {
      set = this.#collect(id);
      if (this.#cache.size >= cachedIdsMax) this.#cache.clear();
      this.#cache.set(id, set);
    }
    return set;
  }

  /** The set of privileges granted on a top-level collection or on everything. */
  privilegesOnCollection(category: string): number {
    let set = this.#collectionCache.get(category);
    if (set === undefined) {
      set = this.#collect(globalScope) | this.#collect(categoryScope(category));
      this.#collectionCache.set(category, set);
    }
    return set;
  }

  /** Whether any privilege is granted on an object or inside it. */
  hasAnyWithin(id: string): boolean {
    return this.#grantSets.some(({ privilegesById: sets, ancestors: above }) => sets.has(id) || above.has(id));
  }

  /** The ids with a `read` grant on themselves; what is inside them is not listed. */
  readableIds(): string[] {
    const ids = new Set<string>();
    for (const { privilegesById: sets } of this.#grantSets)
      for (const [id, set] of sets) if (holds(set, 'read')) ids.add(id);
    return [...ids];
  }

  /** The paths of ids of everything with a `read` grant on itself. */
  readPaths(): (readonly string[])[] {
    return this.#grantSets.flatMap(({ readPaths }) => readPaths);
  }

  #collect(id: string): number {
    let set = 0;
    for (const { privilegesById: sets } of this.#grantSets) set |= sets.get(id) ?? 0;
    return set;
  }
}
