// The handlers of the actions of users: change the own password, list effective grants, identify the caller.
import { rootUserId } from '../../access/authorization/directory_types.ts';
import { globalScope, grantPath } from '../../access/authorization/grant_scopes.ts';
import type { Handlers } from '../../api/handlers.ts';
import type { usersApi } from '../../api/identity/users.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import type { Context } from '../records/handler_context.ts';
import { render } from '../records/object_records.ts';
import { done, listedAs } from '../records/outcomes.ts';
import { targetOf } from './grant_target.ts';
import { grantFields, uriOfIds } from './grants.ts';
import { hashOf, requireOwnUser, setSpec, shownUser } from './user_record.ts';

/** The grants of a user and of its roles, ordered by grantee and id. */
function effectiveGrants(userId: string, context: Context) {
  const { directory } = context;
  const subjects = [
    { id: userId, category: 'users', name: directory.nameOf(userId) },
    ...[...directory.rolesOf(userId)].map((id) => ({
      id,
      category: 'roles',
      name: directory.roles.get(id)?.name ?? id,
    })),
  ];
  const all = subjects.flatMap((subject) =>
    [...directory.effectiveGrantsOf(subject.id)].map((grant) => ({
      grant,
      subject,
      key: `${subject.id} ${grant.grantId}`,
    })),
  );
  return all.sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Undefined: the caller may not see it. */
async function visibleGrantee(id: string, context: Context) {
  const [grantee] = await context.catalog.findByIds([id]);
  if (!grantee) return undefined;
  const { category, name } = grantee;
  const { principal } = context.call;
  const { authorizer } = context.access;
  const isSeen =
    authorizer.isSelf(principal, [segment(category, name)]) ||
    authorizer.isVisible(principal, 'read', category, [grantee]);
  return isSeen ? { category, name } : undefined;
}

export const userActions: Pick<
  Handlers<typeof usersApi, Context>,
  'change_password' | 'effective_grants' | 'identify' | 'search_grants'
> = {
  change_password: async ({ segments, body: { currentPassword, newPassword } }, context) => {
    const [object] = await context.catalog.require(segments);
    if (object.id === rootUserId) await requireOwnUser(object, context);
    const { actor } = context.call;
    await context.failedLogins.beginAttempt(actor.address ?? '', object.name);
    if (!(await context.passwords.check(object.spec.passwordHash, currentPassword))) {
      await context.failedLogins.recordFailure(actor.address ?? '', object.name);
      throw invalidParameter('/currentPassword', 'password', 'is not the password of the user');
    }
    const passwordHash = await hashOf(newPassword, object.name, context);
    const changed = await setSpec(object, { ...object.spec, passwordHash }, context);
    return done(await render(segments, [changed], context, shownUser));
  },
  effective_grants: async ({ segments, page: { after = '', limit } }, context) => {
    const [object] = await context.catalog.require(segments);
    const rest = effectiveGrants(object.id, context).filter(({ key }) => key > after);
    const grants = [];
    for (const { grant, subject } of rest.slice(0, limit)) {
      const uri = await uriOfIds(grant.path, context);
      grants.push({ ...grantFields(grant, uri), via: { category: subject.category, name: subject.name } });
    }
    return listedAs('grants', grants, rest.length > limit ? rest[limit - 1]?.key : undefined);
  },
  search_grants: async ({ body: { on, privilege }, page: { after = '', limit } }, context) => {
    const { category, path } = targetOf(on, '/on');
    const steps = await context.catalog.findPrefix(path);
    const scopes = category === globalScope ? [] : grantPath(category, []).slice(1);
    const ids = [globalScope, ...scopes, ...steps.map(({ id }) => id)];
    const all = context.directory
      .grantsOnPath(ids)
      .filter((grant) => privilege === undefined || grant.privilege === privilege)
      .map((grant) => ({ grant, key: `${grant.granteeId} ${grant.grantId}` }))
      .filter(({ key }) => key > after)
      .sort((a, b) => (a.key < b.key ? -1 : 1));
    const grants = [];
    let next: string | undefined;
    for (const { grant, key } of all) {
      const via = await visibleGrantee(grant.granteeId, context);
      if (!via) continue;
      if (grants.length === limit) return listedAs('grants', grants, next);
      grants.push({ ...grantFields(grant, await uriOfIds(grant.path, context)), via });
      next = key;
    }
    return listedAs('grants', grants);
  },
  identify: async (_input, context) => {
    const { principal, session, version } = context.call;
    const { directory } = context;
    const roles = directory.subjectsOf(principal).flatMap((id) => directory.roles.get(id)?.name ?? []);
    const ends = session.expiresAt < Number.MAX_SAFE_INTEGER;
    return done({
      name: principal.name,
      uri: uriOf(version, [segment('users', principal.name)]),
      credential: session.credential,
      expiresAt: ends ? new Date(session.expiresAt).toISOString() : null,
      roles: roles.sort(),
      scoped: principal.scopes !== undefined,
    });
  },
};
