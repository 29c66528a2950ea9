// The types of the handlers of a declared category: functions by operation name, whose input and output are derived from the
// declaration. A handler that returns another record, or reads a field that the body does not have, does not compile.
import type {
  Accepted,
  Created,
  Deleted,
  Done,
  Found,
  Input,
  Listed,
  PathParameters,
  Segment,
  Updated,
} from '../standard/endpoint.ts';
import type { Sendable, Static, TSchema } from '../standard/type.ts';
import type { DeclaredCategory, DeclaredEndpoint, TaskTypeOf } from './declare.ts';

/** The parameters in the path of an object. */
export type PathOf<C extends DeclaredCategory> = Readonly<Record<C['parameter'], string>> & ParentPathOf<C>;
/** The parameters in the path of a collection. */
export type ParentPathOf<C extends DeclaredCategory> = C['parent'] extends DeclaredCategory
  ? PathOf<C['parent']>
  : Readonly<Record<never, string>>;

/** The path of an object of the category, root first. */
export type SegmentsOf<C extends DeclaredCategory> = readonly [...ParentSegmentsOf<C>, Segment<C['name']>];
/** The path of the object that contains a collection of the category. */
export type ParentSegmentsOf<C extends DeclaredCategory> = C['parent'] extends DeclaredCategory
  ? SegmentsOf<C['parent']> extends infer P extends readonly Segment[]
    ? P
    : never
  : readonly [];

/** The type of a value as a handler returns it. */
type AnsweredObject<S extends TSchema> = Sendable<Static<S>> & object;

export type RecordOf<C extends DeclaredCategory> = AnsweredObject<C['record']>;

/** The body field of a create that names the object is not part of its schema, because the path may name it instead. */
type Named<E extends DeclaredEndpoint> = E['verb'] extends 'create'
  ? E['named'] extends false
    ? unknown
    : E['nameField'] extends string
      ? unknown
      : E['nameOptional'] extends true
        ? { readonly name?: string }
        : { readonly name: string }
  : unknown;
export type BodyOf<E extends DeclaredEndpoint> = E['body'] extends TSchema ? Static<E['body']> & Named<E> : undefined;
type QueryOf<E extends DeclaredEndpoint> = E['query'] extends TSchema ? Static<E['query']> : undefined;

/** The path of a request: its parameters by name, and the objects on it, root first. */
interface ObjectPlace<C extends DeclaredCategory> {
  readonly path: PathOf<C>;
  readonly segments: SegmentsOf<C>;
}
interface ParentPlace<C extends DeclaredCategory> {
  readonly path: ParentPathOf<C>;
  readonly segments: ParentSegmentsOf<C>;
}
/** For an object of any category. */
interface AnyObjectPlace<S extends readonly Segment[] = readonly [Segment, ...Segment[]]> {
  readonly path: PathParameters;
  readonly segments: S;
}

type InputOf<E extends DeclaredEndpoint, Place> = Omit<Input<BodyOf<E>, QueryOf<E>>, keyof AnyObjectPlace> & Place;

/** The result of an endpoint: the declared one, or the record of its category. */
type ResultOf<E extends DeclaredEndpoint, R extends object> = E['result'] extends TSchema
  ? AnsweredObject<E['result']>
  : R;
type ItemOf<E extends DeclaredEndpoint, R extends object> = E['item'] extends TSchema ? AnsweredObject<E['item']> : R;
type IfAccepting<E extends DeclaredEndpoint> = E['task'] extends string ? Accepted<TaskTypeOf<E>> : never;
/** An action with a page token returns a page like a list. */
type Paged<E extends DeclaredEndpoint> = E['body'] extends { readonly properties: { readonly pageToken: TSchema } }
  ? true
  : false;

interface AnswerOf<E extends DeclaredEndpoint, R extends object> {
  list: Listed<ItemOf<E, R>>;
  get: Found<ResultOf<E, R>>;
  create: Created<Omit<ResultOf<E, R>, 'created'>> | IfAccepting<E>;
  update: Updated<ResultOf<E, R>> | IfAccepting<E>;
  delete: Deleted | IfAccepting<E>;
  action:
    | (Paged<E> extends true
        ? Listed<ItemOf<E, R>>
        : E['result'] extends TSchema
          ? E['creates'] extends true
            ? Created<AnsweredObject<E['result']>>
            : Done<AnsweredObject<E['result']>>
          : never)
    | IfAccepting<E>;
}

/** `R`: the record of the category. */
type Handler<E extends DeclaredEndpoint, R extends object, Place, Context> = (
  input: InputOf<E, Place>,
  context: Context,
) => Promise<AnswerOf<E, R>[E['verb']]>;

export type Handlers<C extends DeclaredCategory, Context> = {
  readonly [K in keyof C['endpoints']]: Handler<
    C['endpoints'][K],
    RecordOf<C>,
    C['endpoints'][K]['on'] extends 'object' ? ObjectPlace<C> : ParentPlace<C>,
    Context
  >;
};

/**
 * Handlers of operations that several categories share, and that declare their results. `S`: the path of the objects, or of the
 * parents of the collections, if all of them have a common beginning.
 */
export type SharedHandlers<
  E extends Readonly<Record<string, DeclaredEndpoint>>,
  Context,
  S extends readonly Segment[] = readonly [Segment, ...Segment[]],
> = {
  readonly [K in keyof E]: Handler<E[K], never, AnyObjectPlace<S>, Context>;
};
