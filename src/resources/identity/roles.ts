// The handlers of `roles`: groups of users that share grants.

import type { RoleSpec } from '../../access/authorization/directory_types.ts';
import type { RecordOf, SegmentsOf } from '../../api/handlers.ts';
import { membersMax, rolesApi } from '../../api/identity/roles.ts';
import { ready } from '../../api/states.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { describe, requirePrincipalName, shownDescription } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { commonFields, type RenderOf, render } from '../records/object_records.ts';
import { done, updated } from '../records/outcomes.ts';
import { newOwner, ownerId, ownerName, requirePrivilege, userNamed } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { handlersAtTop } from '../records/top_level_category.ts';

const toRecord: RenderOf<typeof rolesApi> = async ([object], uri, context) => {
  const { directory } = context;
  const members = [...directory.membersOf(object.id)].flatMap((id) => directory.users.get(id)?.name ?? []);
  return {
    name: object.name,
    ...shownDescription(object.spec),
    members: members.sort(),
    ...ready,
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

const commonHandlers = handlersAtTop('roles', toRecord, requirePrincipalName);

function idsOfMembers(names: readonly string[], pointer: string, context: Context): Set<string> {
  return new Set(names.map((name, i) => userNamed(name, `${pointer}/${i}`, context)));
}

/**
 * `change`: computes the new members from the current ones. Changing members requires the privilege to grant everything that the
 * role may do.
 */
async function setMembers(
  path: SegmentsOf<typeof rolesApi>,
  change: (members: Set<string>) => Set<string>,
  context: Context,
): Promise<RecordOf<typeof rolesApi>> {
  const [object] = await context.catalog.require(path);
  const members = change(new Set(context.directory.membersOf(object.id)));
  if (members.size > membersMax)
    throw invalidParameter('/members', 'maxItems', `must have at most ${membersMax} members`);
  const changed = await context.catalog.update(object, {
    principal: context.call.actor,
    inTransaction: (tx) => context.roleMembers.write(tx, object.id, members),
  });
  return render(path, [changed.object ?? object], context, toRecord);
}

export const roles = implement(rolesApi, {
  list: commonHandlers.list,
  get: commonHandlers.get,
  create: async ({ body, ifExists }, context) => {
    const { name, owner, members = [] } = body;
    requirePrincipalName(name);
    const ids = idsOfMembers(members, '/members', context);
    const { object, created: isNew } = await context.catalog.create({
      parent: null,
      category: 'roles',
      name,
      spec: describe<RoleSpec>({}, body),
      owner: ownerId(owner, context),
      principal: context.call.actor,
      ifExists,
      inTransaction: (tx, id) => context.roleMembers.write(tx, id, ids),
    });
    return commonHandlers.createdAs(object, isNew, context);
  },
  update: async ({ segments, body }, context) => {
    const [object] = await context.catalog.require(segments);
    const { members } = body;
    if (members !== undefined) await requirePrivilege('grant', segments, context);
    const ids = members && idsOfMembers(members, '/members', context);
    const changed = await context.catalog.update(object, {
      spec: describe<RoleSpec>(object.spec, body),
      owner: await newOwner(body.owner, segments, context),
      principal: context.call.actor,
      inTransaction: ids && ((tx) => context.roleMembers.write(tx, object.id, ids)),
    });
    return updated(await render(segments, [changed.object ?? object], context, toRecord));
  },
  delete: (input, context) => commonHandlers.delete(input, context),
  rename: commonHandlers.rename,
  add_members: async ({ segments, body }, context) => {
    const added = () => idsOfMembers(body.members, '/members', context);
    return done(await setMembers(segments, (members) => members.union(added()), context));
  },
  remove_members: async ({ segments, body }, context) => {
    const removed = new Set(body.members.flatMap((name) => context.directory.userNamed(name)?.id ?? []));
    return done(await setMembers(segments, (members) => members.difference(removed), context));
  },
  search: findByName(rolesApi, toRecord),
});
