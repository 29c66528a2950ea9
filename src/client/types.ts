// The type of the client, which follows from the declarations in src/api: a function for each category, a method for each endpoint.
import type { categoriesApi } from '../api/categories.ts';
import type { DeclaredCategory, DeclaredEndpoint, TaskTypeOf } from '../api/declare.ts';
import type { BodyOf, RecordOf } from '../api/handlers.ts';
import type { TaskResultOf } from '../api/tasks/task_types.ts';
import type { CamelCase } from '../standard/camel_case.ts';
import type { Immutable, Static, TSchema } from '../standard/type.ts';
import type { List } from './list.ts';
import type { Submitted } from './task.ts';

export interface CallOptions {
  /** Cancels the call, its retries and its waits; the call rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** By default the client generates a key for every change except SQL statements, so that it can retry the change. False: no key. */
  readonly idempotencyKey?: string | false | undefined;
  /** The `ETag` of the record that the change requires. */
  readonly ifMatch?: string | undefined;
  /** In milliseconds, for one attempt, in addition to the `waitSeconds` of the request. */
  readonly timeoutMs?: number | undefined;
}

export interface CreateOptions extends CallOptions {
  /** `return`: an object that exists is returned as it is (PUT). By default that is an error (POST). */
  readonly ifExists?: 'fail' | 'return' | undefined;
}

type Categories = (typeof categoriesApi)[number];

type ChildrenOf<C extends DeclaredCategory> = Extract<Categories, { readonly parent: { readonly name: C['name'] } }>;
type TopCategories = Exclude<Categories, { readonly parent: DeclaredCategory }>;

/** A request as the caller may write it. */
type Sent<T> = Immutable<T>;

/** An action without a result always answers with a task. */
type ResultOf<C extends DeclaredCategory, E extends DeclaredEndpoint> = E['result'] extends TSchema
  ? Immutable<Static<E['result']>>
  : E['verb'] extends 'action'
    ? never
    : RecordOf<C>;
type ItemOf<C extends DeclaredCategory, E extends DeclaredEndpoint> = E['item'] extends TSchema
  ? Immutable<Static<E['item']>>
  : RecordOf<C>;

type IsPaged<E extends DeclaredEndpoint> = E['verb'] extends 'list'
  ? true
  : E['body'] extends { readonly properties: { readonly pageToken: TSchema } }
    ? true
    : false;

type TaskResult<E extends DeclaredEndpoint> = E['task'] extends string ? Immutable<TaskResultOf<TaskTypeOf<E>>> : never;
/** What a call returns: its result, or a task with a result of its own where the endpoint may answer with one. */
type Returned<E extends DeclaredEndpoint, T> = E['task'] extends string ? Submitted<T, TaskResult<E>> : Promise<T>;

type Created<T> = T & { readonly created: boolean };
type Conditional<E extends DeclaredEndpoint> = E['verb'] extends 'update'
  ? { readonly expectedVersion?: number }
  : E['on'] extends 'object'
    ? { readonly expectedVersion?: number }
    : unknown;

type Body<E extends DeclaredEndpoint> = E['verb'] extends 'create' ? Sent<BodyOf<E>> : Sent<BodyOf<E>> & Conditional<E>;
/** A body without a required field may be left out. */
type WithBody<B, Options> =
  Record<never, never> extends B ? [body?: B, options?: Options] : [body: B, options?: Options];
type WithQuery<E extends DeclaredEndpoint> = E['query'] extends TSchema
  ? [query?: Immutable<Static<E['query']>>, options?: CallOptions]
  : [options?: CallOptions];
export interface PageSize {
  /** How many items are fetched at once. */
  readonly pageSize?: number;
}

type Call<C extends DeclaredCategory, E extends DeclaredEndpoint> = E['verb'] extends 'list'
  ? (query?: PageSize, options?: CallOptions) => List<ItemOf<C, E>>
  : IsPaged<E> extends true
    ? (...args: WithBody<Omit<Sent<BodyOf<E>>, 'pageToken'>, CallOptions>) => List<ItemOf<C, E>>
    : E['verb'] extends 'get'
      ? (...args: WithQuery<E>) => Promise<ResultOf<C, E>>
      : E['verb'] extends 'delete'
        ? (...args: WithQuery<E>) => Returned<E, { readonly deleted: boolean }>
        : E['verb'] extends 'create'
          ? (...args: WithBody<Body<E>, CreateOptions>) => Returned<E, Created<ResultOf<C, E>>>
          : (...args: WithBody<Body<E>, CallOptions>) => Returned<E, ResultOf<C, E>>;

type Calls<C extends DeclaredCategory, On extends DeclaredEndpoint['on']> = {
  readonly [K in keyof C['endpoints'] & string as C['endpoints'][K]['on'] extends On ? CamelCase<K> : never]: Call<
    C,
    C['endpoints'][K]
  >;
};

export type ObjectClient<C extends DeclaredCategory> = Calls<C, 'object'> & {
  readonly [K in ChildrenOf<C> as CamelCase<K['name']>]: CollectionClient<K>;
};
export type CollectionClient<C extends DeclaredCategory> = ((name: string) => ObjectClient<C>) & Calls<C, 'collection'>;

/** The top-level categories, and `databases` of the catalog `default`. */
export type CategoryClients = {
  readonly [K in TopCategories as CamelCase<K['name']>]: CollectionClient<K>;
} & Pick<ObjectClient<Extract<Categories, { readonly name: 'catalogs' }>>, 'databases'>;
