// The paths of ids to what a principal may read by grants: with a token that has scopes, only where a grant and a scope meet.
import { holds } from '../../model/privileges.ts';
import type { Rights } from './rights.ts';

const covers = (rights: Rights, path: readonly string[]): boolean =>
  rights.isUnrestricted || path.some((id) => holds(rights.privilegesOn(id), 'read'));

/** `isOwned`: whether the user owns the object with that id. */
export function readablePaths(
  rights: Rights,
  scoped: Rights | undefined,
  isOwned: (id: string) => boolean,
): (readonly string[])[] {
  const granted = rights.readPaths();
  if (!scoped) return granted;
  const inScope = scoped.readPaths().filter((path) => covers(rights, path) || path.some(isOwned));
  return [...granted.filter((path) => covers(scoped, path)), ...inScope];
}
