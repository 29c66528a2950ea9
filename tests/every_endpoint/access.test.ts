// Who may call every endpoint, by grants: none, on something else, all but the required one; exactly the required one, on an
// ancestor, through a role, by ownership. Derived from the declarations, so that new endpoints are covered.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { privileges } from '../../src/model/privileges.ts';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import type { GrantedPrivilege } from '../access/people.ts';
import { Budget } from '../budget.ts';
import { Random, seedFrom } from '../random.ts';
import { type Reply, type TestServer, uri } from '../server.ts';
import { extraNeeds, openToAll, refusedToNewOwner, submitted } from './access_needs.ts';
import {
  attempt,
  type GrantTarget,
  makeParams,
  newTestUser,
  privilegeOf,
  startWorld,
  type TestUser,
  targetOf,
  uriOfParent,
  uriOfSibling,
  uriOfTarget,
  type World,
  wasAllowed,
  withCredentials,
  withGrants,
} from './access_world.ts';
import { freshName } from './fixtures.ts';
import { keyOf, nameOf, operations, type Params, titleOf } from './operation_call.ts';
import { testedIn, worldOf } from './worlds.ts';

const servers = worldOf(import.meta.url);
const operationsElsewhere = 16;
let world: World;
let server: TestServer;
/** By what they have: `nothing`, `all but <privilege>`, `role` (only what that role has), and what a test grants them. */
const people = new Map<string, TestUser>();
const userWith = (accessKind: string) => people.get(accessKind) as TestUser;

before(async () => {
  world = await startWorld(servers);
  server = world.server;
  for (const accessKind of ['nothing', 'beside', 'exactly', 'above', 'role', 'owner', 'private'])
    people.set(accessKind, await newTestUser(server));
  (await server.put('/api/v2/roles/readers', { members: [userWith('role').name] })).is(201);
  for (const missingPrivilege of privileges) {
    const person = await newTestUser(server);
    people.set(`all but ${missingPrivilege}`, person);
    for (const privilege of privileges.filter((candidate) => candidate !== missingPrivilege && candidate !== 'own'))
      (await server.post(`${person.path}/grants`, { privilege, on: '/api/v2' })).is(201);
  }
});
after(() => server.close());

const isFirst = (operation: Operation) =>
  operations.find(({ endpoint }) => endpoint === operation.endpoint) === operation;
/** A call that changes nothing can be repeated on the same object. */
const isReading = ({ endpoint }: Operation) => endpoint.permission.privilege === 'read' && endpoint.creates !== true;
const extrasOf = (operation: Operation, params: Params): GrantedPrivilege[] =>
  (extraNeeds[nameOf(operation)] ?? []).map(({ grant: grantFor }) => grantFor(params, operation, servers.warehouse));

function requireForbidden(reply: Reply, summary: string): void {
  assert.equal(`${reply.status} ${reply.code}`, '403 FORBIDDEN', `${summary}: ${reply.request}: ${reply.text}`);
}
const isAllowed = (operation: Operation, reply: Reply) =>
  wasAllowed(operation, reply) || reply.code === servers.refusal(operation);
function allowed(operation: Operation, reply: Reply, summary: string): void {
  assert.ok(isAllowed(operation, reply), `${summary}: ${reply.request}: ${reply.text.slice(0, 500)}`);
}

/** The items that a list or a search showed. */
const itemsOf = (reply: Reply) => Object.values(reply.result).find(Array.isArray) as { name?: string }[] | undefined;

async function nothingIsGranted(operation: Operation, params: Params): Promise<void> {
  const nobody = userWith('nothing');
  const reply = await attempt(nobody, operation, params);
  if (openToAll[nameOf(operation)] === undefined) return requireForbidden(reply, 'nothing granted');
  reply.is(200);
  const otherItems = itemsOf(reply)?.filter(({ name }) => name !== nobody.name) ?? [];
  if (keyOf(operation) !== 'identify') assert.deepEqual(otherItems, [], `shown without a grant: ${reply.text}`);
}

async function tooLittleIsGranted(operation: Operation, params: Params, place: GrantTarget): Promise<void> {
  if (openToAll[nameOf(operation)] !== undefined) return;
  const privilege = privilegeOf(operation);
  const siblingUri = await uriOfSibling(server, place);
  const extras = extrasOf(operation, params);
  await userWith('beside').with([['own', siblingUri], ...extras], async () =>
    requireForbidden(await attempt(userWith('beside'), operation, params), `own on ${siblingUri}`),
  );
  const userWithoutPrivilege = userWith(`all but ${privilege}`);
  requireForbidden(await attempt(userWithoutPrivilege, operation, params), `everything but ${privilege}`);
  // What an engine cannot do may be refused before the privileges in the warehouse are checked.
  if (servers.refusal(operation) !== undefined) return;
  for (const extra of extras) {
    const rest: GrantedPrivilege[] = [
      [privilege, uriOfTarget(place)],
      ...extras.filter((candidate) => candidate !== extra),
    ];
    const reply = await userWith('exactly').with(rest, () => attempt(userWith('exactly'), operation, params));
    assert.ok(
      !isAllowed(operation, reply),
      `${nameOf(operation)} does not need ${extra}: take it from access_needs.ts`,
    );
  }
}

