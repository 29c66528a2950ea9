// Principals and actors as plain data: tasks store them, and run with the rights of their submitter. See access/ for those rights.
import type { Privilege } from './privileges.ts';

/** A privilege on an object and its descendants. */
export interface Scope {
  readonly privilege: Privilege;
  /** Ids of the object and its ancestors, root first. */
  readonly path: readonly string[];
}

export interface Principal {
  /** The id of the user, which a rename does not change and which is never reused. */
  readonly id: string;
  readonly name: string;
  /** Ids of roles asserted by the issuer of its token, in addition to its memberships. */
  readonly roles?: readonly string[];
  /** The scopes of its token; absent: all rights of the user. */
  readonly scopes?: readonly Scope[];
}

/** A successful authorization, which is repeated when the request is retried. */
export interface Granted {
  readonly privilege: Privilege;
  readonly category: string;
  /** Ids of the object and its ancestors, root first, with their owners at that time. */
  readonly path: readonly { readonly id: string; readonly owner: string }[];
  /** The privilege on a descendant of the object was sufficient. */
  readonly within?: true;
  /** The principal is the user in question. */
  readonly self?: true;
  /** With `self`: a token with the same scopes is sufficient. */
  readonly scopes?: readonly Scope[];
}

/** The idempotency key of a request, so that retries do not apply it again (rest-standard B6). */
export interface Guard {
  readonly owner: string;
  readonly key: string;
  /** Identifies this use of the key, which can be reused after a day. */
  readonly keyId: string;
  /** Identifies this attempt; absent if recovery completes the work of any attempt. */
  readonly attempt?: string;
  /** The authorizations of the attempt so far. */
  readonly granted?: readonly Granted[];
  /** The rows that an earlier attempt wrote in the engine, which this attempt confirms. */
  readonly applied?: AppliedWrite;
}

export interface AppliedWrite {
  readonly rowCount: number;
  readonly queryId: string;
}

/** An object and its version. */
export interface ObjectVersion {
  readonly objectId: string;
  readonly category: string;
  readonly name: string;
  readonly version: number;
}

/** A principal and its request, for the audit trail. */
export interface Actor {
  readonly id: string;
  readonly name: string;
  /** `tables.create`; absent for actions of the service itself. */
  readonly action?: string;
  readonly requestId?: string;
  readonly address?: string;
  /** The path of the request. */
  readonly target?: string;
  readonly guard?: Guard | undefined;
  /** The version of an object that a change of it requires (rest-standard B4); cleared after the first check. */
  expectedVersion?: ObjectVersion | undefined;
  /** Set when the audit trail has, or certainly will have, an event for the request. */
  audited?: boolean;
  /** The object that an engine was about to change: the event with the outcome names it, too. */
  begunObjectId?: string | undefined;
  /** Set before the first write for the request: no error before that has side effects. */
  writing?: boolean;
  /** Set when a change for the request has begun, which may be completed although a later step fails. */
  changing?: boolean;
  /** Set after a change for the request: a later failure cannot report that nothing was applied. */
  changed?: boolean;
}

/** The first user, who has all privileges; they cannot be revoked. */
export const rootPrincipal: Principal = { id: 'root', name: 'root' };
/** The service itself. */
export const systemActor: Actor = { id: 'system', name: 'system' };

/** Scopes as the store holds them. */
export const parseScopes = (json: string): Scope[] => JSON.parse(json);
