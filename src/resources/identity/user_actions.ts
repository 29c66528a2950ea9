// The handlers of the actions of users: change the own password, list effective grants, identify the caller.
import { rootUserId } from '../../access/authorization/directory_types.ts';
import type { Handlers } from '../../api/handlers.ts';
import type { usersApi } from '../../api/identity/users.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import type { Context } from '../records/handler_context.ts';
import { render } from '../records/object_records.ts';
import { done, listedAs } from '../records/outcomes.ts';
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

export const userActions: Pick<
  Handlers<typeof usersApi, Context>,
  'change_password' | 'effective_grants' | 'identify'
> = {
  change_password: async ({ segments, body: { currentPassword, newPassword } }, context) => {
    const [object] = await context.catalog.require(segments);
    if (object.id === rootUserId) await requireOwnUser(object, context);
    const { actor } = context.call;
    context.failedLogins.beginAttempt(actor.address ?? '', object.name);
    if (!(await context.passwords.check(object.spec.passwordHash, currentPassword))) {
      context.failedLogins.recordFailure(actor.address ?? '', object.name);
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
