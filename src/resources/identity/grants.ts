// Grants: what a user or a role may do, on an object and all that is in it, on a collection, or on everything. They hang on ids,
// so that they stay through renames.

import { forbidden } from '../../access/authorization/authorizer.ts';
import type { Grant } from '../../access/authorization/directory_types.ts';
import {
  categoryOfScope,
  categoryScope,
  globalScope,
  grantPath,
  objectIdsOf,
} from '../../access/authorization/grant_scopes.ts';
import { basisOfGrant, grantIdOf } from '../../access/authorization/grants.ts';
import { nullable, recordFields } from '../../api/fields.ts';
import { GrantFields, PrivilegeField } from '../../api/identity/grant_fields.ts';
import { stateField } from '../../api/states.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { Privilege } from '../../model/privileges.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { type Segment, segmentsOfUri, uriOf } from '../../standard/paths.ts';
import { basisOf } from '../../standard/record_version.ts';
import { Type } from '../../standard/type.ts';
import { invalid, last } from '../records/fields.ts';
import {
  action,
  type Context,
  create,
  created,
  deleted,
  done,
  found,
  get,
  list,
  remove,
  segment,
} from '../records/handler_context.ts';
import { type Page, pageOf, searchBy } from '../records/search.ts';

/** What a grant can be on: objects of the store, and the collections of these at the top. */
const topCategories = [
  'catalogs',
  'warehouses',
  'users',
  'roles',
  'identity_providers',
  'schedules',
  'server_backups',
  'tasks',
  'queries',
  'uploads',
  'audit_events',
];
const objectCategories = [
  'catalogs',
  'databases',
  'tables',
  'views',
  'warehouses',
  'backends',
  'users',
  'roles',
  'identity_providers',
  'schedules',
  'server_backups',
];
const checksMax = 1000;

const On = Type.String({
  minLength: 1,
  maxLength: 4096,
  description: 'URI of an object, of a collection at the top (`/api/v2/users`), or `/api/v2` for everything.',
});

const GrantRecord = Type.Object({
  ...GrantFields,
  isDropped: Type.Optional(
    Type.Boolean({ description: 'What it is on was dropped and can come back; `on` is what that was called.' }),
  ),
  state: stateField({
    active: 'it counts',
    dropped: 'what it is on was dropped; it counts again when that comes back',
  }),
  ...recordFields,
});

export const grantFields = ({ grantId, privilege }: Grant, on: string) => ({ grantId, privilege, on });

/** The URI of what a path of ids leads to. */
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
  const mark = path.at(-1) as string;
  return mark === globalScope ? `/api/${version}` : `/api/${version}/${categoryOfScope(mark)}`;
}

interface Target {
  readonly category: string;
  readonly path: readonly Segment[];
}

/** What a URI names, as far as its form tells. Throws INVALID_PARAMETER. */
function targetOf(on: string, pointer: string): Target {
  const names = on.split('/');
  const [start, api, version, first] = names;
  const fault = (message: string) => invalid(pointer, 'uri', message);
  if (start !== '' || api !== 'api' || !/^v\d+$/.test(version ?? '') || names.slice(3).includes(''))
    throw fault('is not a URI of this service, such as /api/v2/catalogs/default');
  if (first === undefined) return { category: globalScope, path: [] };
  if (names.length === 4) {
    if (!topCategories.includes(first)) throw fault(`is not a collection at the top: ${topCategories.join(', ')}`);
    return { category: first, path: [] };
  }
  if (names.length % 2 === 0) throw fault('names a collection inside an object; grant on the object');
  const path = readSegments(on, fault);
  if (first === 'databases') path.unshift(segment('catalogs', 'default'));
  const unknown = path.find(({ category }) => !objectCategories.includes(category));
  if (unknown) throw fault(`has no grants on ${unknown.category}; grant on what holds them`);
  return { category: path[0]?.category as string, path };
}

