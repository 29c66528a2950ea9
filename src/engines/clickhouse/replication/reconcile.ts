// Brings a server that was away to the definitions of the servers that count: what it missed is created, renamed and dropped.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Failure } from '../../../standard/failure.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { hiddenDatabase } from '../names.ts';
import { catalogOf, isSameDatabase, type OwnsDatabase, type StoredDatabase } from '../owned_databases.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { endClaim, reconcileKey, withClaim } from '../steps/claim.ts';
import { wasDropped } from '../steps/dropped_catalogs.ts';
import { replicasInKeeper } from './keeper.ts';
import { asideDatabase, isProvenDropped } from './missed_changes.ts';
import { pathOfTable } from './replicated_tables.ts';
import { replicationFeatures } from './replication_features.ts';
import { macroOf } from './server_macros.ts';
import {
  type AgreedSchema,
  agreedSchema,
  createDatabaseAs,
  keyOf,
  readSchema,
  readWholeSchema,
  type ServerSchema,
  type StoredObject,
  type WholeSchema,
} from './server_schema.ts';

export interface ReconcileOptions {
  /** The servers that count, of any shard. */
  readonly peers: readonly ClickHouseServer[];
  /** False for the databases of the servers themselves and of other users, in which nothing is changed. */
  readonly owns: OwnsDatabase;
  /**
   * Whether the store defines the object. It is left as it is if no peer has anything of its name: then the peers have lost it, or are new. Absent:
   * what no peer has is taken for dropped.
   */
  readonly isDefined?: ((name: StoredName) => Promise<boolean>) | undefined;
  /** For each statement. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Tables that it lacks are not created: it only loses names, and tables that were dropped. */
  readonly isWithoutCreation?: boolean;
}

export type StoredName = Pick<StoredObject, 'database' | 'name'>;

/** What was done, as names; of tables that changed their name, the new one. */
export interface ReconcileReport {
  readonly created: readonly string[];
  readonly renamed: readonly string[];
  readonly dropped: readonly string[];
  /** Tables with rows of which nothing proves that they were dropped, or to which catalog they belonged: they are in the database `asideDatabase`, named by their UUID. */
  readonly movedAside: readonly string[];
  /** Objects that were left as they are, because the peers do not agree on them: a change is under way that will reach this server, too. And those that they have lost. */
  readonly undecided: readonly string[];
}

/** For changes of what was created, which are under way on the peers. */
const settleMs = 5000;
const settlePauseMs = 200;

/** Thrown before the first statement that changes something. */
class ChangeNeeded extends Error {}

/**
 * Idempotent; a call that fails half-way is repeated. The server must not count, so that no one uses what is created again. Throws what a
 * server answers, CHANGE_IN_PROGRESS if another process is at it, and a TypeError without peers: then nothing says what should be there.
 *
 * One process at a time changes the server. Whoever finds later that nothing is to be changed, or makes a change of its own there, ends the right
 * of the others to do so: what they compared may be out of date. Servers that cannot drop replicas are not given claims either.
 */
export async function reconcile(server: ClickHouseServer, options: ReconcileOptions): Promise<ReconcileReport> {
  if (options.peers.length === 0) throw new TypeError('a server is reconciled with at least one other');
  if (!replicationFeatures(server.version).dropReplica) return reconciled(server, server, options);
  try {
    const report = await new Reconciliation(server, undefined, options, new Set()).run();
    await endClaim(server, reconcileKey);
    return report;
  } catch (error) {
    if (!(error instanceof ChangeNeeded)) throw error;
  }
  return withClaim(server, reconcileKey, (claimed) => reconciled(server, claimed, options));
}

/**
 * Another process may drop or rename an object on all servers between the moment at which the peers are read and that at which it is changed
 * here. So what was changed is compared with the peers again.
 */
