// What a grant can be on: everything, a top-level collection, or an object. Each is a path of ids from the root, which a rename does
// not change.

/** Scopes begin with a slash, so they cannot collide with ids, which have none. */
export const globalScope = '/';

export function categoryScope(category: string): string {
  return `/${category}`;
}

/** The path of ids from the root to an object. `ids`: those of the objects in its path. */
export function grantPath(category: string, ids: readonly string[]): string[] {
  return [globalScope, categoryScope(category), ...ids];
}

/** The ids of objects in a path: without the scopes. */
export function objectIdsOf(path: readonly string[]): string[] {
  return path.filter((id) => !id.startsWith('/'));
}

export function categoryOfScope(scope: string): string {
  return scope.slice(1);
}