function readSegments(on: string, fault: (message: string) => Failure): Segment[] {
  try {
    return segmentsOfUri(on);
  } catch {
    throw fault('has a percent-escape that is none');
  }
}

/** Ids from the root to what a URI names; undefined where it is not there. */
async function idsOf({ category, path }: Target, context: Context): Promise<string[] | undefined> {
  if (path.length === 0) return category === globalScope ? [globalScope] : [globalScope, categoryScope(category)];
  const steps = await context.catalog.findPrefix(path);
  return steps.length < path.length
    ? undefined
    : grantPath(
        category,
        steps.map(({ id }) => id),
      );
}

/** Who grants or revokes may grant there, and has the privilege itself. */
async function mayGrant(privilege: Privilege, target: Target, context: Context): Promise<boolean> {
  const { principal } = context.call;
  const { authorizer } = context.access;
  return (
    (await authorizer.isAllowed(principal, 'grant', target)) &&
    (await authorizer.isAllowed(principal, privilege, target))
  );
}

/** The same, by ids: what it is on may have been dropped. */
async function requireMayRevoke({ path, privilege }: Grant, context: Context): Promise<void> {
  const objects = await context.catalog.findByIdsWithDropped(objectIdsOf(path));
  const target = targetOf(uriOfObjects(path, objects, context), '/on');
  const { principal } = context.call;
  const { authorizer } = context.access;
  const may = (wanted: Privilege) => authorizer.isAllowedOn(principal, wanted, target.category, objects);
  if (!may('grant') || !may(privilege)) throw forbidden('grant', target);
}

/** Who may not see a user or a role is not told whether it is there, nor what it was granted. */
async function requireSeen(category: string, path: readonly Segment[], context: Context): Promise<void> {
  const permission = { privilege: 'read', on: 'object', orSelf: true } as const;
  await context.access.authorizer.authorize(context.call.principal, permission, { category, path });
}

/** Scopes of a token, as the ids that they hang on. What is not there is refused as what one may not do anything with. */
export async function scopesOf(scopes: readonly { privilege: Privilege; on: string }[], context: Context) {
  const found = [];
  for (const [i, { privilege, on }] of scopes.entries()) {
    const target = targetOf(on, `/scopes/${i}/on`);
    const permission = { privilege, on: 'object', orWithin: true } as const;
    if (target.path.length > 0) await context.access.authorizer.authorize(context.call.principal, permission, target);
    const path = await idsOf(target, context);
    if (!path) throw invalid(`/scopes/${i}/on`, 'exists', `names nothing: ${JSON.stringify(on)}`);
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
    state: isDropped ? 'dropped' : 'active',
    createdAt,
    createdBy,
    updatedAt: createdAt,
    updatedBy: createdBy,
    version: 1,
    uri,
    [basisOf]: basisOfGrant(grant),
  };
}

function missing(grantId: string): Failure {
  return new Failure('OBJECT_NOT_FOUND', `there is no grant ${JSON.stringify(grantId)}`, {
    category: 'grants',
    name: grantId,
  });
}

/** Why somebody may do something: the first reason there is. */
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
      const fits = grant.privilege === privilege || grant.privilege === 'own';
      if (!fits || !ids.has(grant.onId)) continue;
      const holder = directory.users.has(id)
        ? segment('users', directory.nameOf(id))
        : segment('roles', directory.roles.get(id)?.name ?? id);
      return { kind: 'grant', grant: uriOf(context.call.version, [holder, segment('grants', grant.grantId)]) };
    }
  }
  return steps.some(({ owner }) => owner === granteeId) ? { kind: 'owner', grant: null } : null;
}

const Check = Type.Object({ privilege: PrivilegeField, on: On }, { additionalProperties: false });

const example = {
  grantId: 'read-019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  privilege: 'read',
  on: '/api/v2/catalogs/default/databases/ssb',
  state: 'active',
  createdAt: '2026-01-31T10:00:00.000Z',
  createdBy: 'root',
  updatedAt: '2026-01-31T10:00:00.000Z',
  updatedBy: 'root',
  version: 1,
};

