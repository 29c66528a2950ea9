// Metadata of routes, computed once and used by every request: operation name, authorization target, methods.
import type { AuthorizationTarget, PathObject } from '../access/authorization/authorizer.ts';
import { actionOf, authorizedId } from '../standard/endpoint.ts';
import type { ApiResponse } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import type { Route, Routes, Segment } from '../standard/paths.ts';

const endpointNames = new WeakMap<object, string>();

/** `tables.create`; cached, because every request needs it. */
export function operationName<Context>({ endpoint, category }: Route<Context>): string {
  let name = endpointNames.get(endpoint);
  if (name === undefined) {
    name = `${category.name}.${actionOf(endpoint)}`;
    endpointNames.set(endpoint, name);
  }
  return name;
}

const targets = new WeakMap<object, AuthorizationTarget>();

/** The object that the permission applies to: the object itself, or the parent of the collection. */
export function authorizationTarget<Context>(route: Route<Context>): AuthorizationTarget {
  const cached = targets.get(route);
  if (cached) return cached;
  const { endpoint, segments, category } = route;
  const last = segments.at(-1);
  const path =
    endpoint.permission.on === 'parent' && last?.category === category.name ? segments.slice(0, -1) : segments;
  const target: AuthorizationTarget = { category: path[0]?.category ?? category.name, path, resolved: undefined };
  targets.set(route, target);
  return target;
}

/** The segments of a route for a request that was authorized on these objects. */
export function authorizedSegments(segments: readonly Segment[], objects: readonly PathObject[]): readonly Segment[] {
  if (objects.length === 0) return segments;
  return segments.map((segment, n) => ({ ...segment, [authorizedId]: objects[n]?.id }));
}

/** HEAD and OPTIONS have no body by definition (rest-standard B1). */
export function optionsResponse<Context>(routes: Routes<Context>, path: string): ApiResponse {
  try {
    routes.resolve('OPTIONS', path);
  } catch (error) {
    if (error instanceof Failure && error.code === 'METHOD_NOT_ALLOWED') {
      return { status: 200, headers: { Allow: (error.result.allow as string[]).join(', ') }, body: [] };
    }
    throw error;
  }
  throw new Error('OPTIONS is not an endpoint');
}
