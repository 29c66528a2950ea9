// The registered servers of a warehouse, as the API operates on them: what keeps one from being decommissioned, and its end.
import { codes } from '../../../standard/codes.ts';
import { Failure } from '../../../standard/failure.ts';
import type { DrainBlocker, DrainState, DropOptions, RegisteredServers } from '../../cluster/registered_servers.ts';
import { tabletIdOf } from '../../cluster/registered_servers.ts';
import type { ReplicaFinding } from '../../cluster/replica_notices.ts';
import type { EngineWarehouseOptions } from '../../port/engine.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { isLocal, parsedDatabase, parsedTable } from '../names.ts';
import { catalogOf, type OwnsDatabase, readDatabases, type StoredDatabase } from '../owned_databases.ts';
import { decommissionBlockers } from '../replication/decommission_blockers.ts';
import { isProvenDropped, strayReplicas } from '../replication/missed_changes.ts';
import { type ReplicaState, replicaStates } from '../replication/replica_states.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { Claims, endClaim } from '../steps/claim.ts';
import { wasDropped } from '../steps/dropped_catalogs.ts';
import type { Cluster } from './cluster.ts';
import type { Member } from './member.ts';
import { hasRows, keyOf, type OwnedTable, ownedSchema } from './owned_tables.ts';
import { checkSettings } from './server_facts.ts';
import { isEqual } from './unreplicated_catch_up.ts';

const callMs = 5000;
const dropMs = 120_000;

type NamedTable = Pick<OwnedTable, 'database' | 'name'>;
type Stray = Pick<ReplicaState, 'database' | 'table'>;

interface FoundTables {
  /** Of this warehouse. */
  readonly tables: readonly NamedTable[];
  readonly undecided: readonly NamedTable[];
}

interface Options {
  readonly signal: AbortSignal;
}

export class Registered implements RegisteredServers {
  readonly #cluster: Cluster;
  readonly #owns: () => Promise<OwnsDatabase>;
  readonly #definedObject: EngineWarehouseOptions['definedObject'];

  constructor(
    cluster: Cluster,
    owns: () => Promise<OwnsDatabase>,
    definedObject: EngineWarehouseOptions['definedObject'],
  ) {
    this.#cluster = cluster;
    this.#owns = owns;
    this.#definedObject = definedObject;
  }

  refresh(): Promise<void> {
    return this.#cluster.refresh();
  }

  withdraw(backends: readonly string[]): void {
    this.#cluster.withdraw(backends);
  }

  replicaChanged(backend: string, finding: ReplicaFinding): void {
    this.#cluster.replicaChanged(backend, finding);
  }

  identityOf(backend: string) {
    return this.#cluster.member(backend)?.identity;
  }

  async tableCount(backend: string, { signal }: Options): Promise<number> {
    const { tables, undecided } = await this.#tablesOf(this.#require(backend), signal);
    return tables.length + undecided.length;
  }

