// The feed of changes: what one server changes is in force in its own caches when the commit returns, and in those of another server on
// the same store once that has polled. Here both servers are in one process, because SQLite locks its
// file for one process.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { sql } from 'kysely';
import { assembleAccess } from '../../src/access/assemble_access.ts';
import { AuditTrail } from '../../src/access/audit/audit_log.ts';
import { FailedLoginsInMemory } from '../../src/access/authentication/failed_logins.ts';
import type { ProviderSpec } from '../../src/access/authentication/identity_providers.ts';
import { Directory } from '../../src/access/authorization/directory.ts';
import type { UserSpec } from '../../src/access/authorization/directory_types.ts';
import { openSecrets } from '../../src/access/secrets/secrets.ts';
import { assembleWarehouses } from '../../src/catalog/assemble_warehouses.ts';
import { RecordCache } from '../../src/catalog/record_cache.ts';
import { duckdbWith } from '../../src/engines/duckdb/duckdb.ts';
import { Confinement } from '../../src/engines/duckdb/sandbox/sandbox.ts';
import type { BackendSpec } from '../../src/model/records.ts';
import { hostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { Failure } from '../../src/standard/failure.ts';
import { ChangeFeed } from '../../src/store/changes/change_feed.ts';
import { LeaseHolder } from '../../src/store/leases.ts';
import type { Store } from '../../src/store/store.ts';
import { path, principal as root, WarehouseInTest } from '../catalog/catalog_and_engine.ts';
import { EngineInMemory } from '../catalog/engine_in_memory.ts';
import { eventually } from '../deadline.ts';
import { Random, seedFrom } from '../random.ts';
import { type StoreOptions, storesOf } from '../stores.ts';

const inTest = storesOf(import.meta.url);
const directory = mkdtempSync(join(tmpdir(), 'tabularium-changes-'));
const stores: Store[] = [];
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});
after(() => rmSync(directory, { recursive: true, force: true }));
const observe = (observed: { readonly kind: string; readonly error?: unknown }) => {
  if (observed.kind === 'backgroundError') throw observed.error;
};

class ServerInTest {
  readonly changes: ChangeFeed;
  readonly warehouse: WarehouseInTest;
  readonly records: RecordCache;
  readonly access: Awaited<ReturnType<typeof assembleAccess>>;

  private constructor(
    changes: ChangeFeed,
    warehouse: WarehouseInTest,
    records: RecordCache,
    access: Awaited<ReturnType<typeof assembleAccess>>,
  ) {
    this.changes = changes;
    this.warehouse = warehouse;
    this.records = records;
    this.access = access;
  }

  static async start(store: Store, file: string, engine: EngineInMemory, serverId: string, clock = Date.now) {
    const changes = await ChangeFeed.open({ store, serverId, observe, clock });
    const holder = new LeaseHolder(serverId);
    const secrets = await openSecrets({ store, dataDirectory: directory });
    const audit = new AuditTrail({ store, observe, serverId, key: secrets.derive('audit'), retentionDays: 1 });
    const warehouse = new WarehouseInTest({ stores: inTest, place: file, store, changes }, engine, {
      trail: audit,
      holder,
    });
    const records = new RecordCache(changes, 1_000_000);
    const access = await assembleAccess({
      store,
      holder,
      changes,
      observe,
      secrets,
      audit,
      catalog: warehouse.catalog,
      rootToken: 'tbl_root_none',
      failedLogins: new FailedLoginsInMemory({
        settings: {
          failedLoginsPerAddressMax: 1000,
          failedLoginsPerUserAndAddressMax: 1000,
          failedLoginsPerUserMax: 1000,
          failedLoginsWindowSeconds: 60,
          failedLoginWaitSecondsMax: 1,
          unknownAddressLoginsPerMinuteMax: 1000,
          knownAddressHours: 1,
        },
        networkOf: (address) => address,
      }),
      identityProviderHosts: hostAllowlist('identityProviderHosts', '*'),
      createUser: async () => undefined,
    });
    return new ServerInTest(changes, warehouse, records, access);
  }

  get catalog() {
    return this.warehouse.catalog;
  }

  get directory() {
    return this.access.directory;
  }

  async create(category: string, name: string, spec: object = {}): Promise<string> {
    const { object } = await this.catalog.create({
      parent: null,
      category,
      name,
      spec,
      principal: root,
      ifExists: 'fail',
    });
    return object.id;
  }

