// The context of a running request: what its handler receives, and the actor that the audit trail records.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Session } from '../access/authentication/authenticator.ts';
import type { Authorization, GrantReach, PathObject } from '../access/authorization/authorizer.ts';
import type { RefusedCaller } from '../engines/retry_queue.ts';
import type { Actor, Guard, ObjectVersion, Principal } from '../model/principal.ts';
import type { ApiVersion } from '../standard/endpoint.ts';

/** The part of a request that handlers see. */
export interface Call {
  readonly principal: Principal;
  readonly session: Session;
  /** The principal in this request, for the audit trail. */
  readonly actor: Actor;
  readonly requestId: string;
  readonly version: ApiVersion;
  /** `within`: the caller may read some descendants of the object in the path, but not all of it. */
  readonly reach: GrantReach;
  /** Aborted when the client disconnects before the response is sent, or when its credentials are revoked. */
  readonly signal: AbortSignal;
  /** Identifies a caller that a warehouse refused, by its connection, when it retries. */
  readonly caller?: RefusedCaller | undefined;
  /** Call it before each attempt at a change; throws when the object is not in the state that the caller expects. */
  checkPrecondition?: (() => Promise<void>) | undefined;
  /** Call it after a wait; throws what the request fails with if its credentials or its rights have ended. */
  authorizeAgain?: (() => Promise<void> | undefined) | undefined;
  /** Authorization has taken place. For endpoints whose permission is on a `target`, the handler sets it. */
  permitted: boolean;
}

/** A class, because V8 creates a new hidden class for each object literal with a getter, and these outlive the request. */
export class RequestContext implements Call {
  readonly principal: Principal;
  session: Session;
  readonly actor: CallActor;
  readonly requestId: string;
  readonly version: ApiVersion;
  reach: GrantReach = 'all';
  checkPrecondition: (() => Promise<void>) | undefined = undefined;
  authorizeAgain: (() => Promise<void> | undefined) | undefined = undefined;
  /** The objects of the path on which it was authorized, and the generation of the authorizer then. */
  objects: readonly PathObject[] = [];
  generation = -1;
  permitted = false;
  revoked = false;
  /** Its index in RequestContexts. */
  index = -1;
  readonly #outgoing: ServerResponse;
  #controller: AbortController | undefined;

  /** Whether its connection is that of another server, which has many callers. */
  readonly isForwarded: boolean;

  constructor(
    session: Session,
    actor: CallActor,
    version: ApiVersion,
    outgoing: ServerResponse,
    { isKeyed, isForwarded }: { readonly isKeyed: boolean; readonly isForwarded: boolean },
  ) {
    // Authorization decisions of a request with an idempotency key are recorded by principal object, so the request gets its own copy.
    this.principal = isKeyed ? { ...session.principal } : session.principal;
    this.session = session;
    this.actor = actor;
    this.requestId = actor.requestId as string;
    this.version = version;
    this.isForwarded = isForwarded;
    this.#outgoing = outgoing;
  }

  get signal(): AbortSignal {
    this.#controller ??= disconnection(this.#outgoing);
    if (this.revoked) this.#controller.abort();
    return this.#controller.signal;
  }

  get caller(): RefusedCaller | undefined {
    if (this.isForwarded) return undefined;
    const { socket } = this.#outgoing.req;
    const existing = callers.get(socket);
    if (existing) return existing;
    const caller: RefusedCaller = { since: undefined, due: undefined };
    callers.set(socket, caller);
    socket.once('close', () => caller.disconnected?.());
    return caller;
  }

  get incoming(): IncomingMessage {
    return this.#outgoing.req;
  }

  permit({ reach, objects }: Authorization, generation: number): void {
    this.reach = reach;
    this.objects = objects;
    this.generation = generation;
    this.permitted = true;
  }

  /** Aborts the request because its credentials are no longer valid. */
  revoke(): void {
    this.revoked = true;
    this.#controller?.abort();
  }
}

const callers = new WeakMap<Socket, RefusedCaller>();

/** The running requests. On removal the last one moves into the free index: a Set would reallocate its table again and again. */
export class RequestContexts {
  readonly all: RequestContext[] = [];

  add(call: RequestContext): void {
    call.index = this.all.length;
    this.all.push(call);
  }

  remove(call: RequestContext): void {
    const last = this.all.pop();
    if (last === undefined || last === call) return;
    this.all[call.index] = last;
    last.index = call.index;
  }
}

/** The actor of a request, filled in as it becomes known; the audit trail records it. */
export class CallActor implements Actor {
  id = '';
  name = '';
  audited = false;
  writing = false;
  changing = false;
  changed = false;
  guard: Guard | undefined = undefined;
  expectedVersion: ObjectVersion | undefined = undefined;
  readonly action: string;
  readonly requestId: string;
  readonly address: string;
  readonly target: string;

  constructor(action: string, requestId: string, address: string, target: string) {
    this.action = action;
    this.requestId = requestId;
    this.address = address;
    this.target = target;
  }
}

function disconnection(outgoing: ServerResponse): AbortController {
  const controller = new AbortController();
  if (outgoing.destroyed) controller.abort();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) controller.abort();
  });
  return controller;
}
