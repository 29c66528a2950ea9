// What a URI in the body of a grant, a scope or a search names: everything, a top-level collection, or an object.
import type { PathObject } from '../../access/authorization/authorizer.ts';
import { categoryScope, globalScope, grantPath } from '../../access/authorization/grant_scopes.ts';
import { categoriesApi } from '../../api/categories.ts';
import type { DeclaredCategory } from '../../api/declare.ts';
import { type Failure, invalidParameter } from '../../standard/failure.ts';
import { type Segment, segment, segmentsOfUri } from '../../standard/paths.ts';
import type { Context } from '../records/handler_context.ts';

const categories: readonly DeclaredCategory[] = categoriesApi;
const namesOf = (declared: readonly DeclaredCategory[]) => declared.map(({ name }) => name);
/** No grant applies to what only its user has access to. */
const isPrivate = ({ endpoints }: DeclaredCategory) =>
  Object.values(endpoints).every(({ permission }) => permission.on === 'caller');
const topCategories = namesOf(categories.filter((one) => one.parent === undefined && !isPrivate(one)));
const securableCategories = namesOf(categories.filter(({ securable }) => securable));

export interface Target {
  readonly category: string;
  readonly path: readonly Segment[];
}

/** Parses a URI; checks only its form. Throws INVALID_PARAMETER. */
export function targetOf(on: string, pointer: string): Target {
  const names = on.split('/');
  const [start, api, version, first] = names;
  const fault = (message: string) => invalidParameter(pointer, 'uri', message);
  if (start !== '' || api !== 'api' || !/^v\d+$/.test(version ?? '') || names.slice(3).includes(''))
    throw fault('is not a URI of this service, such as /api/v2/catalogs/default');
  if (first === undefined) return { category: globalScope, path: [] };
  if (names.length === 4) {
    if (!topCategories.includes(first)) throw fault(`is not a top-level collection (${topCategories.join(', ')})`);
    return { category: first, path: [] };
  }
  if (names.length % 2 === 0) throw fault('is the URI of a collection inside an object; use the URI of the object');
  const [root, ...within] = readSegments(on, fault);
  if (!root) throw fault('is not the URI of an object');
  const path = first === 'databases' ? [segment('catalogs', 'default'), root, ...within] : [root, ...within];
  const unknown = path.find(({ category }) => !securableCategories.includes(category));
  if (unknown)
    throw fault(`is the URI of one of the ${unknown.category}, which have no grants; use the object that contains it`);
  return { category: first === 'databases' ? 'catalogs' : root.category, path };
}

function readSegments(on: string, fault: (message: string) => Failure): Segment[] {
  try {
    return segmentsOfUri(on);
  } catch {
    throw fault('contains an invalid percent-encoding');
  }
}

/** The ids from the root to the object that a URI names; undefined if it does not exist. */
export async function idsOf(target: Target, context: Context): Promise<string[] | undefined> {
  return idsOfObjects(target, await context.catalog.findPrefix(target.path));
}

/** The same of a URI whose existing objects were found. */
export function idsOfObjects({ category, path }: Target, objects: readonly PathObject[]): string[] | undefined {
  if (path.length === 0) return category === globalScope ? [globalScope] : [globalScope, categoryScope(category)];
  if (objects.length < path.length) return undefined;
  return grantPath(
    category,
    objects.map(({ id }) => id),
  );
}