  async drainState(backend: string, { signal }: Options): Promise<DrainState> {
    const member = this.#require(backend);
    let found: FoundTables;
    let runningQueries: number;
    try {
      [found, runningQueries] = await Promise.all([
        this.#tablesOf(member, signal),
        this.#runningQueries(member, signal),
      ]);
    } catch {
      signal.throwIfAborted();
      return { remainingTablets: member.facts?.tabletCount ?? 0, runningQueries: 0, blockers: [unreachable] };
    }
    const { tables, undecided } = found;
    const blockers: DrainBlocker[] = undecided.map((table) => undecidedBlocker(member, table));
    if (runningQueries > 0) {
      const message = `${runningQueries} statements still run on the backend`;
      blockers.push({ reason: 'runningQueries', table: null, tabletId: null, message });
    }
    const peers = this.#peersOf(member);
    blockers.push(...(await this.#lastReplicas(member, tables, peers, signal)));
    const isWritten = async () => this.#isWrittenByOthers(member, peers, signal).catch(throwPassing);
    if (tables.length > 0 && (await isWritten())) blockers.push(writtenByCluster);
    return { remainingTablets: tables.length + undecided.length, runningQueries, blockers };
  }

  async cancelStatements(backend: string, { signal }: Options): Promise<readonly string[]> {
    const { server, runningWhere } = this.#require(backend);
    const call = { timeoutMs: callMs, signal, settings: checkSettings };
    const sql = `SELECT query_id AS id FROM system.processes WHERE ${runningWhere}`;
    const running = await server.rows<{ id: string }>({ ...call, sql }).catch(() => []);
    // Also if it did not say what runs on it.
    await server.text({ ...call, sql: `KILL QUERY WHERE ${runningWhere} ASYNC` }).catch(() => undefined);
    signal.throwIfAborted();
    return running.map(({ id }) => id);
  }

  async dropTables(backend: string, { signal, confirm }: DropOptions): Promise<void> {
    const member = this.#require(backend);
    const claims = new Claims(member.dropKey, confirm);
    try {
      await this.#dropTables(member, await claims.of(member.server), { signal, confirm });
    } catch (error) {
      throwPassing(error);
    } finally {
      await claims.drop();
    }
  }

  async endDrops(backend: string): Promise<void> {
    const { server, dropKey } = this.#require(backend);
    await endClaim(server, dropKey).catch(throwPassing);
  }

  /** `claimed`: refuses what is dropped when another server of this product has taken over. */
  async #dropTables(member: Member, claimed: ClickHouseServer, { signal, confirm }: DropOptions): Promise<void> {
    const { server } = member;
    const owns = await this.#owns();
    const strayTables = await this.#strays(member, owns);
    if ((await this.#undecided(member, { owns, strays: strayTables, signal })).length > 0)
      throw new Failure('CHANGE_IN_PROGRESS', 'the backend has tables meanwhile of which nothing says whose they are');
    const settings = { ...checkSettings, max_table_size_to_drop: 0 };
    const drop = (what: string) => claimed.text({ sql: `DROP ${what} SYNC`, timeoutMs: dropMs, signal, settings });
    for (;;) {
      // Each time anew: a drop takes long, and the name of the next one may be that of another catalog by then.
      const { databases, tables } = await ownedSchema(server, { owns, timeoutMs: callMs, signal });
      const [database] = databases;
      if (!database) break;
      const ofDatabase = tables.filter((table) => table.database === database.name && hasRows(table));
      await confirm();
      await this.#requireOthers(member, ofDatabase, { owns, signal });
      await drop(`DATABASE IF EXISTS ${quoteIdentifier(database.name)}`);
    }
    const strays = Map.groupBy(strayTables, ({ database }) => database);
    for (const [database, ofDatabase] of strays) {
      const named = ofDatabase.map(({ table }) => ({ database, name: table }));
      await confirm();
      await this.#requireOthers(member, named, { owns, signal });
      for (const { table } of ofDatabase) await drop(`TABLE IF EXISTS ${qualifiedName({ database, table })}`);
    }
    for (const database of await readDatabases(server, { timeoutMs: callMs, signal, settings: checkSettings })) {
      if (owns(database) || !(await this.#wasDropped(member, database))) continue;
      await confirm();
      await drop(`DATABASE IF EXISTS ${quoteIdentifier(database.name)}`);
    }
  }

  /** The catalog of a database was dropped while the server was out of service. */
  #wasDropped(member: Member, database: StoredDatabase): Promise<boolean> {
    const peers = this.#peersOf(member).map(({ server }) => server);
    return wasDropped(peers, database, callMs);
  }

  /** Throws if one of the tables is nowhere else any more. */
  async #requireOthers(
    member: Member,
    tables: readonly NamedTable[],
    { owns, signal }: Options & { readonly owns: OwnsDatabase },
  ): Promise<void> {
    const peers = this.#peersOf(member);
    // Copies that do not replicate were compared before; those that remain may have been written since.
    const isLast = this.#cluster.isReplicated
      ? (await this.#lastReplicas(member, tables, peers, signal)).length > 0
      : !(await haveTables(peers, member, tables, { owns, signal }));
    if (isLast) throw new Failure('CHANGE_IN_PROGRESS', 'another replica was lost meanwhile');
  }

  /** Replicas of tables of this warehouse in databases that are not. */
  #strays(member: Member, owns: OwnsDatabase): Promise<readonly Stray[]> {
    if (!this.#cluster.isReplicated) return Promise.resolve([]);
    const peers = this.#peersOf(member).map(({ server }) => server);
    return strayReplicas(member.server, { peers, owns, timeoutMs: callMs });
  }

  #require(backend: string): Member {
    const member = this.#cluster.member(backend);
    if (member) return member;
    throw new Failure('OBJECT_NOT_FOUND', `there is no backend ${JSON.stringify(backend)}`, {
      category: 'backends',
      name: backend,
    });
  }

  /**
   * Tables of which nothing says whose they are, and that the store defines by their names: an operator may have created their database by hand. They
   * are not dropped, and the server is not empty while it has them.
   */
  async #undecided(
    member: Member,
    { owns, strays, signal }: Options & { readonly owns: OwnsDatabase; readonly strays: readonly Stray[] },
  ): Promise<NamedTable[]> {
    const isOfNobody: OwnsDatabase = (each) =>
      !owns(each) && catalogOf(each) === undefined && parsedDatabase(each.name) !== undefined;
    const { tables } = await ownedSchema(member.server, { owns: isOfNobody, timeoutMs: callMs, signal });
    const undecided: NamedTable[] = [];
    for (const { database, name, ...table } of tables) {
      const parsed = parsedDatabase(database);
      const isStray = strays.some((stray) => stray.database === database && stray.table === name);
      if (!parsed || isStray || !isLocal(name) || !hasRows(table)) continue;
      if (await this.#definedObject?.({ ...parsed, table: parsedTable(name) })) undecided.push({ database, name });
    }
    return undecided;
  }

  /** The tables with rows of their own. Throws REMOTE_UNAVAILABLE. */
  async #tablesOf(member: Member, signal: AbortSignal): Promise<FoundTables> {
    const owns = await this.#owns();
    try {
      const { tables } = await ownedSchema(member.server, { owns, timeoutMs: callMs, signal });
      const strays = await this.#strays(member, owns);
      const undecided = await this.#undecided(member, { owns, strays, signal });
      const named = strays.map(({ database, table }) => ({ database, name: table }));
      return { tables: [...tables.filter(hasRows), ...named], undecided };
    } catch (cause) {
      throw new Failure('REMOTE_UNAVAILABLE', 'the backend does not respond', {}, { cause, outcome: 'notApplied' });
    }
  }

  async #runningQueries({ server, runningWhere }: Member, signal: AbortSignal): Promise<number> {
    const sql = `SELECT count() AS running FROM system.processes WHERE ${runningWhere}`;
    const [row] = await server.rows<{ running: string }>({ sql, timeoutMs: callMs, signal, settings: checkSettings });
    return Number(row?.running ?? 0);
  }

  #peersOf(member: Member): Member[] {
    return this.#cluster.members().filter((other) => other !== member && other.isAvailable);
  }