async function reconciled(
  server: ClickHouseServer,
  claimed: ClickHouseServer,
  options: ReconcileOptions,
): Promise<ReconcileReport> {
  const createdKeys = new Set<string>();
  const compare = () => new Reconciliation(server, claimed, options, createdKeys).run();
  let report = await compare();
  const endMs = performance.now() + settleMs;
  for (let last = report; isChanged(last) || last.undecided.some((key) => createdKeys.has(key)); ) {
    if (!isChanged(last)) {
      if (performance.now() > endMs) break;
      await pause(settlePauseMs);
    } else if (performance.now() > endMs)
      throw new Failure('CHANGE_IN_PROGRESS', 'the tables of other servers are being changed');
    last = await compare();
    report = combined(report, last);
  }
  return report;
}

const isChanged = ({ created, renamed, dropped, movedAside }: ReconcileReport): boolean =>
  created.length + renamed.length + dropped.length + movedAside.length > 0;

const combined = (first: ReconcileReport, then: ReconcileReport): ReconcileReport => ({
  created: [...first.created, ...then.created],
  renamed: [...first.renamed, ...then.renamed],
  dropped: [...first.dropped, ...then.dropped],
  movedAside: [...first.movedAside, ...then.movedAside],
  undecided: then.undecided,
});

const hasRows = ({ uuid }: StoredObject): boolean => uuid !== undefined;
const isDerived = ({ engine }: StoredObject): boolean => engine === 'Distributed' || engine === 'View';
const nameOf = ({ database, name }: StoredName): string => `${database}.${name}`;
const quoted = ({ database, name }: StoredName): string => qualifiedName({ database, table: name });

/** In the names of databases that had no comment, as early builds created them, and were in the way of those that peers have. */
const unmarked = 'unmarked';

/** Nothing says whose it is, but all its tables with rows are tables that peers have. */
function isUnmarked(
  { name, comment }: StoredDatabase,
  { objects }: Pick<ServerSchema, 'objects'>,
  agreed: AgreedSchema['objects'],
): boolean {
  const contents = objects.filter(({ database }) => database === name);
  const isAgreed = ({ uuid }: StoredObject) => uuid !== undefined && agreed.has(uuid);
  return comment === '' && contents.some(hasRows) && contents.every((each) => isDerived(each) || isAgreed(each));
}

