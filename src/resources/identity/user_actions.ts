// What is done with a user besides creating and changing it: a new password by the old one, what was granted, who is calling.
import { type Grant, rootUserId } from '../../access/authorization/directory_types.ts';
import { nullable, pageFields } from '../../api/fields.ts';
import { uriOf } from '../../standard/paths.ts';
import { Type } from '../../standard/type.ts';
import { invalid } from '../records/fields.ts';
import { action, type Context, done, listedAs, render, segment } from '../records/handler_context.ts';
import { GrantFields, grantFields, uriOfIds } from './grants.ts';
import { hashOf, Password, pathOf, requireOwnUser, setSpec, shownUser, type User, UserRecord } from './user_record.ts';

const EffectiveGrant = Type.Object({
  ...GrantFields,
  via: Type.Object({ category: Type.String({ description: '`users` or `roles`.' }), name: Type.String() }),
});

/** The grants of a user and of its roles, in order of who has them and what they are called. */
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

export const userActions = [
  action('change_password', {
    on: 'object',
    summary: 'Changes the own password, by the present one.',
    description: 'Sessions that gave the old password end with their next request. Tokens go on.',
    permission: { privilege: 'own', on: 'object', orSelf: true },
    codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', 'OBJECT_PROTECTED'],
    body: Type.Object({ currentPassword: Password, newPassword: Password }, { additionalProperties: false }),
    bodyRequired: true,
    result: UserRecord,
    example: { body: { currentPassword: 'correct horse battery', newPassword: 'another staple of words' } },
    handle: async ({ path, body: { currentPassword, newPassword } }, context) => {
      const [object] = (await context.catalog.require(pathOf(path))) as [User];
      if (object.id === rootUserId) await requireOwnUser(object, context);
      const { actor } = context.call;
      context.failedLogins.beginAttempt(actor.address ?? '', object.name);
      if (!(await context.passwords.check(object.spec.passwordHash, currentPassword))) {
        context.failedLogins.recordFailure(actor.address ?? '', object.name);
        throw invalid('/currentPassword', 'password', 'is not the password of the user');
      }
      const passwordHash = await hashOf(newPassword, object.name, context);
      const changed = await setSpec(object, { ...object.spec, passwordHash }, context);
      return done(await render(pathOf(path), [changed], context, shownUser));
    },
  }),
  action('effective_grants', {
    on: 'object',
    summary: 'Shows what is granted to a user, by itself and by its roles. What it owns is apart.',
    permission: { privilege: 'read', on: 'object', orSelf: true },
    codes: ['OBJECT_NOT_FOUND'],
    body: Type.Object(pageFields, { additionalProperties: false }),
    result: Type.Object({ grants: Type.Array(EffectiveGrant), nextPageToken: Type.Optional(Type.String()) }),
    example: {
      body: {},
      result: {
        grants: [
          {
            grantId: 'read-019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
            privilege: 'read',
            on: '/api/v2/catalogs/default/databases/ssb',
            via: { category: 'roles', name: 'analysts' },
          },
        ],
      },
    },
    handle: async ({ path, page: { after = '', limit } }, context) => {
      const [object] = await context.catalog.require(pathOf(path));
      const rest = effectiveGrants((object as User).id, context).filter(({ key }) => key > after);
      const grants = [];
      for (const { grant, subject } of rest.slice(0, limit)) {
        const on = await uriOfIds(grant.path, context);
        grants.push({ ...grantFields(grant as Grant, on), via: { category: subject.category, name: subject.name } });
      }
      return listedAs('grants', grants, rest.length > limit ? rest[limit - 1]?.key : undefined);
    },
  }),
  action('identify', {
    on: 'collection',
    summary: 'Shows who the caller is.',
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    body: Type.Object({}, { additionalProperties: false }),
    result: Type.Object({
      name: Type.String(),
      uri: Type.String(),
      credential: Type.String({ description: '`root token`, `token`, `password` or `identity provider`.' }),
      expiresAt: nullable(Type.String({ format: 'date-time' })),
      roles: Type.Array(Type.String(), { description: 'Its own, and those of its identity provider.' }),
      scoped: Type.Boolean({ description: 'Whether its token is confined to less than the user may.' }),
    }),
    example: {
      body: {},
      result: {
        name: 'ann',
        uri: '/api/v2/users/ann',
        credential: 'token',
        expiresAt: '2026-12-31T00:00:00.000Z',
        roles: ['analysts'],
        scoped: false,
      },
    },
    handle: async (_input, context) => {
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
  }),
];
