// The handlers of `grants`: the privileges of a user or a role on an object and its descendants, on a collection, or on everything.
// Grants refer to ids, so renames do not affect them.

import { forbidden, type PathObject } from '../../access/authorization/authorizer.ts';
import type { Grant } from '../../access/authorization/directory_types.ts';
import { categoryOfScope, categoryScope, globalScope, objectIdsOf } from '../../access/authorization/grant_scopes.ts';
import { grantIdOf, versionOfGrant } from '../../access/authorization/grants.ts';
import type { BodyOf } from '../../api/handlers.ts';
import { roleGrantsApi, userGrantsApi } from '../../api/identity/grants.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { Privilege } from '../../model/privileges.ts';
import { Failure, invalidParameter, objectNotFound } from '../../standard/failure.ts';
import { type Segment, segment, uriOf } from '../../standard/paths.ts';
import { objectVersion } from '../../standard/record_version.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { inMemory, type Page, pageOf } from '../records/list_page.ts';
import { created, deleted, done, found } from '../records/outcomes.ts';
import { searchWith } from '../records/search.ts';
import { idsOf, idsOfObjects, type Target, targetOf } from './grant_target.ts';

export const grantFields = ({ grantId, privilege }: Grant, on: string) => ({ grantId, privilege, on });

/** The URI of the object or collection at a path of ids. */
export async function uriOfIds(path: readonly string[], context: Context): Promise<string> {
  return uriOfObjects(path, await context.catalog.findByIdsWithDropped(objectIdsOf(path)), context);
}

function uriOfObjects(path: readonly string[], objects: readonly CatalogObject[], context: Context): string {
  const { version } = context.call;
  if (objects.length > 0)
    return uriOf(
      version,
      objects.map(({ category, name }) => segment(category, name)),
    );
  const scope = path.at(-1);
  return scope === undefined || scope === globalScope ? `/api/${version}` : `/api/${version}/${categoryOfScope(scope)}`;
}

/** A principal that grants or revokes must be allowed to grant there, and hold the privilege itself. `objects`: those of the target. */
function mayGrant(
  privilege: Privilege,
  { category }: Target,
  objects: readonly PathObject[],
  { access, call: { principal } }: Context,
): boolean {
  const may = (required: Privilege) => access.authorizer.isAllowedOn(principal, required, category, objects);
  return may('grant') && may(privilege);
}

/** Throws FORBIDDEN unless the caller may revoke. Finds the object by its ids, because it may have been dropped. */
async function requireMayRevoke({ path, privilege }: Grant, context: Context): Promise<void> {
  const objects = await context.catalog.findByIdsWithDropped(objectIdsOf(path));
  const target = targetOf(uriOfObjects(path, objects, context), '/on');
  if (!mayGrant(privilege, target, objects, context)) throw forbidden('grant', target);
}

/** A caller who may not see a user or a role does not learn whether it exists or what it was granted. */
async function requireSeen(path: Grantee, context: Context): Promise<void> {
  const permission = { privilege: 'read', on: 'object', orSelf: true } as const;
  await context.access.authorizer.authorize(context.call.principal, permission, { category: path[0].category, path });
}

/** The scopes of a token, with ids. An object that does not exist is refused like one without privileges. */
export async function scopesOf(scopes: readonly { privilege: Privilege; on: string }[], context: Context) {
  const found = [];
  for (const [i, { privilege, on }] of scopes.entries()) {
    const target = targetOf(on, `/scopes/${i}/on`);
    const permission = { privilege, on: 'object', orWithin: true } as const;
    if (target.path.length > 0) await context.access.authorizer.authorize(context.call.principal, permission, target);
    const path = await idsOf(target, context);
    if (!path)
      throw invalidParameter(
        `/scopes/${i}/on`,
        'exists',
        `refers to an object that does not exist: ${JSON.stringify(on)}`,
      );
    found.push({ privilege, path });
  }
  return found;
}

async function record(grant: Grant, grantee: readonly Segment[], context: Context) {
  const uri = uriOf(context.call.version, [...grantee, segment('grants', grant.grantId)]);
  const createdAt = new Date(grant.createdAt).toISOString();
  const { createdBy } = grant;
  const objects = await context.catalog.findByIdsWithDropped(objectIdsOf(grant.path));
  const isDropped = objects.some(({ state }) => state === 'dropped');
  return {
    ...grantFields(grant, uriOfObjects(grant.path, objects, context)),
    ...(isDropped ? { isDropped } : {}),
    state: isDropped ? ('dropped' as const) : ('active' as const),
    createdAt,
    createdBy,
    updatedAt: createdAt,
    updatedBy: createdBy,
    version: 1,
    uri,
    [objectVersion]: versionOfGrant(grant),
  };
}

function missing(grantId: string): Failure {
  return objectNotFound('grants', grantId, `there is no grant ${JSON.stringify(grantId)}`);
}

