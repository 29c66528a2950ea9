// Categories and endpoints as data. The router, the validator, the OpenAPI document, the permission check, the client and the tests read
// these definitions. Handlers return an outcome and never see a status, a header or the HTTP framework.
import type { EngineCapability } from '../model/engine_capabilities.ts';
import type { Privilege } from '../model/privileges.ts';
import type { Code } from './codes.ts';
import type { RecordBody } from './record_body.ts';
import type { TObject, TSchema } from './type.ts';

export interface Permission {
  /** See access/ for how it is granted. */
  readonly privilege: Privilege;
  /**
   * What the privilege applies to: the object in the path, or the parent of the collection. `target`: an object that the handler
   * determines and authorizes itself; a handler that does not is a defect. `caller`: what belongs to the caller, which no privilege makes
   * accessible to anybody else; the handler finds nothing else.
   */
  readonly on: 'object' | 'parent' | 'target' | 'caller';
  /** The privilege on a descendant is sufficient: the handler then shows only such descendants. */
  readonly orWithin?: true;
  /** Being the user in the path, or the owner of the object, is sufficient. */
  readonly orSelf?: true;
}

/** Determines the method and the response of an endpoint. All actions are POST. */
export type Verb = 'list' | 'get' | 'create' | 'update' | 'delete' | 'action';

export type ApiVersion = `v${number}`;

export type PathParameters = Readonly<Record<string, string>>;

/** The id of the object on which a request was authorized: look-ups find no other object that has its name by then. */
export const authorizedId: unique symbol = Symbol('authorizedId');

/** A step of a path: a category, and the name of the object in it. */
export interface Segment<C extends string = string> {
  readonly category: C;
  readonly name: string;
  readonly [authorizedId]?: string | undefined;
}

/** The input of a handler. */
export interface Input<Body, Query> {
  readonly path: PathParameters;
  /** The segments of the path, root first, with defaults filled in: of the object, or of the parent of the collection. */
  readonly segments: readonly Segment[];
  readonly body: Body;
  readonly query: Query;
  /** For lists and searches: at most `limit` items after the key `after`. */
  readonly page: { readonly after?: string; readonly limit: number };
  /** `create` only: for an existing object, POST fails and PUT returns it. */
  readonly ifExists: 'fail' | 'return';
}

/** For a handler of a GET that is called on behalf of another request. */
export const inputOfGet = (path: PathParameters, segments: readonly Segment[]): Input<undefined, object> => ({
  path,
  segments,
  body: undefined,
  query: {},
  page: { limit: 1 },
  ifExists: 'fail',
});

