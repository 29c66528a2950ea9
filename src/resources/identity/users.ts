// The handlers of `users`: principals that authenticate with a password, tokens (tokens.ts) or an identity provider. See grants.ts
// for their privileges.
import { rootUserId } from '../../access/authorization/directory_types.ts';
import { usersApi } from '../../api/identity/users.ts';
import { rootPrincipal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { requirePrincipalName } from '../records/fields.ts';
import { implement } from '../records/handler_context.ts';
import { freshPage, render } from '../records/object_records.ts';
import { created, deleted, done, found, updated } from '../records/outcomes.ts';
import { newOwner, ownerId, requirePrivilege } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { userActions } from './user_actions.ts';
import { protectRoot, requireFreeIdentity, requireOwnUser, setSpec, shownUser, specOf } from './user_record.ts';

export const users = implement(usersApi, {
  list: ({ segments, page: requestedPage }, context) => freshPage(segments, 'users', requestedPage, context, shownUser),
  get: async ({ segments }, context) =>
    found(await render(segments, await context.catalog.require(segments), context, shownUser)),
  create: async ({ body, ifExists }, context) => {
    const { name, owner } = body;
    if (name.includes(':'))
      throw new Failure(
        'INVALID_NAME',
        'a user name must not contain a colon, which ends the name in Basic credentials',
        { name },
      );
    const existing = ifExists === 'return' ? await context.catalog.find([segment('users', name)]) : undefined;
    if (!existing && name !== rootPrincipal.name) requirePrincipalName(name);
    const spec = existing ? {} : await specOf({}, body, name, context);
    requireFreeIdentity(spec, undefined, context);
    const { object, created: isNew } = await context.catalog.create({
      parent: null,
      category: 'users',
      name,
      spec,
      owner: ownerId(owner, context),
      principal: context.call.actor,
      ifExists,
    });
    return created(await render([segment('users', object.name)], [object], context, shownUser), isNew);
  },
  update: async ({ segments, body }, context) => {
    const [object] = await context.catalog.require(segments);
    const isRoot = object.id === rootUserId;
    if (isRoot || body.password !== undefined || body.identity !== undefined) await requireOwnUser(object, context);
    if ((body.disabled ?? object.spec.disabled ?? false) !== (object.spec.disabled ?? false))
      await requirePrivilege('operate', segments, context);
    if (body.disabled) protectRoot(object, context, 'disabled');
    const spec = await specOf(object.spec, body, object.name, context);
    requireFreeIdentity(spec, object.id, context);
    const owner = await newOwner(body.owner, segments, context);
    const changed = await setSpec(object, spec, context, { owner });
    return updated(await render(segments, [changed], context, shownUser));
  },
  delete: async ({ segments }, context) => {
    const [object] = (await context.catalog.find(segments)) ?? [];
    if (!object) return deleted(false);
    protectRoot(object, context, 'deleted');
    const was = await context.catalog.drop(object, {
      principal: context.call.actor,
      cascade: true,
      inTransaction: async (tx) => {
        await tx.updateTable('objects').set({ owner: rootUserId }).where('owner', '=', object.id).execute();
      },
    });
    return deleted(was);
  },
  rename: async ({ segments, body: { newName } }, context) => {
    const [object] = await context.catalog.require(segments);
    protectRoot(object, context, 'renamed');
    requirePrincipalName(newName);
    if (newName.includes(':'))
      throw new Failure(
        'INVALID_NAME',
        'a user name must not contain a colon, which ends the name in Basic credentials',
        { name: newName },
      );
    const changed = await context.catalog.update(object, { name: newName, principal: context.call.actor });
    return done(await render([segment('users', newName)], [changed.object ?? object], context, shownUser));
  },
  ...userActions,
  search: findByName(usersApi, shownUser),
});
