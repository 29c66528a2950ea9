// May this principal do this there? What is granted on a thing holds for all that is in it; who owns a thing may do everything
// with it; a token's scopes take away and never add. Nothing else is allowed.

import type { Granted, Principal } from '../../model/principal.ts';
import { holds, type Privilege } from '../../model/privileges.ts';
import type { Permission } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import type { Directory } from './directory.ts';
import type { Rights } from './rights.ts';

/** An object of a path: what a decision needs to know of it. */
export interface PathObject {
  readonly id: string;
  readonly owner: string;
}

/** `within`: not on the whole, but on something in it. */
export type GrantReach = 'all' | 'within';

/** What is asked for: the top category, and the path as far as the privilege is needed on it. */
export interface AuthorizationTarget {
  readonly category: string;
  readonly path: readonly Segment[];
  /** Of a place that is asked about again: what was found out about it. */
  resolved?: Found | undefined;
}

interface Found {
  readonly version: number;
  readonly steps: readonly PathObject[];
}

/** Children that may be shown: those that `owner` owns and those of `ids`; of them, those that `keep` keeps. */
export interface VisibleChildren {
  readonly owner?: string;
  readonly ids: readonly string[];
  readonly filter?: (child: PathObject) => boolean;
}

export interface AuthorizerOptions {
  readonly directory: Directory;
  /** As much of a path as there is; one query, whatever is missing, so that time does not tell. */
  readonly resolvePath: (path: readonly Segment[]) => Promise<readonly PathObject[]>;
  readonly ownsDescendant: (userId: string, objectId: string) => Promise<boolean>;
  /** Who owns objects now; those that are gone are left out. */
  readonly ownersOf: (ids: readonly string[]) => Promise<readonly PathObject[]>;
}

interface Recorded {
  readonly all: Granted[];
  readonly known: Set<string>;
}

const nowhere: readonly PathObject[] = [];
/** Parents of what was lately asked for. */
const parentsMax = 10_000;

export class Authorizer {
  readonly #options: AuthorizerOptions;
  readonly #directory: Directory;
  readonly #parents = new Map<string, readonly PathObject[]>();
  readonly #recorded = new WeakMap<Principal, Recorded>();
  /** Moves when paths mean other objects than before, or objects have other owners. */
  #version = 0;

  constructor(options: AuthorizerOptions) {
    this.#options = options;
    this.#directory = options.directory;
  }

  /** Objects were renamed, dropped, or given to others. */
  pathsChanged(): void {
    this.#version++;
    this.#parents.clear();
  }

  /**
   * Records from now on what is allowed to this principal object, which has to be of one request alone. The list grows with each
   * decision; it is checked (`requireStill`) before the answer to the request is given once more.
   */
  record(principal: Principal): readonly Granted[] {
    const recorded: Recorded = { all: [], known: new Set() };
    this.#recorded.set(principal, recorded);
    return recorded.all;
  }

