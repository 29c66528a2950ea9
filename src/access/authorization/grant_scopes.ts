// What a grant can be on: everything, a top-level collection, or an object; each as a path of ids from the root, which stays
// what it is when things are renamed.

/** Marks cannot be ids: those have no slash. */
export const globalScope = '/';

export function categoryScope(category: string): string {
  return `/${category}`;
}

/** The ids from the root to an object, `ids` being those of the objects in its path. */
export function grantPath(category: string, ids: readonly string[]): string[] {
  return [globalScope, categoryScope(category), ...ids];
}

/** Of a path of ids, those of objects. */
export function objectIdsOf(path: readonly string[]): string[] {
  return path.filter((id) => !id.startsWith('/'));
}

export function categoryOfScope(mark: string): string {
  return mark.slice(1);
}
