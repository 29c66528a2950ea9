// What the handlers of a declared category are: functions by the name of the operation, whose input and answer follow from the
// declaration. A handler that returns another record, or reads a field that the body does not have, does not compile.
import type { Accepted, Created, Deleted, Done, Found, Input, Listed, Updated } from '../standard/endpoint.ts';
import type { Static, TSchema } from '../standard/type.ts';
import type { DeclaredCategory, DeclaredEndpoint } from './declare.ts';

/** The parameters in the path of an object. */
export type PathOf<C extends DeclaredCategory> = Readonly<Record<C['parameter'], string>> & ParentPathOf<C>;
/** The parameters in the path of a collection. */
export type ParentPathOf<C extends DeclaredCategory> = C['parent'] extends DeclaredCategory
  ? PathOf<C['parent']>
  : Readonly<Record<never, string>>;

/** A value as a handler answers it: nothing changes it any more. */
type Answered<T> = T extends object ? { readonly [K in keyof T]: Answered<T[K]> } : T;
type AnsweredObject<S extends TSchema> = Answered<Static<S>> & object;

export type RecordOf<C extends DeclaredCategory> = AnsweredObject<C['record']>;

/** The field of a create's body that names the object is not part of its schema: the path may name it instead. */
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

type InputOf<C extends DeclaredCategory, E extends DeclaredEndpoint> = Omit<Input<BodyOf<E>, QueryOf<E>>, 'path'> & {
  readonly path: E['on'] extends 'object' ? PathOf<C> : ParentPathOf<C>;
};

/** What an action answers: its declared result, or the record of its category. */
export type ResultOf<C extends DeclaredCategory, E extends DeclaredEndpoint> = E['result'] extends TSchema
  ? AnsweredObject<E['result']>
  : RecordOf<C>;
type IfAccepting<E extends DeclaredEndpoint> = E['mayAccept'] extends true ? Accepted : never;
/** An action that takes a page token answers as a list does. */
type Paged<E extends DeclaredEndpoint> = E['body'] extends { readonly properties: { readonly pageToken: TSchema } }
  ? true
  : false;

interface AnswerOf<C extends DeclaredCategory, E extends DeclaredEndpoint> {
  list: Listed<ItemOf<C, E>>;
  get: Found<ResultOf<C, E>>;
  create: Created<Omit<ResultOf<C, E>, 'created'>> | IfAccepting<E>;
  update: Updated<ResultOf<C, E>> | IfAccepting<E>;
  delete: Deleted | IfAccepting<E>;
  action:
    | (Paged<E> extends true
        ? Listed<ItemOf<C, E>>
        : E['creates'] extends true
          ? Created<ResultOf<C, E>>
          : Done<ResultOf<C, E>>)
    | IfAccepting<E>;
}
type ItemOf<C extends DeclaredCategory, E extends DeclaredEndpoint> = E['item'] extends TSchema
  ? AnsweredObject<E['item']>
  : RecordOf<C>;

export type Handlers<C extends DeclaredCategory, Context> = {
  readonly [K in keyof C['endpoints']]: (
    input: InputOf<C, C['endpoints'][K]>,
    context: Context,
  ) => Promise<AnswerOf<C, C['endpoints'][K]>[C['endpoints'][K]['verb']]>;
};
