// A call while it runs: what its handler is given, and by whom and for what it was made, as the audit trail wants it.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Session } from '../access/authentication/authenticator.ts';
import type { GrantReach } from '../access/authorization/authorizer.ts';
import type { RefusedCaller } from '../engines/returns.ts';
import type { Actor, Basis, Guard, Principal } from '../model/principal.ts';
import type { ApiVersion } from '../standard/endpoint.ts';

/** What a handler's context is made from. */
export interface Call {
  readonly principal: Principal;
  readonly session: Session;
  /** The principal in this request, for what is written down about it. */
  readonly actor: Actor;
  readonly requestId: string;
  readonly version: ApiVersion;
  /** `within`: the caller may not read all of what the path names, but something in it. */
  readonly reach: GrantReach;
  /** Aborted when the client goes away before it has its answer, or its credentials become void. */
  readonly signal: AbortSignal;
  /** By what a warehouse that refused the caller knows it again: its connection. */
  readonly caller?: RefusedCaller | undefined;
  /** To be called before each attempt at a change; throws where the object is not in the state that the caller expects. */
  checkPrecondition?: (() => Promise<void>) | undefined;
  /** The handler has asked for leave itself: for endpoints whose permission is on a `target`. */
  permitted: boolean;
}

/** A class, because an object literal with a getter makes V8 a new hidden class each time, which outlives the request. */
export class RequestContext implements Call {
  readonly principal: Principal;
  readonly session: Session;
  readonly actor: CallActor;
  readonly requestId: string;
  readonly version: ApiVersion;
  reach: GrantReach = 'all';
  checkPrecondition: (() => Promise<void>) | undefined = undefined;
  permitted = false;
  revoked = false;
  /** Where it is among those that run. */
  at = -1;
  readonly #outgoing: ServerResponse;
  #controller: AbortController | undefined;

  constructor(session: Session, actor: CallActor, version: ApiVersion, outgoing: ServerResponse, isKeyed: boolean) {
    // What is decided for a keyed request is recorded by its principal, which therefore is an object of its own.
    this.principal = isKeyed ? { ...session.principal } : session.principal;
    this.session = session;
    this.actor = actor;
    this.requestId = actor.requestId as string;
    this.version = version;
    this.#outgoing = outgoing;
  }

  get signal(): AbortSignal {
    this.#controller ??= disconnection(this.#outgoing);
    if (this.revoked) this.#controller.abort();
    return this.#controller.signal;
  }

  get caller(): RefusedCaller {
    const { socket } = this.#outgoing.req;
    const known = callers.get(socket);
    if (known) return known;
    const caller: RefusedCaller = { since: undefined, due: undefined };
    callers.set(socket, caller);
    socket.once('close', () => caller.disconnected?.());
    return caller;
  }

  permit(reach: GrantReach): void {
    this.reach = reach;
    this.permitted = true;
  }

  /** Its credentials are no longer good: what it waits for is stopped. */
  revoke(): void {
    this.revoked = true;
    this.#controller?.abort();
  }
}

const callers = new WeakMap<Socket, RefusedCaller>();

/** Those that run. A list in which the last takes the room of one that ends: a set would be made anew all the time. */
export class RequestContexts {
  readonly all: RequestContext[] = [];

  add(call: RequestContext): void {
    call.at = this.all.length;
    this.all.push(call);
  }

  remove(call: RequestContext): void {
    const last = this.all.pop();
    if (last === undefined || last === call) return;
    this.all[call.at] = last;
    last.at = call.at;
  }
}

/** Who asks and what for, as far as it is known; then a line of the audit trail. */
export class CallActor implements Actor {
  id = '';
  name = '';
  audited = false;
  writing = false;
  changed = false;
  guard: Guard | undefined = undefined;
  basis: Basis | undefined = undefined;
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
