// Users: who may call, by a password, by tokens (tokens.ts), or by an identity provider. What they may do is grants.ts.
import { rootUserId } from '../../access/authorization/directory_types.ts';
import { describedBody, exampleFields, NewName, nullable } from '../../api/fields.ts';
import { rootPrincipal } from '../../model/principal.ts';
import type { Category } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { Type } from '../../standard/type.ts';
import { requirePrincipalName } from '../records/fields.ts';
import {
  action,
  type Context,
  create,
  created,
  deleted,
  done,
  found,
  freshPage,
  get,
  list,
  newOwner,
  ownerId,
  remove,
  render,
  requirePrivilege,
  segment,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { userActions } from './user_actions.ts';
import {
  Identity,
  Password,
  pathOf,
  protectRoot,
  requireFreeIdentity,
  requireOwnUser,
  setSpec,
  shownUser,
  specOf,
  type User,
  UserRecord,
} from './user_record.ts';

const changedBody = {
  comment: describedBody.comment,
  properties: describedBody.properties,
  owner: describedBody.owner,
  disabled: Type.Optional(Type.Boolean()),
  password: Type.Optional(nullable(Password)),
  identity: Type.Optional(nullable(Identity)),
};

const example = {
  name: 'ann',
  comment: 'Finance',
  properties: {},
  disabled: false,
  hasPassword: true,
  identity: null,
  roles: ['analysts'],
  state: 'enabled',
  owner: 'root',
  ...exampleFields('/api/v2/users/ann'),
};

export const users: Category<Context> = {
  name: 'users',
  singular: 'user',
  title: 'Users',
  doc: 'Who may call: by a password, by tokens, or by an identity provider.',
  parameter: 'user',
  record: UserRecord,
  example,
  endpoints: [
    list({
      summary: 'Lists users by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      handle: ({ page: at }, context) => freshPage([], 'users', at, context, shownUser),
    }),
    get({
      summary: 'Shows a user.',
      permission: { privilege: 'read', on: 'object', orSelf: true },
      handle: async ({ path }, context) =>
        found(await render(pathOf(path), await context.catalog.require(pathOf(path)), context, shownUser)),
    }),
    create({
      summary: 'Creates a user. It may do nothing until something is granted to it.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'],
      body: Type.Object(changedBody, { additionalProperties: false }),
      example: { body: { name: 'ann', password: 'correct horse battery', comment: 'Finance' } },
      handle: async ({ body, ifExists }, context) => {
        const { name, owner } = body as typeof body & { name: string };
        if (name.includes(':'))
          throw new Failure('INVALID_NAME', 'a user name has no colon: Basic credentials end it there', { name });
        const existing = ifExists === 'return' ? await context.catalog.find([segment('users', name)]) : undefined;
        if (!existing && name !== rootPrincipal.name) requirePrincipalName(name);
        const spec = existing ? {} : await specOf({}, body, name, context);
        requireFreeIdentity(spec, undefined, context);
        const { object, created: made } = await context.catalog.create({
          parent: null,
          category: 'users',
          name,
          spec,
          owner: ownerId(owner, context),
          principal: context.call.actor,
          ifExists,
        });
        const record = (await render([segment('users', object.name)], [object], context, shownUser)) as { uri: string };
        return created(record, made, record.uri);
      },
    }),
    update({
      summary: 'Changes a user: description, password, identity; disables and enables it.',
      description:
        'Password, identity and owner need `own`: who can set them can be the user. To disable or enable it needs `operate`.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', 'OBJECT_PROTECTED'],
      body: Type.Object({ ...changedBody }, { additionalProperties: false }),
      example: { body: { disabled: true } },
      handle: async ({ path, body }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [User];
        const isRoot = object.id === rootUserId;
        if (isRoot || body.password !== undefined || body.identity !== undefined) await requireOwnUser(object, context);
        if ((body.disabled ?? object.spec.disabled ?? false) !== (object.spec.disabled ?? false))
          await requirePrivilege('operate', pathOf(path), context);
        if (body.disabled) protectRoot(object, context, 'disabled');
        const spec = await specOf(object.spec, body, object.name, context);
        requireFreeIdentity(spec, object.id, context);
        const owner = await newOwner(body.owner, pathOf(path), context);
        const changed = await setSpec(object, spec, context, { owner });
        return updated(await render(pathOf(path), [changed], context, shownUser));
      },
    }),
    remove({
      summary: 'Deletes a user with its tokens and grants. What it owns is then owned by `root`.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['OBJECT_PROTECTED', 'CHANGE_IN_PROGRESS'],
      handle: async ({ path }, context) => {
        const [object] = (await context.catalog.find(pathOf(path))) ?? [];
        if (!object) return deleted(false);
        protectRoot(object, context, 'deleted');
        const was = await context.catalog.drop(object, {
          principal: context.call.actor,
          cascade: true,
          childCategories: [],
          inTransaction: async (tx) => {
            await tx.updateTable('objects').set({ owner: rootUserId }).where('owner', '=', object.id).execute();
          },
        });
        return deleted(was);
      },
    }),
    action('rename', {
      on: 'object',
      summary: 'Renames a user; what it owns, and what was granted to it, stays.',
      permission: { privilege: 'own', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'OBJECT_PROTECTED', 'CHANGE_IN_PROGRESS'],
      body: NewName,
      bodyRequired: true,
      result: UserRecord,
      example: { body: { newName: 'anna' } },
      handle: async ({ path, body: { newName } }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [User];
        protectRoot(object, context, 'renamed');
        requirePrincipalName(newName);
        if (newName.includes(':')) throw new Failure('INVALID_NAME', 'a user name has no colon', { name: newName });
        const changed = await context.catalog.update(object, { name: newName, principal: context.call.actor });
        return done(await render([segment('users', newName)], [changed.object ?? object], context, shownUser));
      },
    }),
    ...userActions,
    searchOf({ category: 'users', record: UserRecord, toRecord: shownUser, example: 'a%' }),
  ],
};