  async setMembers(role: string, ...userIds: string[]): Promise<void> {
    const [object] = await this.catalog.require([{ category: 'roles', name: role }]);
    const inTransaction = (tx: Parameters<typeof this.access.roleMembers.write>[0]) =>
      this.access.roleMembers.write(tx, object.id, new Set(userIds));
    await this.catalog.update(object, { principal: root, inTransaction });
  }

  async mayRead(user: string, ...names: string[]): Promise<boolean> {
    const id = this.directory.userNamed(user)?.id ?? 'nobody';
    const target = { category: 'catalogs', path: path(...names) };
    try {
      await this.access.access.authorizer.authorize({ id, name: user }, { privilege: 'read', on: 'object' }, target);
      return true;
    } catch (error) {
      assert.ok(error instanceof Failure && error.code === 'FORBIDDEN', String(error));
      return false;
    }
  }

  /** Whether the record was cached; it is from now on. */
  cached(key: string, ...dependsOn: string[]): boolean {
    if (this.records.get(key)) return true;
    this.records.add(key, { bodyBytes: 1 }, dependsOn, this.records.generation);
    return false;
  }

  signIn = async (secret: string) => this.access.access.authenticate(`Bearer ${secret}`, '127.0.0.1');
}

async function openStore(options: StoreOptions) {
  const { store, place } = await inTest.open(options);
  stores.push(store);
  return { store, place };
}

/** Two servers on one store, with the table c.d.t. */
async function twoServers(clock?: () => number) {
  const { place: file, store } = await openStore({ isShared: true });
  const engine = new EngineInMemory();
  const one = await ServerInTest.start(store, file, engine, 'one', clock);
  const other = await ServerInTest.start(store, file, engine, 'other', clock);
  await one.warehouse.createCatalog('c');
  await one.warehouse.createDatabase('c', 'd');
  const { object: table } = await one.warehouse.createTable('c', 'd', 't');
  const chain = await one.catalog.require(path('c', 'd', 't'));
  return { store, one, other, table, ids: chain.map(({ id }) => id) };
}

const tokenOf = { name: 'nightly', scopes: undefined, expiresAt: undefined };

test('users, grants, members and tokens of one server are in force on the other after a poll', async () => {
  const { one, other, ids } = await twoServers();
  const ann = await one.create('users', 'ann');
  const readers = await one.create('roles', 'readers');
  await one.setMembers('readers', ann);
  const made = await one.access.grants.create(readers, 'read', ids, root);
  const { row, secret } = await one.access.tokens.create({ userId: ann, ...tokenOf }, root);
  assert.equal(await one.mayRead('ann', 'c', 'd', 't'), true);
  assert.equal(other.directory.userNamed('ann'), undefined);
  await other.changes.poll();
  assert.equal(await other.mayRead('ann', 'c', 'd', 't'), true);
  const session = await other.signIn(secret);
  assert.equal(session.principal.id, ann);

  assert.ok(made);
  await one.access.grants.remove(made.grant, root);
  assert.equal(await one.mayRead('ann', 'c', 'd', 't'), false);
  await other.changes.poll();
  assert.equal(await other.mayRead('ann', 'c', 'd', 't'), false);

  await one.access.grants.create(readers, 'read', ids.slice(0, 1), root);
  await other.changes.poll();
  assert.equal(await other.mayRead('ann', 'c', 'd', 't'), true);
  await one.setMembers('readers');
  await other.changes.poll();
  assert.equal(await other.mayRead('ann', 'c', 'd', 't'), false);
  assert.equal(other.directory.membersOf(readers).size, 0);

  await one.access.tokens.remove(row, root);
  await other.changes.poll();
  assert.equal(other.access.access.isValid(session), false);
  await assert.rejects(other.signIn(secret), { code: 'UNAUTHENTICATED' });
});

test('a disabled user and a changed password are in force on the other server after a poll', async () => {
  const { one, other } = await twoServers();
  const ann = await one.create('users', 'ann', { passwordHash: 'first' });
  await other.changes.poll();
  const [object] = await one.catalog.require([{ category: 'users', name: 'ann' }]);
  const spec: UserSpec = { passwordHash: 'second', disabled: true };
  await one.catalog.update(object, { spec, principal: root });
  await other.changes.poll();
  assert.deepEqual(other.directory.userNamed('ann')?.spec, spec);
  assert.equal(other.directory.isActive({ id: ann, name: 'ann' }), false);
  const [changed] = await one.catalog.require([{ category: 'users', name: 'ann' }]);
  await one.catalog.drop(changed, { principal: root, cascade: true });
  await other.changes.poll();
  assert.equal(other.directory.users.has(ann), false);
});

