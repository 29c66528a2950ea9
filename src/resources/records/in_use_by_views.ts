// Completes IN_USE for its caller: names the dependent views by URI, and only counts those that the caller may not read.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { UsedByViews } from '../../catalog/changes/view_dependencies.ts';
import type { Principal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';

interface ViewRequest {
  readonly catalog: Catalog;
  readonly access: { readonly authorizer: Authorizer };
  readonly call: { readonly principal: Principal; readonly version: string };
}

/** How many views are named; further ones are counted. */
const namedMax = 100;

export async function withInUseErrors<T>(work: () => Promise<T>, request: ViewRequest): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof UsedByViews ? await inUse(error.viewIds, request) : error;
  }
}

async function inUse(viewIds: readonly string[], request: ViewRequest): Promise<Failure> {
  const { views, names, otherViews } = await nameViews(viewIds, request);
  const others = otherViews === 0 ? [] : [`${otherViews} more`];
  const message = `views would become invalid: ${[...names, ...others].join(', ')}`;
  return new Failure('IN_USE', message, { views, otherViews });
}

/** The URIs and names of those views that the caller may read, at most `namedMax`, and the number of all others. */
async function nameViews(viewIds: readonly string[], { catalog, access, call }: ViewRequest) {
  const views: string[] = [];
  const names: string[] = [];
  for (const id of viewIds) {
    if (views.length === namedMax) break;
    const chain = await catalog.findChain(id);
    if (chain.length === 0 || !access.authorizer.isVisible(call.principal, 'read', 'catalogs', chain)) continue;
    views.push(uriOf(call.version, chain));
    names.push(chain.map(({ name }) => JSON.stringify(name)).join('.'));
  }
  return { views: views.sort(), names, otherViews: viewIds.length - views.length };
}

/** The views that name a table or a view. */
export async function dependentViews(id: string, request: ViewRequest) {
  const current = await request.catalog.findByIds(await request.catalog.dependentsOf(id));
  const { views, otherViews } = await nameViews(
    current.map((view) => view.id),
    request,
  );
  return { views, otherViews };
}
