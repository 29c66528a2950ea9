// Brings a server that was away to the definitions of the servers that count: what it missed is created, renamed and dropped.
import type { ClickHouseServer } from '../connection/server.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { replicasInKeeper } from './keeper.ts';
import { pathOfTable } from './replicated_tables.ts';
import { replicationFeatures } from './replication_features.ts';
import { macroOf } from './server_macros.ts';
import {
  agreedSchema,
  keyOf,
  type OwnsDatabase,
  readSchema,
  type ServerSchema,
  type StoredObject,
} from './server_schema.ts';

export interface ReconcileOptions {
  /** The servers that count, of any shard. */
  readonly peers: readonly ClickHouseServer[];
  /** False for the databases of the servers themselves and of other users, in which nothing is changed. */
  readonly owns: OwnsDatabase;
  /** For each statement. */
  readonly timeoutMs: number;
}

/** What was done, as names; of tables that changed their name, the new one. */
export interface ReconcileReport {
  readonly created: readonly string[];
  readonly renamed: readonly string[];
  readonly dropped: readonly string[];
  /** Tables with rows of which nothing proves that they were dropped: they are in the database `asideDatabase`, named by their UUID. */
  readonly movedAside: readonly string[];
  /** Objects that were left as they are, because the peers do not agree on them: a change is under way that will reach this server, too. */
  readonly undecided: readonly string[];
}

/** No database of a catalog has this name. */
export const asideDatabase = '_tabularium_aside';

/**
 * Idempotent; a call that fails half-way is repeated. The server must not count, so that no one uses what is created again. Throws what a
 * server answers, and a TypeError without peers: then nothing says what should be there.
 */
export async function reconcile(server: ClickHouseServer, options: ReconcileOptions): Promise<ReconcileReport> {
  if (options.peers.length === 0) throw new TypeError('a server is reconciled with at least one other');
  return new Reconciliation(server, options).run();
}

const hasRows = ({ uuid }: StoredObject): boolean => uuid !== undefined;
const isDerived = ({ engine }: StoredObject): boolean => engine === 'Distributed' || engine === 'View';
type Named = Pick<StoredObject, 'database' | 'name'>;
const nameOf = ({ database, name }: Named): string => `${database}.${name}`;
const quoted = ({ database, name }: Named): string => qualifiedName({ database, table: name });

class Reconciliation {
  readonly #server: ClickHouseServer;
  readonly #options: ReconcileOptions;
  readonly #report = {
    created: [] as string[],
    renamed: [] as string[],
    dropped: [] as string[],
    movedAside: [] as string[],
    undecided: [] as string[],
  };

  constructor(server: ClickHouseServer, options: ReconcileOptions) {
    this.#server = server;
    this.#options = { ...options, owns: (database) => database !== asideDatabase && options.owns(database) };
  }

  async run(): Promise<ReconcileReport> {
    const { peers, owns, timeoutMs } = this.#options;
    const [own, ...others] = await Promise.all(
      [this.#server, ...peers].map((server) => readSchema(server, owns, timeoutMs)),
    );
    const schema = own as ServerSchema;
    const agreed = agreedSchema(others);
    const isSettled = (object: StoredObject) => !agreed.undecided.has(keyOf(object));
    this.#report.undecided.push(...agreed.undecided);
    for (const database of agreed.databases)
      if (!schema.databases.includes(database)) await this.#createDatabase(database);
    const settled = schema.objects.filter(isSettled);
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
    const present = new Set(settled.filter((object) => hasRows(object) || isCurrent(object)).map(keyOf));
    const absent = needed.filter((object) => !present.has(keyOf(object)));
    for (const object of absent.filter(hasRows)) await this.#createReplica(object);
    await this.#createDerived(absent.filter(isDerived));
    for (const database of schema.databases)
      if (!agreed.databasesOfAny.has(database)) await this.#dropDatabase(database);
    return this.#report;
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
    await this.#server.text({ sql, timeoutMs: this.#options.timeoutMs });
  }

  async #createDatabase(database: string): Promise<void> {
    await this.#run(`CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(database)}`);
    this.#report.created.push(database);
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

  /** Drops a table that no peer has, if Keeper proves that the other replicas were dropped; otherwise moves it out of the way. */
  async #retire(object: StoredObject): Promise<void> {
    if (await this.#isProvenDropped(object)) {
      await this.#run(`DROP TABLE IF EXISTS ${quoted(object)}`);
      this.#report.dropped.push(nameOf(object));
      return;
    }
    await this.#run(`CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(asideDatabase)}`);
    const aside = { database: asideDatabase, table: String(object.uuid) };
    await this.#run(`RENAME TABLE ${quoted(object)} TO ${qualifiedName(aside)}`);
    this.#report.movedAside.push(nameOf(object));
  }

  /**
   * A drop removes a replica from Keeper, a lost disk does not. So other replicas were dropped if none is registered there, of any shard, and
   * at least one has been: a table that only ever had this replica is not proven to be dropped.
   */
  async #isProvenDropped({ uuid, path }: StoredObject): Promise<boolean> {
    const { timeoutMs, peers } = this.#options;
    if (uuid === undefined || path === undefined) return false;
    const own = await macroOf(this.#server, 'replica', timeoutMs);
    const registered = await replicasInKeeper(this.#server, path, timeoutMs);
    if (!registered.includes(own) || registered.some((replica) => replica !== own)) return false;
    // The counter of the children of a node: 1 if this replica is the only one that was ever made.
    const where = `path = ${quoteLiteral(path)} AND name = 'replicas'`;
    const sql = `SELECT toInt32(cversion) AS changes FROM system.zookeeper WHERE ${where}`;
    const [node] = await this.#server.rows<{ changes: number }>({ sql, timeoutMs });
    return peers.length > 0 && node !== undefined && node.changes > 1;
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

  /** A replica that the server had on a disk it has lost is still registered; its rows come from the others. */
  async #createReplica(object: StoredObject): Promise<void> {
    const { peers, timeoutMs } = this.#options;
    const path = `${pathOfTable(object.uuid as string)}/${await macroOf(this.#server, 'shard', timeoutMs)}`;
    const own = await macroOf(this.#server, 'replica', timeoutMs);
    const createSql = withMacros(object);
    const isRegistered = (await replicasInKeeper(this.#server, path, timeoutMs)).includes(own);
    if (!isRegistered) await this.#run(createSql);
    else if (replicationFeatures(this.#server.version).dropReplica) {
      const sql = `SYSTEM DROP REPLICA ${quoteLiteral(own)} FROM ZKPATH ${quoteLiteral(path)}`;
      await (peers[0] as ClickHouseServer).text({ sql, timeoutMs });
      await this.#run(createSql);
    } else await this.#run(createSql.replace(/^CREATE/, 'ATTACH'));
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
          this.#report.created.push(nameOf(object));
        } catch (error) {
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