  /** For the tables of which no other server has all rows. */
  async #lastReplicas(
    member: Member,
    tables: readonly NamedTable[],
    peers: readonly Member[],
    signal: AbortSignal,
  ): Promise<DrainBlocker[]> {
    const replicas = peers.filter(({ shard }) => shard === member.shard);
    const complete = this.#cluster.isReplicated
      ? await onOtherReplicas(member, tables, replicas, signal)
      : await onEqualCopies(member, tables, replicas, signal);
    signal.throwIfAborted();
    const tabletId = tabletIdOf(member.shard);
    const message = `no other backend is available that has all rows of tablet ${tabletId} of a table`;
    return tables.flatMap((table): DrainBlocker[] =>
      complete.has(table) ? [] : [{ reason: 'lastReplica', table: shownName(table), tabletId, message }],
    );
  }

  /** Servers that do not replicate write each copy: without the tables of one that their definition contains, all writes would fail. */
  async #isWrittenByOthers(member: Member, peers: readonly Member[], signal: AbortSignal): Promise<boolean> {
    if (this.#cluster.isReplicated) return false;
    const remaining = this.#cluster.members().filter((other) => other !== member && !other.isDisabled).length;
    for (const { server } of peers) {
      const where = `cluster = ${quoteLiteral(this.#cluster.name)}`;
      const sql = `SELECT count() AS members FROM system.clusters WHERE ${where}`;
      const [row] = await server.rows<{ members: string }>({ sql, timeoutMs: callMs, signal, settings: checkSettings });
      if (Number(row?.members ?? 0) > remaining) return true;
    }
    return false;
  }
}

