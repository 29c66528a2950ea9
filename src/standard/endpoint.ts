// What a category and an endpoint are: data. The router, the validator, the OpenAPI document, the permission check, the
// client and the tests only read it. Handlers return an outcome and never see a status, a header or the HTTP framework.
import type { Privilege } from '../model/privileges.ts';
import type { Code } from './codes.ts';
import type { RecordBody } from './record_body.ts';
import type { Static, TObject, TSchema } from './type.ts';

export interface Permission {
  /** What grants it is access/'s business. */
  readonly privilege: Privilege;
  /**
   * What the privilege is needed on: the object that the path names, or the one that holds the collection. `target`: what the
   * request is about, which the handler finds out; a call whose handler did not ask for leave is an error of ours.
   */
  readonly on: 'object' | 'parent' | 'target';
  /** The privilege on something in it is enough: the handler then shows no more than that. */
  readonly orWithin?: true;
  /** To be the user whom the path names, or whose it is, is enough. */
  readonly orSelf?: true;
}

/** How an endpoint is reached and answered. All actions are POST. */
export type Verb = 'list' | 'get' | 'create' | 'update' | 'delete' | 'action';

export type ApiVersion = `v${number}`;

export type PathParameters = Readonly<Record<string, string>>;

/** What a handler is given. `uriOf` builds the URI of an object in the version of the API that was called. */
export interface Input<Body, Query> {
  readonly path: PathParameters;
  readonly body: Body;
  readonly query: Query;
  /** Of lists and searches: what comes after this key, at most so many. */
  readonly page: { readonly after?: string; readonly limit: number };
  /** `create` only: POST fails on an object that exists, PUT returns it. */
  readonly ifExists: 'fail' | 'return';
}

export type Found<T extends object = object> = { readonly outcome: 'found'; readonly record: RecordBody<T> };
export type Listed<T extends object = object> = {
  readonly outcome: 'listed';
  readonly items: readonly RecordBody<T>[];
  /** The field of the items, where it is not the category's. */
  readonly field?: string | undefined;
  /** The key of the last item, where there are more. */
  readonly next?: string | undefined;
};
export type Created<T extends object = object> = {
  readonly outcome: 'created';
  readonly record: T;
  readonly created: boolean;
  readonly uri: string;
};
export type Updated<T extends object = object> = { readonly outcome: 'updated'; readonly record: RecordBody<T> };
export type Deleted = { readonly outcome: 'deleted'; readonly deleted: boolean };
/** A task was submitted: its record, which names its `uri`. */
export type Accepted = { readonly outcome: 'accepted'; readonly task: object; readonly uri: string };
/** What an action answers when it is done. */
export type Done<T extends object = object> = {
  readonly outcome: 'done';
  readonly result: RecordBody<T>;
  /**
   * What a repetition with the same idempotency key gets, where that is not the result; null: nothing is stored, and it runs again. By
   * default null for what only reads.
   */
  readonly stored?: RecordBody | null;
};

export type Outcome = Found | Listed | Created | Updated | Deleted | Accepted | Done;

export interface OutcomeOf {
  list: Listed;
  get: Found;
  create: Created | Accepted;
  update: Updated | Accepted;
  delete: Deleted | Accepted;
  action: Done | Accepted | Listed | Created;
}

/** When an endpoint was announced to go away, and when it goes. As dates, such as `2027-06-30`. */
export interface Deprecation {
  readonly since: string;
  readonly sunset: string;
}