/** Of whom the grants are. */
interface Grantees {
  readonly parent: 'users' | 'roles';
  readonly singular: 'user' | 'role';
  /** Users may see their own. */
  readonly self: { readonly orSelf?: true };
  pathOf(path: PathParameters): Segment[];
  require(path: PathParameters, context: Context): Promise<CatalogObject>;
}

function granteesOf(parent: 'users' | 'roles'): Grantees {
  const singular = parent === 'users' ? 'user' : 'role';
  const pathOf = (path: PathParameters) => [segment(parent, path[singular] as string)];
  return {
    parent,
    singular,
    self: parent === 'users' ? { orSelf: true } : {},
    pathOf,
    require: async (path, context) => last(await context.catalog.require(pathOf(path))),
  };
}

const readers = ({ singular, self, pathOf, require }: Grantees) => {
  const grantsPage = async (path: PathParameters, page: Page, context: Context, fits: (grant: Grant) => boolean) => {
    const { after = '' } = page;
    const grants = [...context.directory.grantsOf((await require(path, context)).id).values()]
      .filter((grant) => grant.grantId > after && fits(grant))
      .sort((a, b) => (a.grantId < b.grantId ? -1 : 1));
    return pageOf(
      grants,
      page,
      ({ grantId }) => grantId,
      (grant) => record(grant, pathOf(path), context),
    );
  };
  return [
    list({
      summary: `Lists the grants of a ${singular}.`,
      permission: { privilege: 'read', on: 'parent', ...self },
      codes: ['OBJECT_NOT_FOUND'],
      handle: ({ path, page }, context) => grantsPage(path, page, context, () => true),
    }),
    get({
      summary: 'Shows a grant.',
      permission: { privilege: 'read', on: 'object', ...self },
      handle: async ({ path }, context) => {
        const grantee = await require(path, context);
        const grant = context.directory.grantsOf(grantee.id).get(path.grantId as string);
        if (!grant) throw missing(path.grantId as string);
        return found(await record(grant, pathOf(path), context));
      },
    }),
    searchBy({
      category: 'grants',
      summary: `Finds grants of a ${singular} by privilege and by what they are on.`,
      permission: { privilege: 'read', on: 'parent', ...self },
      codes: ['OBJECT_NOT_FOUND'],
      fields: { privilege: Type.Optional(PrivilegeField), on: Type.Optional(On) },
      record: GrantRecord,
      example: { on: '/api/v2/catalogs/default/databases/ssb' },
      find: async ({ privilege, on }, { path, page }, context) => {
        const ids = on === undefined ? undefined : await idsOf(targetOf(on, '/on'), context);
        const isOn = (grant: Grant) =>
          on === undefined || (ids !== undefined && grant.grantId === grantIdOf(grant.privilege, ids));
        return grantsPage(
          path,
          page,
          context,
          (grant) => (privilege === undefined || grant.privilege === privilege) && isOn(grant),
        );
      },
    }),
  ];
};