class Reconciliation {
  readonly #server: ClickHouseServer;
  readonly #claimed: ClickHouseServer | undefined;
  readonly #options: ReconcileOptions;
  /** Of the objects that this and earlier comparisons have created. */
  readonly #createdKeys: Set<string>;
  readonly #report = {
    created: [] as string[],
    renamed: [] as string[],
    dropped: [] as string[],
    movedAside: [] as string[],
    undecided: [] as string[],
  };

  /** `claimed`: for statements that change the server. Undefined: none is sent, and ChangeNeeded is thrown instead. */
  constructor(
    server: ClickHouseServer,
    claimed: ClickHouseServer | undefined,
    options: ReconcileOptions,
    createdKeys: Set<string>,
  ) {
    this.#server = server;
    this.#claimed = claimed;
    this.#createdKeys = createdKeys;
    this.#options = options;
  }

  async run(): Promise<ReconcileReport> {
    const { peers, owns, timeoutMs } = this.#options;
    const others = await Promise.all(peers.map((server) => readSchema(server, owns, timeoutMs)));
    const agreed = agreedSchema(others);
    const { others: ofOthers, ...schema } = await this.#ownSchema(agreed);
    const isSettled = (object: StoredObject) => !agreed.undecided.has(keyOf(object));
    this.#report.undecided.push(...agreed.undecided);
    for (const database of agreed.databases)
      if (!schema.databases.some((each) => isSameDatabase(each, database))) await this.#createDatabase(database);
    const lostByPeers = await this.#lostByPeers(schema.objects.filter(isSettled), agreed);
    const settled = schema.objects.filter((object) => isSettled(object) && !lostByPeers.has(object));
    const superfluous = settled.filter((object) => !agreed.objects.has(keyOf(object)));
    const needed = [...agreed.objects.values()];
    // Views and Distributed tables have no rows, and occupy names.
    const isCurrent = (object: StoredObject) => {
      const wanted = agreed.objects.get(keyOf(object));
      return wanted !== undefined && this.#isSameDefinition(object, wanted, schema, others);
    };
    for (const object of settled.filter(isDerived)) if (!isCurrent(object)) await this.#dropDerived(object);
    for (const object of superfluous.filter(hasRows)) await this.#retire(object);
    await this.#rename(settled.filter(hasRows), agreed.objects);
    await this.#clearAbandoned(ofOthers, agreed);
    const present = new Set(settled.filter((object) => hasRows(object) || isCurrent(object)).map(keyOf));
    const absent = needed.filter((object) => !present.has(keyOf(object)));
    if (!this.#options.isWithoutCreation) {
      await this.#createReplicas(absent.filter(hasRows));
      await this.#createDerived(absent.filter(isDerived));
    }
    for (const database of schema.databases)
      if (!agreed.databasesOfAny.some((each) => isSameDatabase(each, database)))
        await this.#dropDatabase(database.name);
    return this.#report;
  }

  /** What the store defines and only this server has. */
  async #lostByPeers(objects: readonly StoredObject[], { objects: agreed }: AgreedSchema): Promise<Set<StoredObject>> {
    const { isDefined } = this.#options;
    const names = new Set([...agreed.values()].map(nameOf));
    const lost = new Set<StoredObject>();
    for (const object of objects)
      if (!agreed.has(keyOf(object)) && !names.has(nameOf(object)) && (await isDefined?.(object))) lost.add(object);
    this.#report.undecided.push(...[...lost].map(keyOf));
    return lost;
  }

  /**
   * With the replicas of agreed tables in databases that are not owned, such as those that were moved aside. Catalogs may have exchanged their names
   * while the server was away, or one was dropped and its name given to another: a database whose name another one has by now gets out of its way
   * first. One of a catalog that nothing is known of may be that of another installation, and stays.
   */
  async #ownSchema({ databases, objects }: AgreedSchema): Promise<WholeSchema> {
    const { owns, timeoutMs } = this.#options;
    const read = () => readWholeSchema(this.#server, owns, timeoutMs);
    const isInTheWay = ({ name, comment }: StoredDatabase) =>
      databases.some((other) => other.name === name && other.comment !== comment);
    let whole = await read();
    const inTheWay = whole.databases.filter(isInTheWay);
    for (const database of whole.others.databases.filter(isInTheWay))
      if (isUnmarked(database, whole.others, objects) || (await this.#wasDropped(database))) inTheWay.push(database);
    for (const database of inTheWay) await this.#renameAway(database);
    if (inTheWay.length > 0) whole = await read();
    const strays = whole.others.objects.filter(({ uuid }) => uuid !== undefined && objects.has(uuid));
    return { ...whole, objects: [...whole.objects, ...strays] };
  }

  /** To a name that no database has, and that is none of a hidden catalog: what it keeps would be restored under it. */
  async #renameAway(database: StoredDatabase): Promise<void> {
    const to = `${hiddenDatabase(catalogOf(database) ?? unmarked)}_${randomUUID()}`;
    await this.#run(`RENAME DATABASE ${quoteIdentifier(database.name)} TO ${quoteIdentifier(to)}`);
    this.#report.renamed.push(to);
  }

  /**
   * Drops, or moves aside, tables of catalogs that were dropped, as peers have recorded. What belongs to a catalog that nothing is known of may be that
   * of another installation.
   */
  async #clearAbandoned({ databases, objects }: WholeSchema['others'], agreed: AgreedSchema): Promise<void> {
    for (const database of databases) {
      if (database.name.startsWith(hiddenDatabase(unmarked))) await this.#clear(database);
      if (!(await this.#wasDropped(database))) continue;
      // Without tables that have been renamed to where the peers have them.
      const isIn = (object: StoredObject) => object.database === database.name && !agreed.objects.has(keyOf(object));
      const contents = objects.filter(isIn);
      if (!contents.every((object) => hasRows(object) || isDerived(object))) continue;
      for (const table of contents.filter(hasRows)) await this.#retire(table);
      await this.#clear(database);
    }
  }

  #wasDropped(database: StoredDatabase): Promise<boolean> {
    const { peers, timeoutMs } = this.#options;
    return wasDropped(peers, database, timeoutMs);
  }

  /** Drops what is left of a database whose tables have been moved elsewhere, unless it has others with rows. */
  async #clear(database: StoredDatabase): Promise<void> {
    const isIt = (each: StoredDatabase) => isSameDatabase(each, database);
    const { objects } = await readSchema(this.#server, isIt, this.#options.timeoutMs);
    if (!objects.every(isDerived)) return;
    for (const object of objects) await this.#dropDerived(object);
    await this.#dropDatabase(database.name);
  }

  /** Servers of different versions word the same definition differently. */
  #isSameDefinition(
    object: StoredObject,
    wanted: StoredObject,
    own: ServerSchema,
    others: readonly ServerSchema[],
  ): boolean {
    return others.some(({ version }) => version !== own.version) || object.createSql === wanted.createSql;
  }

  async #run(sql: string): Promise<void> {
    const { timeoutMs, signal } = this.#options;
    await this.#requireClaim().text({ sql, timeoutMs, signal });
  }

  #requireClaim(): ClickHouseServer {
    if (!this.#claimed) throw new ChangeNeeded();
    return this.#claimed;
  }

  async #createDatabase(database: StoredDatabase): Promise<void> {
    const { timeoutMs, signal } = this.#options;
    await createDatabaseAs(this.#requireClaim(), database, { timeoutMs, signal });
    this.#report.created.push(database.name);
  }

  /** Only without tables. */
  async #dropDatabase(database: string): Promise<void> {
    const sql = `SELECT count() AS tables FROM system.tables WHERE database = ${quoteLiteral(database)}`;
    const [row] = await this.#server.rows<{ tables: string }>({ sql, timeoutMs: this.#options.timeoutMs });
    if (Number(row?.tables) > 0) return;
    await this.#run(`DROP DATABASE IF EXISTS ${quoteIdentifier(database)}`);
    this.#report.dropped.push(database);
  }

  /** On clusters that replicate, rows are never written through a Distributed table without waiting; what it might keep is sent first. */
  async #dropDerived(object: StoredObject): Promise<void> {
    if (object.engine === 'Distributed' && replicationFeatures(this.#server.version).flushDistributed)
      await this.#run(`SYSTEM FLUSH DISTRIBUTED ${quoted(object)}`);
    await this.#run(`DROP TABLE IF EXISTS ${quoted(object)}`);
    this.#report.dropped.push(nameOf(object));
  }

  /**
   * Drops a table that no peer has, if it was created here a moment ago, or if Keeper proves that the other replicas were dropped; otherwise moves it
   * out of the way.
   */
  async #retire(object: StoredObject): Promise<void> {
    if (this.#createdKeys.has(keyOf(object)) || (await this.#isProvenDropped(object))) {
      await this.#run(`DROP TABLE IF EXISTS ${quoted(object)}`);
      this.#report.dropped.push(nameOf(object));
      return;
    }
    await this.#moveAside(object);
  }

  async #moveAside(object: StoredObject): Promise<void> {
    await this.#run(`CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(asideDatabase)}`);
    const aside = { database: asideDatabase, table: String(object.uuid) };
    await this.#run(`RENAME TABLE ${quoted(object)} TO ${qualifiedName(aside)}`);
    this.#report.movedAside.push(nameOf(object));
  }

  async #isProvenDropped({ uuid, path }: StoredObject): Promise<boolean> {
    const { timeoutMs } = this.#options;
    if (uuid === undefined || path === undefined) return false;
    const replica = await macroOf(this.#server, 'replica', timeoutMs);
    return isProvenDropped(this.#server, { path, replica }, timeoutMs);
  }

  async #rename(tables: readonly StoredObject[], agreed: ReadonlyMap<string, StoredObject>): Promise<void> {
    const moves = tables.flatMap((from) => {
      const to = agreed.get(keyOf(from));
      return to && nameOf(to) !== nameOf(from) ? [{ from, to }] : [];
    });
    // By way of names that no other table has, because tables may have exchanged theirs. A call that was interrupted has left such names.
    const between = ({ from }: { from: StoredObject }) => ({ database: from.database, name: `__moving_${from.uuid}` });
    for (const move of moves)
      if (move.from.name !== between(move).name)
        await this.#run(`RENAME TABLE ${quoted(move.from)} TO ${quoted(between(move))}`);
    for (const move of moves) {
      await this.#run(`RENAME TABLE ${quoted(between(move))} TO ${quoted(move.to)}`);
      this.#report.renamed.push(nameOf(move.to));
    }
  }

  /** What another process is just creating is registered before it can be seen, and would be taken for what a lost disk has left. */
  async #createReplicas(objects: readonly StoredObject[]): Promise<void> {
    if (objects.length === 0) return;
    const claimed = this.#requireClaim();
    const present = await readSchema(claimed, () => true, this.#options.timeoutMs);
    const keys = new Set(present.objects.map(keyOf));
    for (const object of objects) if (!keys.has(keyOf(object))) await this.#createReplica(claimed, object);
  }

  /** A replica that the server had on a disk it has lost is still registered; its rows come from the others. */
  async #createReplica(server: ClickHouseServer, object: StoredObject): Promise<void> {
    const { timeoutMs } = this.#options;
    const path = `${pathOfTable(object.uuid as string)}/${await macroOf(server, 'shard', timeoutMs)}`;
    const own = await macroOf(server, 'replica', timeoutMs);
    const createSql = withMacros(object);
    const isRegistered = (await replicasInKeeper(server, path, timeoutMs)).includes(own);
    if (!isRegistered) await server.text({ sql: createSql, timeoutMs });
    else if (replicationFeatures(server.version).dropReplica) {
      // A server that has a replica of the table refuses this. While the session of the former process lasts, this one does, too.
      const sql = `SYSTEM DROP REPLICA ${quoteLiteral(own)} FROM ZKPATH ${quoteLiteral(path)}`;
      await server.text({ sql, timeoutMs });
      await server.text({ sql: createSql, timeoutMs });
    } else await server.text({ sql: createSql.replace(/^CREATE/, 'ATTACH'), timeoutMs });
    this.#created(object);
  }

  #created(object: StoredObject): void {
    this.#createdKeys.add(keyOf(object));
    this.#report.created.push(nameOf(object));
  }

  /** Views may read others: whatever can be created is, until all are. */
  async #createDerived(objects: readonly StoredObject[]): Promise<void> {
    let remaining = objects;
    while (remaining.length > 0) {
      const failed: StoredObject[] = [];
      let last: unknown;
      for (const object of remaining) {
        try {
          await this.#run(object.createSql);
          this.#created(object);
        } catch (error) {
          if (error instanceof ChangeNeeded) throw error;
          failed.push(object);
          last = error;
        }
      }
      if (failed.length === remaining.length) throw last;
      remaining = failed;
    }
  }
}

/** A definition names shard and replica by macros, so that it is right on each server. */
function withMacros({ createSql, uuid = '' }: StoredObject): string {
  if (!createSql.includes(`${pathOfTable(uuid)}/{shard}`) || !createSql.includes('{replica}'))
    throw new Error('the definition of a replicated table has no macros');
  return createSql;
}