test('records and paths that one server changes are not cached on the other after a poll', async () => {
  const { one, other, table, ids } = await twoServers();
  const ann = await one.create('users', 'ann');
  await one.access.grants.create(ann, 'read', ids, root);
  await other.changes.poll();
  assert.equal(await other.mayRead('ann', 'c', 'd', 't'), true);
  const isCached = () => other.cached('the table', table.id);
  assert.equal(isCached(), false);
  assert.equal(isCached(), true);
  await one.warehouse.rename(['c', 'd', 't'], 'u');
  assert.equal(isCached(), true);
  await other.changes.poll();
  assert.equal(isCached(), false);
  await one.catalog.saveStatistics(table.id, { rowCount: 3, dataBytes: 4, asOf: '2026-01-31T00:00:00.000Z' });
  await other.changes.poll();
  assert.equal(isCached(), false);
  await one.warehouse.rename(['c', 'd'], 'e');
  await other.changes.poll();
  assert.equal(await other.mayRead('ann', 'c', 'd', 'u'), false);
  assert.equal(await other.mayRead('ann', 'c', 'e', 'u'), true);
});

test('grants on a dropped object have no effect on the other server until it is restored', async () => {
  const { one, other, table, ids } = await twoServers();
  const ann = await one.create('users', 'ann');
  await one.access.grants.create(ann, 'read', ids, root);
  await other.changes.poll();
  const effective = () => [...other.directory.effectiveGrantsOf(ann)].length;
  assert.equal(effective(), 1);
  await one.warehouse.hide(['c', 'd', 't'], 60);
  await other.changes.poll();
  assert.equal(effective(), 0);
  await one.warehouse.undrop(['c', 'd', 't'], 't');
  await other.changes.poll();
  assert.equal(effective(), 1);
  await one.warehouse.drop(['c', 'd', 't']);
  await other.changes.poll();
  assert.equal(other.directory.grantsOf(ann).size, 0, `${table.id} no longer exists`);
});

test('a refused drop leaves the grants on the object in force', async () => {
  const { one, ids } = await twoServers();
  const ann = await one.create('users', 'ann');
  await one.access.grants.create(ann, 'read', ids, root);
  one.warehouse.engine.fault = () => {
    throw new Failure('CHANGE_NOT_SUPPORTED', 'not now');
  };
  await assert.rejects(one.warehouse.drop(['c', 'd', 't']), { code: 'CHANGE_NOT_SUPPORTED' });
  assert.equal(await one.mayRead('ann', 'c', 'd', 't'), true);
});

test('identity providers of one server are known to the other after a poll, and to its own when the change returns', async () => {
  const { one, other } = await twoServers();
  const provider: ProviderSpec = {
    issuer: 'https://one.invalid',
    audiences: ['x'],
    algorithms: ['RS256'],
    userClaim: 'sub',
    roleMapping: {},
    createUsers: false,
    disabled: false,
    hasClientSecret: false,
  };
  const id = await one.create('identity_providers', 'company', provider);
  assert.ok(one.access.identityProviders.rolesOf(id));
  assert.equal(other.access.identityProviders.rolesOf(id), undefined);
  await other.changes.poll();
  assert.ok(other.access.identityProviders.rolesOf(id));
  const [object] = await one.catalog.require([{ category: 'identity_providers', name: 'company' }]);
  await one.catalog.update(object, { spec: { ...provider, disabled: true }, principal: root });
  assert.equal(one.access.identityProviders.rolesOf(id), undefined);
  await other.changes.poll();
  assert.equal(other.access.identityProviders.rolesOf(id), undefined);
});

test('a backend that one server disables is not available on the other after a poll', async () => {
  const { store, one, other } = await twoServers();
  const engine = duckdbWith({ confinement: new Confinement('off'), spareEngine: false, analysisTimeoutMs: 1000 });
  const parts = {
    store,
    observe,
    dataDirectory: directory,
    spoolDirectory: directory,
    disk: { requireRoom: () => {}, message: undefined },
    secrets: await openSecrets({ store, dataDirectory: directory }),
    settings: { queueWaitMs: 1000 },
    loading: { directories: [] },
  };
  const warehouses = assembleWarehouses(parts, other.catalog, [engine]);
  other.changes.follow(warehouses);
  const { object: parent } = await one.catalog.create({
    parent: null,
    category: 'warehouses',
    name: 'w',
    spec: { engine: engine.name },
    principal: root,
    ifExists: 'fail',
  });
  const spec: BackendSpec = { disabled: false, location: 'embedded' };
  const backend = { parent, category: 'backends', name: 'b', spec, principal: root, ifExists: 'fail' } as const;
  const { object } = await one.catalog.create(backend);
  await other.changes.poll();
  assert.equal(await warehouses.availableBackends('w'), 1);
  await one.catalog.update(object, { spec: { ...spec, disabled: true }, principal: root });
  assert.equal(await warehouses.availableBackends('w'), 1);
  await other.changes.poll();
  assert.equal(await warehouses.availableBackends('w'), 0);
});