const makeGrant = ({ parent, singular, pathOf, require }: Grantees) =>
  create({
    summary: `Grants a privilege to a ${singular}.`,
    description: `The caller needs \`grant\` and the privilege itself on what it is on, and \`read\` on the ${singular}.`,
    permission: { privilege: 'grant', on: 'target' },
    codes: ['OBJECT_NOT_FOUND', 'OBJECT_ALREADY_EXISTS'],
    body: Type.Object({ privilege: PrivilegeField, on: On }, { additionalProperties: false }),
    bodyRequired: true,
    nameOptional: true,
    example: { body: { privilege: 'read', on: '/api/v2/catalogs/default/databases/ssb' } },
    handle: async ({ path, body, ifExists }, context) => {
      const { privilege, on, name } = body as typeof body & { name?: string };
      const target = targetOf(on, '/on');
      if (!(await mayGrant(privilege, target, context))) throw forbidden('grant', target);
      await requireSeen(parent, pathOf(path), context);
      context.call.permitted = true;
      const grantee = await require(path, context);
      const ids = await idsOf(target, context);
      if (!ids) throw invalid('/on', 'exists', `names nothing: ${JSON.stringify(on)}`);
      const grantId = grantIdOf(privilege, ids);
      if (name !== undefined && name !== grantId)
        throw invalid('/name', 'grant', `of this grant is ${JSON.stringify(grantId)}; it may be left out`);
      const outcome = await context.grants.create(grantee.id, privilege, ids, context.call.actor);
      if (!outcome) throw missing(grantId);
      if (!outcome.created && ifExists === 'fail')
        throw new Failure('OBJECT_ALREADY_EXISTS', `the ${singular} has this grant already`, {
          category: 'grants',
          name: grantId,
        });
      const made = await record(outcome.grant, pathOf(path), context);
      return created(made, outcome.created, made.uri);
    },
  });

const revoke = ({ parent, singular, pathOf }: Grantees) =>
  remove({
    summary: 'Revokes a grant.',
    description: `The caller needs \`grant\` and the privilege itself on what it is on, and \`read\` on the ${singular}.`,
    permission: { privilege: 'grant', on: 'target' },
    handle: async ({ path }, context) => {
      await requireSeen(parent, pathOf(path), context);
      const chain = await context.catalog.find(pathOf(path));
      const grant = chain && context.directory.grantsOf(last(chain).id).get(path.grantId as string);
      if (grant) await requireMayRevoke(grant, context);
      context.call.permitted = true;
      if (!grant) return deleted(false);
      return deleted(await context.grants.remove(grant, context.call.actor));
    },
  });

const CheckResult = Type.Object({
  privilege: PrivilegeField,
  on: Type.String(),
  allowed: Type.Boolean(),
  by: nullable(
    Type.Object({
      kind: Type.String({ description: '`grant`, `owner` or `root`.' }),
      grant: nullable(Type.String({ description: 'URI of the grant.' })),
    }),
  ),
});

const check = ({ singular, self, require }: Grantees) =>
  action('check', {
    on: 'collection',
    summary: `Tells what a ${singular} may do, and by which grant.`,
    description: 'Scopes of tokens, and roles that an identity provider vouches for, are not counted.',
    permission: { privilege: 'read', on: 'parent', ...self },
    codes: ['OBJECT_NOT_FOUND'],
    body: Type.Object(
      { checks: Type.Array(Check, { minItems: 1, maxItems: checksMax }) },
      { additionalProperties: false },
    ),
    bodyRequired: true,
    result: Type.Object({ results: Type.Array(CheckResult) }),
    example: {
      body: { checks: [{ privilege: 'read', on: '/api/v2/catalogs/default' }] },
      result: { results: [{ privilege: 'read', on: '/api/v2/catalogs/default', allowed: false, by: null }] },
    },
    handle: async ({ path, body }, context) => {
      const grantee = await require(path, context);
      const results = [];
      for (const [i, { privilege, on }] of body.checks.entries()) {
        const by = await reasonOf(grantee.id, privilege, targetOf(on, `/checks/${i}/on`), context);
        results.push({ privilege, on, allowed: by !== null, by });
      }
      return done({ results });
    },
  });

/** The same category, in users and in roles. */
export function grantsCategory(parent: 'users' | 'roles'): Category<Context> {
  const grantees = granteesOf(parent);
  return {
    name: 'grants',
    singular: 'grant',
    title: `Grants of ${parent}`,
    doc: `What a ${grantees.singular} may do, and on what.`,
    parameter: 'grantId',
    idField: 'grantId',
    parent,
    record: GrantRecord,
    example: { ...example, uri: `/api/v2/${parent}/analysts/grants/read-019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d` },
    endpoints: [...readers(grantees), makeGrant(grantees), revoke(grantees), check(grantees)],
  };
}
