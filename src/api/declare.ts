// Declares a category as data whose type preserves every declared detail, so that its handlers (handlers.ts) and its client are
// typed by it. Loads in a browser: no declaration imports anything of Node.js.
import type { Category, CommonDeclaration, Endpoint } from '../standard/endpoint.ts';
import type { TObject } from '../standard/type.ts';
import type { TaskType } from './tasks/task_types.ts';

/** `any`: a task of a type that the object on which the action is called determines. */
type Responding = { readonly task?: TaskType | 'any' };

/** The types of the tasks with which an endpoint may respond. */
export type TaskTypeOf<E extends { readonly task?: string }> = E['task'] extends TaskType ? E['task'] : TaskType;

/** An endpoint without its handler. `codes`: none by default; `since`: v2 by default. */
export type DeclaredEndpoint = Omit<Endpoint, 'handle' | 'codes' | 'since' | 'task'> &
  Partial<Pick<Endpoint, 'codes' | 'since'>> &
  Responding;

/** `endpoints`: by operation name; for an action this is also the last segment of its path. */
export interface DeclaredCategory extends Omit<Category, 'endpoints' | 'parent'> {
  readonly parent?: DeclaredCategory;
  readonly endpoints: Readonly<Record<string, DeclaredEndpoint>>;
}

type Reached = Pick<Endpoint, 'verb' | 'on'>;
type Common = Omit<CommonDeclaration, 'task'> & Responding;
type WithQuery = Common & Pick<Endpoint, 'query'>;
type WithBody = Common & { readonly body: TObject };
type Creating = WithBody & Pick<Endpoint, 'named' | 'nameOptional' | 'nameField' | 'textBodies' | 'bodyRequired'>;
/**
 * `action`: the last segment of the path, if it differs from the name of the operation. With `task` and without `result` it always
 * responds with a task (202).
 */
type Acting = WithBody &
  Pick<Endpoint, 'action' | 'bodyRequired'> &
  (Required<Pick<Endpoint, 'result'>> | Required<Responding>);

const declared = <const R extends Reached, const E>(reached: R, endpoint: E): E & R => ({ ...endpoint, ...reached });

/** Type parameters accept values with more properties than their constraint; with this type, unknown properties do not compile. */
type Exact<T, Shape> = T & { readonly [K in Exclude<keyof T, keyof Shape>]: never };

export const category = <const C extends DeclaredCategory>(declaration: Exact<C, DeclaredCategory>): C => declaration;
export const list = <const E extends WithQuery>(endpoint: Exact<E, WithQuery>) =>
  declared({ verb: 'list', on: 'collection' }, endpoint);
export const get = <const E extends WithQuery>(endpoint: Exact<E, WithQuery>) =>
  declared({ verb: 'get', on: 'object' }, endpoint);
export const create = <const E extends Creating>(endpoint: Exact<E, Creating>) =>
  declared({ verb: 'create', on: 'collection' }, endpoint);
export const update = <const E extends WithBody>(endpoint: Exact<E, WithBody>) =>
  declared({ verb: 'update', on: 'object' }, { bodyRequired: true, ...endpoint } as const);
export const remove = <const E extends WithQuery>(endpoint: Exact<E, WithQuery>) =>
  declared({ verb: 'delete', on: 'object' }, endpoint);
export const action = <const O extends Endpoint['on'], const E extends Acting>(on: O, endpoint: Exact<E, Acting>) =>
  declared({ verb: 'action', on }, endpoint);