test('a server polls by itself once it has started', async () => {
  const { one, other } = await twoServers();
  other.changes.start();
  try {
    await one.create('users', 'ann');
    await eventually('the other server knows the user', () => other.directory.userNamed('ann'));
  } finally {
    await other.changes.stop();
  }
});

test('a server that lost rows of the feed reloads everything', async () => {
  let now = Date.now();
  const { store, one, other, table, ids } = await twoServers(() => now);
  const ann = await one.create('users', 'ann');
  const made = await one.access.grants.create(ann, 'read', ids, root);
  assert.ok(made);
  await other.changes.poll();
  assert.equal(await other.mayRead('ann', 'c', 'd', 't'), true);
  other.cached('the table', table.id);
  await one.access.grants.remove(made.grant, root);
  await one.create('users', 'bob');
  now += 11 * 60_000;
  await one.changes.sweep();
  const rows = await store.db.selectFrom('changes').select(['server_id', 'kind']).execute();
  assert.deepEqual(
    rows.map((row) => ({ ...row })),
    [{ server_id: 'one', kind: 'object' }],
    'the newest row is kept',
  );
  const lost: string[] = [];
  other.changes.follow({ changed: (change) => void lost.push(change.kind), reload: () => void lost.push('all') });
  await other.changes.poll();
  assert.deepEqual(lost, ['all']);
  assert.equal(await other.mayRead('ann', 'c', 'd', 't'), false);
  assert.ok(other.directory.userNamed('bob'));
  assert.equal(other.cached('the table', table.id), false);
  await one.create('users', 'eva');
  await other.changes.poll();
  assert.deepEqual(lost, ['all', 'object']);
});

// PostgreSQL's feed has connections of its own, in which no statement fails for a test.
if (inTest.name === 'SQLite')
  test('a poll that fails is repeated by the next one', async () => {
    let failing = false;
    const { place: file, store } = await openStore({
      isShared: true,
      inject: ({ sql }) => {
        if (failing && /from "objects" where "id" in/.test(sql)) throw new Error('the store does not answer');
      },
    });
    const faults: unknown[] = [];
    const one = await ChangeFeed.open({ store, serverId: 'one', observe });
    const other = await ChangeFeed.open({
      store,
      serverId: 'other',
      observe: (observed) => void faults.push(observed.kind),
    });
    const seen: string[] = [];
    other.follow({ changed: (change) => void seen.push(change.kind), reload: () => assert.fail('nothing was lost') });
    const { catalog } = new WarehouseInTest({ stores: inTest, place: file, store, changes: one }, new EngineInMemory());
    await catalog.create({ parent: null, category: 'users', name: 'ann', spec: {}, principal: root, ifExists: 'fail' });
    failing = true;
    await other.poll();
    assert.deepEqual([seen, faults], [[], ['backgroundError']]);
    failing = false;
    await other.poll();
    assert.deepEqual(seen, ['object']);
  });

test('a transaction that is rolled back changes nothing for followers', async () => {
  const { store, one, other } = await twoServers();
  await other.changes.poll();
  const last = await store.db.selectFrom('changes').selectAll().execute();
  const seen: string[] = [];
  for (const { changes } of [one, other])
    changes.follow({ changed: (change) => void seen.push(change.kind), reload: () => void seen.push('all') });
  await assert.rejects(
    store.transaction(async (tx) => {
      one.changes.append(tx, { kind: 'members', roleId: 'r', userIds: [] });
      throw new Error('refused');
    }),
    /refused/,
  );
  await other.changes.poll();
  assert.deepEqual(seen, []);
  assert.deepEqual(await store.db.selectFrom('changes').selectAll().execute(), last);
});