/** A user with exactly the required privileges. Returns trials of the other ways to have them. */
async function enoughIsGranted(operation: Operation, params: Params): Promise<(() => Promise<void>)[]> {
  const privilege = privilegeOf(operation);
  const fixedParams = isReading(operation) ? params : undefined;
  const tryPrivilege = async (description: string, grantPath: (place: GrantTarget) => string) => {
    const person = userWith(description);
    const grantee = description === 'role' ? uri`/roles/readers` : person.path;
    const object = fixedParams ?? (await makeParams(server, operation));
    const grants: GrantedPrivilege[] = [
      [privilege, grantPath(targetOf(operation, object))],
      ...extrasOf(operation, object),
    ];
    await withGrants(server, grantee, grants, async () =>
      allowed(operation, await attempt(person, operation, object), `${description}: ${grants}`),
    );
  };
  await tryPrivilege('exactly', uriOfTarget);
  return [
    () => tryPrivilege('above', uriOfParent),
    () => tryPrivilege('above', () => ''),
    () => tryPrivilege('role', uriOfTarget),
  ];
}

async function ownershipIsEnough(operation: Operation, params: Params): Promise<void> {
  const owner = userWith('owner');
  if (submitted.includes(operation.category.name)) {
    if (operation.endpoint.on === 'collection') return;
    const toSubmit: GrantedPrivilege[] = [
      ['use', `/warehouses/${servers.warehouse}`],
      ['read', '/catalogs/default'],
      ['create', '/uploads'],
    ];
    const ownParams = await owner.with(toSubmit, () => makeParams(owner, operation));
    return owner.with(extrasOf(operation, ownParams), async () =>
      allowed(operation, await attempt(owner, operation, ownParams), 'who submitted it'),
    );
  }
  const object = isReading(operation) ? params : await makeParams(server, operation);
  const { top, path } = targetOf(operation, object);
  const ownedIndex = path.findLastIndex(
    ({ category }) => 'owner' in category.record.properties && category.endpoints.some(({ verb }) => verb === 'update'),
  );
  if (ownedIndex < 0) return;
  const grantTarget = `/api/v2${uriOfTarget({ top, path: path.slice(0, ownedIndex + 1) })}`;
  (await server.patch(grantTarget, { owner: owner.name })).is(200);
  await owner.with(extrasOf(operation, object), async () => {
    const reply = await attempt(owner, operation, object);
    if (reply.code !== refusedToNewOwner[nameOf(operation)]) allowed(operation, reply, `owner of ${grantTarget}`);
  });
}

/** Being the user in the path suffices, but not with a token with scopes. */
async function beingItIsEnough(operation: Operation): Promise<void> {
  if (operation.endpoint.permission.orSelf !== true || !operation.path.includes('/users/{user}')) return;
  const params = await makeParams(server, operation);
  const extras = extrasOf(operation, params);
  const token = async (name: string, scopes?: object) =>
    withCredentials(
      server,
      (await server.post(uri`/users/${params.user as string}/tokens`, { name, ...scopes })).at('secret'),
    );
  const confined = await token('confined', { scopes: [{ privilege: 'own', on: '/api/v2' }] });
  const self = await token('whole');
  await withGrants(server, uri`/users/${params.user as string}`, extras, async () => {
    requireForbidden(await attempt(confined, operation, params), 'the user by a confined token');
    allowed(operation, await attempt(self, operation, params), 'the user');
  });
}

/** What belongs to the caller: neither every privilege nor being the first user gives access to that of somebody else. */
async function onlyItsUserHasAccess(operation: Operation): Promise<void> {
  const owner = userWith('private');
  const toMake: GrantedPrivilege[] = [['create', '/saved_queries']];
  const params = await owner.with(toMake, () => makeParams(owner, operation));
  const before = JSON.stringify((await owner.get('/api/v2/drafts')).is(200).result);
  const otherUsers = {
    root: server,
    'all but read': userWith('all but read'),
    'all but write': userWith('all but write'),
  };
  for (const [description, other] of Object.entries(otherUsers)) {
    const reply = await attempt(other, operation, params);
    if (operation.path.includes('{') && operation.endpoint.verb !== 'delete' && !operation.nameInPath)
      reply.is(404, 'OBJECT_NOT_FOUND');
    else allowed(operation, reply, description);
    for (const id of before.matchAll(/"draftId":"([^"]+)"/g))
      assert.ok(
        !reply.text.includes(id[1] as string) || reply.status === 404,
        `${description} sees ${id[1]}: ${reply.text}`,
      );
  }
  assert.equal(JSON.stringify((await owner.get('/api/v2/drafts')).is(200).result), before, 'unchanged by others');
  const confined = await owner.tokenFor(freshName(), [['read', '/catalogs/default']]);
  requireForbidden(await attempt(confined, operation, params), 'a token with scopes');
  allowed(operation, await attempt(owner, operation, params), 'its user');
}

test('the tables of access_needs.ts name existing endpoints', () => {
  const names = new Set(operations.map(nameOf));
  for (const name of Object.keys({ ...extraNeeds, ...openToAll })) assert.ok(names.has(name), `there is no ${name}`);
});

const seed = seedFrom('TEST_SEED');
const tested = testedIn(servers, operations, operationsElsewhere);
const budget = new Budget(6, tested.filter(isFirst).length);

for (const [i, operation] of tested.entries()) {
  test(`${nameOf(operation)}: ${titleOf(operation)}`, async (t) => {
    if (operation.endpoint.permission.on === 'caller') return onlyItsUserHasAccess(operation);
    const params = await makeParams(server, operation);
    await nothingIsGranted(operation, params);
    const first = isFirst(operation);
    if (first) await tooLittleIsGranted(operation, params, targetOf(operation, params));
    const otherWays = await enoughIsGranted(operation, params);
    if (!first) return;
    t.diagnostic(`TEST_SEED=${seed}`);
    const trials = [...otherWays, () => beingItIsEnough(operation), () => ownershipIsEnough(operation, params)];
    for (const trial of budget.sample(trials, new Random(seed).fork(i))) await trial();
  });
}