  /** Whether all that was recorded would be allowed now, with these credentials, on the same objects. Throws FORBIDDEN. */
  async requireStillAllowed(principal: Principal, granted: readonly Granted[]): Promise<void> {
    const ids = new Set(granted.flatMap(({ path }) => path.map(({ id }) => id)));
    const now = new Map((await this.#options.ownersOf([...ids])).map((step) => [step.id, step]));
    for (const one of granted) {
      // What is gone has the owner that it had.
      const steps = one.path.map((step) => now.get(step.id) ?? step);
      if (await this.#mayStill(principal, one, steps)) continue;
      const { privilege } = one;
      throw new Failure('FORBIDDEN', `the request needs the privilege ${privilege}, which is no longer held`, {
        privilege,
      });
    }
  }

  async #mayStill(principal: Principal, granted: Granted, steps: readonly PathObject[]): Promise<boolean> {
    const { privilege, category, within, self } = granted;
    if (self) return this.#directory.isActive(principal) && isWithin(principal.scopes, granted.scopes);
    if (this.#coveredBySteps(principal, privilege, category, steps)) return true;
    return within === true && this.#reachesWithin(principal, category, steps, steps.at(-1), steps.length === 0);
  }

  #note(principal: Principal, granted: Omit<Granted, 'path'>, steps: readonly PathObject[]): void {
    const recorded = this.#recorded.get(principal);
    if (!recorded) return;
    const one: Granted = { ...granted, path: steps.map(({ id, owner }) => ({ id, owner })) };
    const text = JSON.stringify(one);
    if (recorded.known.has(text)) return;
    recorded.known.add(text);
    recorded.all.push(one);
  }

  /** Throws FORBIDDEN: the same whether the thing is there or not. */
  authorize(
    principal: Principal,
    permission: Permission,
    place: AuthorizationTarget,
  ): GrantReach | Promise<GrantReach> {
    const { privilege } = permission;
    const { category, path, resolved: found } = place;
    if (permission.orSelf && this.isSelf(principal, place.path)) {
      this.#note(principal, { privilege, category, self: true }, nowhere);
      return 'all';
    }
    if (this.#recorded.has(principal)) return this.#look(principal, permission, place, '');
    const steps = found?.version === this.#version ? found.steps : nowhere;
    if (this.#coveredBySteps(principal, privilege, category, steps)) return 'all';
    const parentKey = path.length > 1 ? keyOf(path, path.length - 1) : '';
    const above = this.#parents.get(parentKey);
    if (above && this.#coveredBySteps(principal, privilege, category, above)) return 'all';
    return this.#look(principal, permission, place, parentKey);
  }

  /** The same as a question; for what handlers and statements need besides their endpoint's permission. */
  async isAllowed(principal: Principal, privilege: Privilege, place: AuthorizationTarget): Promise<boolean> {
    const steps = place.path.length === 0 ? [] : await this.#options.resolvePath(place.path);
    return this.isAllowedOn(principal, privilege, place.category, steps);
  }

  async require(principal: Principal, privilege: Privilege, place: AuthorizationTarget): Promise<void> {
    if (!(await this.isAllowed(principal, privilege, place))) throw forbidden(privilege, place);
  }

  /** The ids of the objects of a path, which a rename does not change; names where there is no object of the catalog. */
  async identityOf(path: readonly Segment[]): Promise<string[]> {
    const steps = path.length === 0 ? nowhere : await this.#options.resolvePath(path);
    return path.map(({ name }, i) => steps[i]?.id ?? name);
  }

  /** For a thing whose path was followed already. */
  isAllowedOn(principal: Principal, privilege: Privilege, category: string, steps: readonly PathObject[]): boolean {
    const may = this.#coveredBySteps(principal, privilege, category, steps);
    if (may) this.#note(principal, { privilege, category }, steps);
    return may;
  }

  /** The same for what only decides how much is shown: it is not recorded as something that the request needs. */
  isVisible(principal: Principal, privilege: Privilege, category: string, steps: readonly PathObject[]): boolean {
    return this.#coveredBySteps(principal, privilege, category, steps);
  }

  /** A token that is confined is not its user: it could make one that is not. */
  isSelf(principal: Principal, path: readonly Segment[]): boolean {
    const [first] = path;
    return (
      principal.scopes === undefined &&
      first?.category === 'users' &&
      this.#directory.userNamed(first.name)?.id === principal.id &&
      this.#directory.isActive(principal)
    );
  }

  /** What somebody submitted is theirs; what a confined token submitted also is that token's. */
  isSubmitter(principal: Principal, owner: Principal): boolean {
    if (principal.id !== owner.id || !this.#directory.isActive(principal)) return false;
    const isOwn = isWithin(principal.scopes, owner.scopes);
    const { scopes } = owner;
    if (isOwn)
      this.#note(
        principal,
        { privilege: 'own', category: 'users', self: true, ...(scopes ? { scopes } : {}) },
        nowhere,
      );
    return isOwn;
  }

  /** Which children a list shows to somebody who may not read all of what holds them. `steps`: the holder's path. */
  visibleChildren(principal: Principal, category: string, steps: readonly PathObject[]): VisibleChildren {
    const rights = this.#directory.rightsOf(principal);
    const { id, scopes } = principal;
    const granted = rights.readableIds();
    if (scopes === undefined) return { owner: id, ids: [...granted, id] };
    const scoped = this.#directory.rightsOfScopes(scopes);
    if (covers(scoped, 'read', category, steps)) return { owner: id, ids: granted };
    const ids = scoped.readableIds();
    const holder = covers(rights, 'read', category, steps) || this.#owns(principal, steps);
    const own = new Set(granted);
    return { ids, filter: (child) => holder || child.owner === id || own.has(child.id) };
  }

  async #look(
    principal: Principal,
    permission: Permission,
    place: AuthorizationTarget,
    parentKey: string,
  ): Promise<GrantReach> {
    const { privilege, orWithin } = permission;
    const { category, path } = place;
    const version = this.#version;
    const steps = path.length === 0 ? [] : await this.#options.resolvePath(path);
    const allowed = this.#coveredBySteps(principal, privilege, category, steps);
    // Kept only where it was allowed: how long a refusal takes does not tell whether the thing is there.
    if (allowed && version === this.#version && steps.length === path.length) {
      place.resolved = { version, steps };
      if (parentKey !== '') {
        if (this.#parents.size >= parentsMax) this.#parents.clear();
        this.#parents.set(parentKey, steps.slice(0, -1));
      }
    }
    if (allowed) {
      this.#note(principal, { privilege, category }, steps);
      return 'all';
    }
    const last = steps.length === path.length ? steps.at(-1) : undefined;
    if (orWithin && (await this.#reachesWithin(principal, category, steps, last, path.length === 0))) {
      this.#note(principal, { privilege, category, within: true }, steps);
      return 'within';
    }
    throw forbidden(privilege, place);
  }

  /** A top-level collection is no secret; any other thing has to hold something that one was granted or owns. */
  async #reachesWithin(
    principal: Principal,
    category: string,
    steps: readonly PathObject[],
    last: PathObject | undefined,
    isTop: boolean,
  ): Promise<boolean> {
    if (!this.#directory.isActive(principal)) return false;
    if (isTop) return true;
    const rights = this.#directory.rightsOf(principal);
    const inScope = last !== undefined && this.#scopesReachInto(principal, category, steps, last);
    if (
      inScope &&
      (rights.hasAnyWithin(last.id) || covers(rights, 'read', category, steps) || this.#owns(principal, steps))
    )
      return true;
    // Asked of nothing too: how long a refusal takes does not tell whether the thing is there.
    const owns = await this.#options.ownsDescendant(principal.id, last?.id ?? '');
    return inScope && owns;
  }

  #scopesReachInto({ scopes }: Principal, category: string, steps: readonly PathObject[], last: PathObject): boolean {
    if (scopes === undefined) return true;
    const scoped = this.#directory.rightsOfScopes(scopes);
    return scoped.hasAnyWithin(last.id) || covers(scoped, 'read', category, steps);
  }

  #coveredBySteps(principal: Principal, privilege: Privilege, category: string, steps: readonly PathObject[]): boolean {
    const rights = this.#directory.rightsOf(principal);
    const { scopes } = principal;
    if (scopes !== undefined && !covers(this.#directory.rightsOfScopes(scopes), privilege, category, steps))
      return false;
    return covers(rights, privilege, category, steps) || this.#owns(principal, steps);
  }

  #owns(principal: Principal, steps: readonly PathObject[]): boolean {
    for (const { owner } of steps) if (owner === principal.id) return this.#directory.isActive(principal);
    return false;
  }
}

/** A token that is confined has what another submitted where that is confined to the same. */
const isWithin = (scopes: Principal['scopes'], owned: Principal['scopes']) =>
  scopes === undefined || JSON.stringify(scopes) === JSON.stringify(owned);

function covers(rights: Rights, privilege: Privilege, category: string, steps: readonly PathObject[]): boolean {
  if (rights.isUnrestricted) return true;
  if (holds(rights.privilegesOnCollection(category), privilege)) return true;
  for (const { id } of steps) if (holds(rights.privilegesOn(id), privilege)) return true;
  return false;
}

/** Of the first `length` objects of a path; different paths have different ones, whatever is in the names. */
function keyOf(path: readonly Segment[], length: number): string {
  let key = '';
  for (let i = 0; i < length; i++) {
    const { category, name } = path[i] as Segment;
    key += `${category}/${name.length}/${name}`;
  }
  return key;
}

export function forbidden(
  privilege: Privilege,
  { category, path }: Pick<AuthorizationTarget, 'category' | 'path'>,
): Failure {
  const on = path.length === 0 ? `/api/v2/${category}` : uriOf('v2', path);
  return new Failure('FORBIDDEN', `this needs the privilege ${privilege} on ${on}`, { privilege, on });
}