if (inTest.name === 'SQLite')
  test('a store of one server is not charged for the feed: no rows, and no further statement', async () => {
    const statements: string[] = [];
    const { store, place: file } = await openStore({ inject: ({ sql }) => void statements.push(sql) });
    const server = await ServerInTest.start(store, file, new EngineInMemory(), 'one');
    await server.create('users', 'ann');
    await server.warehouse.createCatalog('c');
    await server.changes.sweep();
    assert.ok(server.directory.userNamed('ann'));
    assert.deepEqual(
      statements.filter((sql) => /"changes"/.test(sql) && !/^create |^insert into "schema_versions"/.test(sql)).length,
      1,
      'only the first row, which the migration writes',
    );
  });

if (inTest.name === 'PostgreSQL')
  test('a change is not missed that commits after one with a later position', async () => {
    const { store, place } = await openStore({});
    // Transactions of one store run one after the other.
    const { store: third } = await openStore({ place });
    const one = await ChangeFeed.open({ store, serverId: 'one', observe });
    const other = await ChangeFeed.open({ store, serverId: 'other', observe });
    const lateOne = await ChangeFeed.open({ store: third, serverId: 'third', observe });
    const seen: string[] = [];
    other.follow({
      changed: (change) => void (change.kind === 'members' && seen.push(change.roleId)),
      reload: () => assert.fail('nothing was lost'),
    });
    const written = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const early = store.transaction(async (tx) => {
      one.append(tx, { kind: 'members', roleId: 'early', userIds: [] });
      const wait = async () => {
        written.resolve();
        await released.promise;
      };
      // After the change has its position.
      store.atEnd(tx, { write: wait, committed: () => undefined });
    });
    await written.promise;
    let isLateDone = false;
    const late = third
      .transaction(async (tx) => lateOne.append(tx, { kind: 'members', roleId: 'late', userIds: [] }))
      .then(() => {
        isLateDone = true;
      });
    const waiting = sql`select 1 from pg_locks where locktype = 'advisory' and not granted
      and database = (select oid from pg_database where datname = current_database())`;
    await eventually(
      'the later transaction waits, or has passed the earlier one',
      async () => isLateDone || (await waiting.execute(store.db)).rows.length > 0,
    );
    await other.poll();
    released.resolve();
    await Promise.all([early, late]);
    await other.poll();
    assert.deepEqual(seen.sort(), ['early', 'late']);
  });

test('random changes on both servers leave both directories as the store has them', async (t) => {
  const random = new Random(seedFrom('TEST_SEED'));
  t.diagnostic(`TEST_SEED=${random.seed}`);
  for (let round = 0; round < 4; round++) {
    const { store, one, other, ids } = await twoServers();
    const servers = [one, other];
    const userIds: string[] = [];
    for (const name of ['ann', 'bob', 'eva']) userIds.push(await one.create('users', name));
    const readers = await one.create('roles', 'readers');
    await other.changes.poll();
    const grantees = [...userIds, readers];
    const step = async (): Promise<void> => {
      const server = servers[random.below(2)] as ServerInTest;
      const { grants, tokens } = server.access;
      const grantee = grantees[random.below(grantees.length)] as string;
      const kind = random.below(6);
      if (kind === 0) return void (await server.changes.poll());
      if (kind === 1) await grants.create(grantee, 'read', ids.slice(0, 1 + random.below(3)), root);
      const [grant] = server.directory.grantsOf(grantee).values();
      if (kind === 2 && grant) await grants.remove(grant, root);
      if (kind === 3) await server.setMembers('readers', ...userIds.filter(() => random.below(2) === 0));
      const userId = userIds[random.below(userIds.length)] as string;
      const [existing] = await tokens.list(userId, { limit: 1 });
      if (kind === 4 && !existing) await tokens.create({ userId, ...tokenOf }, root);
      if (kind === 5 && existing) await tokens.remove(existing, root);
    };
    // Several at once, so that changes commit while a poll reads. A change of the role that another one has overtaken is refused.
    for (let n = 0; n < 40; n++) await Promise.allSettled(Array.from({ length: 5 }, step));
    for (const { changes } of servers) await changes.poll();
    const stored = new Directory();
    await stored.load(store);
    for (const { directory } of servers)
      assert.deepEqual(contentsOf(directory, grantees), contentsOf(stored, grantees));
  }
});

function contentsOf(directory: Directory, grantees: readonly string[]) {
  return {
    users: [...directory.users.keys()].sort(),
    tokens: [...directory.tokens.keys()].sort(),
    grants: grantees.map((id) => [...directory.grantsOf(id).values()].sort((a, b) => (a.grantId < b.grantId ? -1 : 1))),
    rights: grantees.map((id) => [...directory.rightsOf({ id, name: '' }).readableIds()].sort()),
    members: grantees.map((id) => [...directory.membersOf(id)].sort()),
  };
}