export type Found<T extends object = object> = { readonly outcome: 'found'; readonly record: RecordBody<T> };
export type Listed<T extends object = object> = {
  readonly outcome: 'listed';
  readonly items: readonly RecordBody<T>[];
  /** The field that has the items, if it is not the category's. */
  readonly field?: string | undefined;
  /** The key of the last item, if there are more pages. */
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
/** A task was submitted: its record, which includes its `uri`. */
export type Accepted<T extends string = string> = {
  readonly outcome: 'accepted';
  readonly task: { readonly type: T };
  readonly uri: string;
};
/** The result of a completed action. */
export type Done<T extends object = object> = {
  readonly outcome: 'done';
  readonly result: RecordBody<T>;
  /**
   * The response to a retry with the same idempotency key, if it differs from the result; null: nothing is stored and a retry runs
   * again, which is the default for actions that only read.
   */
  readonly stored?: RecordBody | null;
};

export type Outcome = Found | Listed | Created | Updated | Deleted | Accepted | Done;

/** The dates on which an endpoint was deprecated and will be removed, such as `2027-06-30`. */
export interface Deprecation {
  readonly since: string;
  readonly sunset: string;
}

/** A capability that the engine of the warehouse must have. */
export interface CapabilityNeed {
  readonly capability: EngineCapability;
  /** The calls that need it, if not all do; the handler refuses these. Completes "needed by calls ...". */
  readonly when?: string;
}

export interface Endpoint<Context = unknown> {
  readonly verb: Verb;
  /** The name of an action; other verbs have none. */
  readonly action?: string;
  /** The name in the audit trail and in documents, if another endpoint has the same verb. */
  readonly auditName?: string;
  readonly on: 'object' | 'collection';
  /** One sentence. */
  readonly summary: string;
  readonly description?: string;
  readonly permission: Permission;
  /** Codes specific to this endpoint, in addition to those that follow from its shape (see openapi/endpoint_codes.ts). */
  readonly codes: readonly Code[];
  /** Calls of which the engine lacks a capability are refused with NOT_SUPPORTED_BY_ENGINE. */
  readonly needs?: readonly CapabilityNeed[];
  readonly since: ApiVersion;
  /** The first version without this endpoint. */
  readonly until?: ApiVersion;
  /** Announced in the headers of its responses and in the OpenAPI document. */
  readonly deprecated?: Deprecation;
  readonly body?: TObject;
  /** Media types in addition to application/json, each with the body field that receives the text. */
  readonly textBodies?: Readonly<Record<string, string>>;
  readonly bodyRequired?: boolean;
  readonly bodyBytesMax?: number;
  /** The body field with rows of a table. Rows of a large body never reach the main thread: the handler receives a row source. */
  readonly rowsIn?: string;
  /**
   * It always runs a statement in the warehouse of its catalog: when the queue of the warehouse is full, the request is refused before
   * the body is read.
   */
  readonly queued?: boolean;
  readonly query?: TObject;
  /** The schema of the result, if it is not the category's record. An action without one always responds with a task (202). */
  readonly result?: TSchema;
  /** For lists and searches: the record of an item, if it is not the category's. */
  readonly item?: TObject;
  readonly example?: { readonly body?: unknown; readonly result?: unknown };
  /** The cost of a call against the rate limits; a GET costs 1. The default depends on the verb. */
  readonly cost?: number;
  /** Fields of the result that are not stored for retries. */
  readonly secretFields?: readonly string[];
  /** `create` only. False: the collection supports POST only, because its members have no names that would make PUT idempotent. */
  readonly named?: boolean;
  /** `create` only: the name in the body is optional. */
  readonly nameOptional?: boolean;
  /** `create` only: the body field that the name in the path replaces, if it is not `name`. */
  readonly nameField?: string;
  /** The type of the task with which it may respond (202) instead. */
  readonly task?: string;
  /** A change that is permitted when the disk is almost full, because it needs little space or frees some. Deletes always are. */
  readonly freesSpace?: boolean;
  /** An action that creates an object and responds with 201. */
  readonly creates?: boolean;
  /** An action on an object that schedules may request: with `waitSeconds` 0, or without that field, it always responds with a task. */
  readonly schedulable?: boolean;
  handle(input: Input<unknown, unknown>, context: Context): Promise<Outcome>;
}

/** What an endpoint does, in the names of operations and in audit records: `create`, `rename`. */
export const actionOf = ({ auditName, action, verb }: Pick<Endpoint, 'auditName' | 'action' | 'verb'>): string =>
  auditName ?? action ?? verb;

/** The default cost of a call. */
const costs: Readonly<Record<Verb, number>> = { get: 1, list: 2, create: 10, update: 10, delete: 10, action: 5 };

export function costOf<Context>(endpoint: Endpoint<Context>): number {
  return endpoint.cost ?? costs[endpoint.verb];
}

/** Whether the response is paged: every list, and searches with a page token in the body. */
export function isPaged({ verb, body }: Pick<Endpoint, 'verb' | 'body'>): boolean {
  return verb === 'list' || body?.properties.pageToken !== undefined;
}

/**
 * Whether `If-Match` applies (rest-standard B4): to PATCH, DELETE and actions. Those with a body on an object also accept
 * `expectedVersion` in it.
 */
export function isConditional({ verb }: Pick<Endpoint, 'verb'>): boolean {
  return verb === 'update' || verb === 'delete' || verb === 'action';
}

/** The field in the body of a create that has the name of the object. */
export const nameFieldOf = ({ nameField = 'name' }: Pick<Endpoint, 'nameField'>): string => nameField;

export function acceptsExpectedVersion({ verb, on, body }: Pick<Endpoint, 'verb' | 'on' | 'body'>): boolean {
  return body !== undefined && (verb === 'update' || (verb === 'action' && on === 'object'));
}

/** Whether an idempotency key applies: to POST, PUT, PATCH, DELETE and actions (rest-standard B6). */
export function acceptsIdempotencyKey({ verb }: Pick<Endpoint, 'verb'>): boolean {
  return verb !== 'get' && verb !== 'list';
}

/** Whether a call can change something; an action with the `read` privilege cannot, unless it creates an object. */
export function isMutation(endpoint: Pick<Endpoint, 'verb' | 'body' | 'permission' | 'creates'>): boolean {
  const { verb, permission, creates } = endpoint;
  // Searches over confidential records require the `own` privilege, yet change nothing.
  if (verb === 'action') return (permission.privilege !== 'read' && !isPaged(endpoint)) || creates === true;
  return verb !== 'get' && verb !== 'list';
}

/** Whether it is refused when the disk is almost full. */
export function needsDiskSpace<Context>(endpoint: Endpoint<Context>): boolean {
  return isMutation(endpoint) && endpoint.verb !== 'delete' && endpoint.freesSpace !== true;
}

/** Whether no call can have side effects. Endpoints that may submit a task can have them, and so can SQL, depending on its text. */
export function isReadOnly<Context>(endpoint: Endpoint<Context>): boolean {
  return !isMutation(endpoint) && endpoint.task === undefined;
}

export interface Category<Context = unknown> {
  /** Lower snake_case, last word plural; unique in the API, except that categories without children may share it under different parents. */
  readonly name: string;
  readonly singular: string;
  readonly title: string;
  readonly doc: string;
  /** The path parameter for the name of an object. */
  readonly parameter: string;
  /** The record field that identifies an object in its collection, if it is not `name`. */
  readonly idField?: string;
  readonly parent?: string;
  /** The parent object that is implied when the path omits the parent's segments (rest-standard A1). */
  readonly parentDefault?: string;
  /** Privileges can be granted on its objects. */
  readonly securable?: boolean;
  readonly record: TObject;
  /** The stored form of its objects, if they are in a database and have no part in an engine: backups contain it. */
  readonly spec?: TObject;
  readonly example: Readonly<Record<string, unknown>>;
  readonly endpoints: readonly Endpoint<Context>[];
}

/** The properties that endpoints of all verbs declare. */
export type CommonDeclaration = Pick<Endpoint, 'summary' | 'permission'> &
  Partial<
    Pick<
      Endpoint,
      | 'codes'
      | 'needs'
      | 'since'
      | 'until'
      | 'deprecated'
      | 'description'
      | 'result'
      | 'item'
      | 'example'
      | 'task'
      | 'freesSpace'
      | 'creates'
      | 'schedulable'
      | 'bodyBytesMax'
      | 'rowsIn'
      | 'queued'
      | 'cost'
      | 'secretFields'
      | 'auditName'
    >
  >;