/** Why a principal is allowed to do something: the first reason that applies. */
async function reasonOf(granteeId: string, privilege: Privilege, target: Target, context: Context) {
  const { directory } = context;
  const user = directory.users.get(granteeId);
  const steps = await context.catalog.findPrefix(target.path);
  const ids = new Set([globalScope, categoryScope(target.category), ...steps.map(({ id }) => id)]);
  if (user?.spec.disabled && user.id !== 'root') return null;
  if (user?.id === 'root') return { kind: 'root', grant: null };
  const subjects = [granteeId, ...(user ? directory.rolesOf(granteeId) : [])];
  for (const id of subjects) {
    for (const grant of directory.grantsOf(id).values()) {
      const isSufficient = grant.privilege === privilege || grant.privilege === 'own';
      if (!isSufficient || !ids.has(grant.onId)) continue;
      const holder = directory.users.has(id)
        ? segment('users', directory.nameOf(id))
        : segment('roles', directory.roles.get(id)?.name ?? id);
      return { kind: 'grant', grant: uriOf(context.call.version, [holder, segment('grants', grant.grantId)]) };
    }
  }
  return steps.some(({ owner }) => owner === granteeId) ? { kind: 'owner', grant: null } : null;
}

type Grantee = readonly [Segment<'users' | 'roles'>];
type GrantPath = readonly [...Grantee, Segment<'grants'>];
type Endpoints = (typeof userGrantsApi)['endpoints'];

interface OfGrantee {
  readonly segments: Grantee;
}

async function granteeOf(path: Grantee, context: Context): Promise<CatalogObject> {
  const [grantee] = await context.catalog.require(path);
  return grantee;
}

async function grantsPage(
  grantee: Grantee,
  page: Page,
  context: Context,
  matches: (grant: Grant) => boolean = () => true,
) {
  const { after = '' } = page;
  const { id } = await granteeOf(grantee, context);
  const grants = [...context.directory.grantsOf(id).values()]
    .filter((grant) => grant.grantId > after && matches(grant))
    .sort((a, b) => (a.grantId < b.grantId ? -1 : 1));
  return pageOf(page, 'grantId', inMemory(grants), (grant) => record(grant, grantee, context));
}

interface GrantFilter {
  readonly privilege?: Privilege;
  readonly on?: string;
}

/** For the grants of both users and roles. */
const handlers = {
  list: ({ segments, page }: OfGrantee & { readonly page: Page }, context: Context) =>
    grantsPage(segments, page, context),
  get: async ({ segments: [grantee, { name }] }: { readonly segments: GrantPath }, context: Context) => {
    const { id } = await granteeOf([grantee], context);
    const grant = context.directory.grantsOf(id).get(name);
    if (!grant) throw missing(name);
    return found(await record(grant, [grantee], context));
  },
  search: searchWith(
    async ({ privilege, on }: GrantFilter, { segments, page }: OfGrantee & { readonly page: Page }, context) => {
      const ids = on === undefined ? undefined : await idsOf(targetOf(on, '/on'), context);
      const isOn = (grant: Grant) =>
        on === undefined || (ids !== undefined && grant.grantId === grantIdOf(grant.privilege, ids));
      const matches = (grant: Grant) => (privilege === undefined || grant.privilege === privilege) && isOn(grant);
      return grantsPage(segments, page, context, matches);
    },
  ),
  create: async (
    { segments, body, ifExists }: OfGrantee & { body: BodyOf<Endpoints['create']>; ifExists: 'fail' | 'return' },
    context: Context,
  ) => {
    const { privilege, on, name } = body;
    const target = targetOf(on, '/on');
    // What it refers to now: another object may have the name later.
    const objects = await context.catalog.findPrefix(target.path);
    if (!mayGrant(privilege, target, objects, context)) throw forbidden('grant', target);
    await requireSeen(segments, context);
    context.call.permitted = true;
    const { id } = await granteeOf(segments, context);
    const ids = idsOfObjects(target, objects);
    if (!ids) throw invalidParameter('/on', 'exists', `refers to an object that does not exist: ${JSON.stringify(on)}`);
    const grantId = grantIdOf(privilege, ids);
    if (name !== undefined && name !== grantId)
      throw invalidParameter('/name', 'grant', `must be ${JSON.stringify(grantId)} for this grant, or omitted`);
    const outcome = await context.grants.create(id, privilege, ids, context.call.actor);
    if (!outcome) throw missing(grantId);
    if (!outcome.created && ifExists === 'fail') {
      const grantee = segments[0].category === 'users' ? 'user' : 'role';
      const result = { category: 'grants', name: grantId };
      throw new Failure('OBJECT_ALREADY_EXISTS', `the ${grantee} already has this grant`, result);
    }
    const grantRecord = await record(outcome.grant, segments, context);
    return created(grantRecord, outcome.created);
  },
  delete: async ({ segments: [grantee, { name }] }: { readonly segments: GrantPath }, context: Context) => {
    await requireSeen([grantee], context);
    const [object] = (await context.catalog.find([grantee])) ?? [];
    const grant = object && context.directory.grantsOf(object.id).get(name);
    if (grant) await requireMayRevoke(grant, context);
    context.call.permitted = true;
    if (!grant) return deleted(false);
    return deleted(await context.grants.remove(grant, context.call.actor));
  },
  check: async ({ segments, body }: OfGrantee & { body: BodyOf<Endpoints['check']> }, context: Context) => {
    const { id } = await granteeOf(segments, context);
    const results = [];
    for (const [i, { privilege, on }] of body.checks.entries()) {
      const by = await reasonOf(id, privilege, targetOf(on, `/checks/${i}/on`), context);
      results.push({ privilege, on, allowed: by !== null, by });
    }
    return done({ results });
  },
};

export const userGrants = implement(userGrantsApi, handlers);
export const roleGrants = implement(roleGrantsApi, handlers);