function shownName({ database, name }: NamedTable): DrainBlocker['table'] {
  const parsed = parsedDatabase(database);
  return parsed ? { ...parsed, table: parsedTable(name) } : null;
}

const undecidedBlocker = ({ shard }: Member, table: NamedTable): DrainBlocker => ({
  reason: 'lastReplica',
  table: shownName(table),
  tabletId: tabletIdOf(shard),
  message: `the database ${JSON.stringify(table.database)} on the backend does not say that it belongs to a catalog, so that its tables are not dropped: remove it there`,
});

/** Whether each of the tables is on one of the servers with the same shard. */
async function haveTables(
  servers: readonly Member[],
  { shard }: Member,
  tables: readonly NamedTable[],
  { owns, signal }: Options & { readonly owns: OwnsDatabase },
): Promise<boolean> {
  const needed = new Set(tables.map(keyOf));
  for (const { server } of servers.filter((each) => each.shard === shard)) {
    const { tables: present } = await ownedSchema(server, { owns, timeoutMs: callMs, signal });
    for (const table of present.filter(hasRows)) needed.delete(keyOf(table));
  }
  return needed.size === 0;
}

/** Whatever a server answers, the decommission continues: its own deadline ends it. */
function throwPassing(error: unknown): never {
  if (!(error instanceof ClickHouseError)) throw error;
  const failure = serverFailure(error);
  if (failure instanceof Failure && codes[failure.code].status === 503) throw failure;
  throw new Failure('REMOTE_UNAVAILABLE', 'a backend refuses a statement', {}, { cause: error });
}

async function onEqualCopies(
  { server }: Member,
  tables: readonly NamedTable[],
  copies: readonly Member[],
  signal: AbortSignal,
): Promise<ReadonlySet<NamedTable>> {
  const complete = new Set<NamedTable>();
  for (const table of tables)
    for (const copy of copies)
      if (!complete.has(table) && (await isEqual(server, copy.server, table, { signal }).catch(() => false)))
        complete.add(table);
  return complete;
}

/** Or dropped on them. By the names of parts, which replicas have in common; while rows are written, contents are never the same. */
async function onOtherReplicas(
  { server }: Member,
  tables: readonly NamedTable[],
  replicas: readonly Member[],
  signal: AbortSignal,
): Promise<ReadonlySet<NamedTable>> {
  const complete = new Set<NamedTable>();
  const states = await replicaStates(server, callMs).catch((): ReplicaState[] => []);
  const owned = tables.flatMap((table) => {
    const state = states.find(({ database, table: name }) => database === table.database && name === table.name);
    return state ? { table, state } : [];
  });
  const remaining = replicas.map((replica) => replica.server);
  for (const group of Map.groupBy(owned, ({ state }) => JSON.stringify([state.shard, state.replica])).values()) {
    const [{ replica, shard }] = group.map(({ state }) => state) as [ReplicaState];
    const asked = group.map(({ state: { uuid, database, table: localTable } }) => ({ uuid, database, localTable }));
    const blockers = await decommissionBlockers({
      replica,
      shard,
      tables: asked,
      remaining,
      timeoutMs: callMs,
      signal,
    }).catch(() => asked.map(({ database, localTable: table }) => ({ database, table })));
    const isBlocked = ({ database, name }: NamedTable) =>
      blockers.some((blocker) => blocker.database === database && blocker.table === name);
    for (const { table, state } of group) {
      // What the others have dropped: no row that counts is lost with this one.
      const isDropped = async () =>
        replicas.length > 0 && (await isProvenDropped(server, state, callMs).catch(() => false));
      if (!isBlocked(table) || (await isDropped())) complete.add(table);
    }
  }
  return complete;
}

const unreachable: DrainBlocker = {
  reason: 'unreachable',
  table: null,
  tabletId: null,
  message: 'the backend does not respond, so its tables cannot be dropped',
};

const writtenByCluster: DrainBlocker = {
  reason: 'writtenByCluster',
  table: null,
  tabletId: null,
  message:
    'the other servers still write copies to the backend: remove it from their definition of the cluster; nothing is written until then',
};