export interface Endpoint<Context = unknown> {
  readonly verb: Verb;
  /** The action's name; verbs that HTTP has a method for have none. */
  readonly action?: string;
  /** The name of the action in the audit trail and in documents, where its verb is also that of another endpoint. */
  readonly known?: string;
  readonly on: 'object' | 'collection';
  /** One sentence. */
  readonly summary: string;
  readonly description?: string;
  readonly permission: Permission;
  /** Codes of its own, beyond those that its shape can always answer (`commonCodes` in openapi.ts). */
  readonly codes: readonly Code[];
  readonly since: ApiVersion;
  /** The first version that does not have it. */
  readonly until?: ApiVersion;
  /** Its answers say so in headers, and the OpenAPI document marks it. */
  readonly deprecated?: Deprecation;
  readonly body?: TObject;
  /** Media types besides application/json, each with the body's field that takes the text. */
  readonly textBodies?: Readonly<Record<string, string>>;
  readonly bodyRequired?: boolean;
  readonly bodyBytesMax?: number;
  /** The field of the body that holds rows of a table. A large body's never reach the main thread: the handler gets a source of them. */
  readonly rowsIn?: string;
  /**
   * Whatever its body says, it runs a statement in the warehouse of its catalog: where the queue of that is full, it is refused before the
   * body is read.
   */
  readonly queued?: boolean;
  readonly query?: TObject;
  /** The answer's result, where it is not the category's record. */
  readonly result?: TSchema;
  /** Of lists and searches: the record of an item, where it is not the category's. */
  readonly item?: TObject;
  readonly example?: { readonly body?: unknown; readonly result?: unknown };
  /** What a call of it costs its caller (limits of rate); a GET costs 1. Without it, what its verb costs. */
  readonly cost?: number;
  /** Fields of its answer's result that are not kept for who sends the request again. */
  readonly secretFields?: readonly string[];
  /** `create` only. False: the collection takes POST alone (its members have no names to be idempotent by). */
  readonly named?: boolean;
  /** `create` only: the body need not have the name. */
  readonly nameOptional?: boolean;
  /** `create` only: the field of the body that the name in the path replaces, where it is not `name`. */
  readonly nameField?: string;
  /** It may answer 202 with a task instead. */
  readonly mayAccept?: boolean;
  /** A change that is served on a disk that is almost full: it takes little space, and may free some. Deletes are. */
  readonly freesSpace?: boolean;
  /** An action that makes an object: it answers 201. */
  readonly creates?: boolean;
  handle(input: Input<never, never>, context: Context): Promise<Outcome>;
}

/** What a call costs its caller, where the endpoint does not say. */
const costs: Readonly<Record<Verb, number>> = { get: 1, list: 2, create: 10, update: 10, delete: 10, action: 5 };

export function costOf<Context>(endpoint: Endpoint<Context>): number {
  return endpoint.cost ?? costs[endpoint.verb];
}

/** Whether it answers in pages: every list, and the searches whose body takes a page token. */
export function isPaged<Context>({ verb, body }: Endpoint<Context>): boolean {
  return verb === 'list' || body?.properties.pageToken !== undefined;
}

/**
 * Whether `If-Match` counts (rest-standard B4): PATCH, DELETE and actions. Of those that take a body on an object, also
 * `expectedVersion` in it.
 */
export function isConditional<Context>({ verb }: Endpoint<Context>): boolean {
  return verb === 'update' || verb === 'delete' || verb === 'action';
}

/** The field of a create's body that holds the name of the object. */
export const nameFieldOf = ({ nameField = 'name' }: Pick<Endpoint, 'nameField'>): string => nameField;

export function takesExpectedVersion<Context>({ verb, on, body }: Endpoint<Context>): boolean {
  return body !== undefined && (verb === 'update' || (verb === 'action' && on === 'object'));
}

/** Whether an idempotency key counts: on POST, PUT, PATCH, DELETE and actions (rest-standard B6). */
export function takesKey<Context>({ verb }: Pick<Endpoint<Context>, 'verb'>): boolean {
  return verb !== 'get' && verb !== 'list';
}

/** Whether a call of it can change something; an action that needs but to read does not, unless it makes an object. */
export function changes<Context>(endpoint: Endpoint<Context>): boolean {
  const { verb, permission, creates } = endpoint;
  // A search needs `own` where others' records are secret.
  if (verb === 'action') return (permission.privilege !== 'read' && !isPaged(endpoint)) || creates === true;
  return verb !== 'get' && verb !== 'list';
}

/** Whether it is refused on a disk that is almost full. */
export function takesSpace<Context>(endpoint: Endpoint<Context>): boolean {
  return changes(endpoint) && endpoint.verb !== 'delete' && endpoint.freesSpace !== true;
}

