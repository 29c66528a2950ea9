// What is read off a route once and asked for with every request: its name, the place of its permission, its methods.
import type { AuthorizationTarget } from '../access/authorization/authorizer.ts';
import type { Answer } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import type { Route, Routes } from '../standard/paths.ts';

const endpointNames = new WeakMap<object, string>();

/** `tables.create`; kept, because it is made for every request. */
export function operationName<Context>({ endpoint, category }: Route<Context>): string {
  let name = endpointNames.get(endpoint);
  if (name === undefined) {
    name = `${category.name}.${endpoint.known ?? endpoint.action ?? endpoint.verb}`;
    endpointNames.set(endpoint, name);
  }
  return name;
}

const places = new WeakMap<object, AuthorizationTarget>();

/** What the permission is needed on: the object itself, or the one that holds the collection. */
export function authorizationTarget<Context>(route: Route<Context>): AuthorizationTarget {
  const kept = places.get(route);
  if (kept) return kept;
  const { endpoint, segments, category } = route;
  const last = segments.at(-1);
  const path =
    endpoint.permission.on === 'parent' && last?.category === category.name ? segments.slice(0, -1) : segments;
  const place: AuthorizationTarget = { category: path[0]?.category ?? category.name, path, resolved: undefined };
  places.set(route, place);
  return place;
}

/** HEAD and OPTIONS have no body by definition (rest-standard B1). */
export function optionsAnswer<Context>(routes: Routes<Context>, path: string): Answer {
  try {
    routes.resolve('OPTIONS', path);
  } catch (error) {
    if (error instanceof Failure && error.code === 'METHOD_NOT_ALLOWED') {
      return { status: 200, headers: { Allow: (error.result.allow as string[]).join(', ') }, body: [] };
    }
    throw error;
  }
  throw new Error('OPTIONS is no endpoint');
}
