// Who acts, as plain data: a task keeps it, and does later what its submitter may. What that is, access/ works out.
import type { Privilege } from './privileges.ts';

/** A privilege on an object and all that is in it. */
export interface Scope {
  readonly privilege: Privilege;
  /** Ids of the object and of what it is in, root first. */
  readonly path: readonly string[];
}

export interface Principal {
  /** Of the user; it stays when the user is renamed, and is never used again. */
  readonly id: string;
  readonly name: string;
  /** Ids of roles that the issuer of its token vouches for, besides those that it is a member of. */
  readonly roles?: readonly string[];
  /** What its token is confined to; absent: all that the user may. */
  readonly scopes?: readonly Scope[];
}

/** A decision that allowed something, as it has to be made again for who sends a request again. */
export interface Granted {
  readonly privilege: Privilege;
  readonly category: string;
  /** Ids of the object and of what it is in, root first, with their owners at that time. */
  readonly path: readonly { readonly id: string; readonly owner: string }[];
  /** The privilege on something in the object was enough. */
  readonly within?: true;
  /** The principal is the user in question. */
  readonly self?: true;
  /** With `self`: a token that is confined to the same is enough. */
  readonly scopes?: readonly Scope[];
}

/** A request that is done once however often it is sent (rest-standard B6). */
export interface Guard {
  readonly owner: string;
  readonly key: string;
  /** Of this use of the key: the key may be used again a day later. */
  readonly keyId: string;
  /** Of this attempt; absent where recovery completes the work of any. */
  readonly attempt?: string;
  /** What the attempt was authorized for so far. */
  readonly granted?: readonly Granted[];
  /** An earlier attempt wrote these rows in the engine: this one confirms it. */
  readonly applied?: AppliedWrite;
}

export interface AppliedWrite {
  readonly rowCount: number;
  readonly queryId: string;
}

/** An object and its version. */
export interface Basis {
  readonly objectId: string;
  readonly category: string;
  readonly name: string;
  readonly version: number;
}

/** A principal with the request in which it acts, for the audit trail. */
export interface Actor {
  readonly id: string;
  readonly name: string;
  /** `tables.create`; absent for what the service does by itself. */
  readonly action?: string;
  readonly requestId?: string;
  readonly address?: string;
  /** The path of the request. */
  readonly target?: string;
  readonly guard?: Guard | undefined;
  /** The state of an object that a change of it has to find (rest-standard B4); cleared once it was found. */
  basis?: Basis | undefined;
  /** Set once the audit trail has, or surely will have, a line about what it does. */
  audited?: boolean;
  /** Set before the first write for the request: an error before that leaves nothing behind, whatever it is. */
  writing?: boolean;
  /** Set once a change was made for the request: a failure after that cannot report that nothing was applied. */
  changed?: boolean;
}

/** The first user, who may do everything and cannot be taken that from. */
export const rootPrincipal: Principal = { id: 'root', name: 'root' };
/** The service itself. */
export const systemActor: Actor = { id: 'system', name: 'system' };