/** Whether no call of it can leave anything behind. What may submit a task can, and so can SQL, which only its text tells apart. */
export function readsOnly<Context>(endpoint: Endpoint<Context>): boolean {
  return !changes(endpoint) && endpoint.mayAccept !== true;
}

export interface Category<Context = unknown> {
  /** Lower snake_case, last word plural; unique in the whole API, but that leaves may share it under different parents. */
  readonly name: string;
  readonly singular: string;
  readonly title: string;
  readonly doc: string;
  /** The path parameter that holds an object's name. */
  readonly parameter: string;
  /** The field of the record that identifies it in its collection, where it is not `name`. */
  readonly idField?: string;
  readonly parent?: string;
  /** Also served without the parent's segments, which then mean the parent object of this name (rest-standard A1). */
  readonly parentDefault?: string;
  readonly record: TObject;
  readonly example: Readonly<Record<string, unknown>>;
  readonly endpoints: readonly Endpoint<Context>[];
}

/** What is declared of an endpoint whatever its verb is. */
export type CommonDeclaration = Pick<Endpoint, 'summary' | 'permission'> &
  Partial<
    Pick<
      Endpoint,
      | 'codes'
      | 'since'
      | 'until'
      | 'deprecated'
      | 'description'
      | 'result'
      | 'item'
      | 'example'
      | 'mayAccept'
      | 'freesSpace'
      | 'creates'
      | 'bodyBytesMax'
      | 'rowsIn'
      | 'queued'
      | 'cost'
      | 'secretFields'
      | 'known'
    >
  >;

type Body<S> = S extends TSchema ? Static<S> : undefined;
type Handler<V extends Verb, B, Q, Context> = (
  input: Input<Body<B>, Body<Q>>,
  context: Context,
) => Promise<OutcomeOf[V]>;

/**
 * The way to declare endpoints: one function a verb, so that a handler can only return what its verb can answer.
 * `around` is what every handler that may change something runs in.
 */
export function endpointsFor<Context>(
  around: <T>(work: () => Promise<T>, context: Context) => Promise<T> = (work) => work(),
) {
  const finish = <V extends Verb>(
    verb: V,
    on: Endpoint['on'],
    declared: CommonDeclaration & { handle: unknown; action?: string },
  ) => {
    const own = declared.handle as Endpoint<Context>['handle'];
    const changing: Endpoint<Context>['handle'] = (input, context) => around(() => own(input, context), context);
    const handle = verb === 'list' || verb === 'get' ? own : changing;
    return { codes: [], since: 'v2', ...declared, verb, on, handle } as unknown as Endpoint<Context>;
  };
  return {
    list: <Q extends TObject | undefined = undefined>(
      declared: CommonDeclaration & { query?: Q; handle: Handler<'list', undefined, Q, Context> },
    ) => finish('list', 'collection', declared),
    get: <Q extends TObject | undefined = undefined>(
      declared: CommonDeclaration & { query?: Q; handle: Handler<'get', undefined, Q, Context> },
    ) => finish('get', 'object', declared),
    create: <B extends TObject>(
      declared: CommonDeclaration & { body: B; handle: Handler<'create', B, undefined, Context> } & Pick<
          Endpoint,
          'named' | 'nameOptional' | 'nameField' | 'textBodies' | 'bodyRequired'
        >,
    ) => finish('create', 'collection', declared),
    update: <B extends TObject>(
      declared: CommonDeclaration & { body: B; handle: Handler<'update', B, undefined, Context> },
    ) => finish('update', 'object', { ...declared, bodyRequired: true } as never),
    remove: <Q extends TObject | undefined = undefined>(
      declared: CommonDeclaration & { query?: Q; handle: Handler<'delete', undefined, Q, Context> },
    ) => finish('delete', 'object', declared),
    action: <B extends TObject>(
      action: string,
      declared: CommonDeclaration & {
        on: 'object' | 'collection';
        body: B;
        bodyRequired?: boolean;
        handle: Handler<'action', B, undefined, Context>;
      },
    ) => finish('action', declared.on, { ...declared, action }),
  };
}
