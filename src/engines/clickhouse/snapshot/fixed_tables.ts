// The rows of a catalog as of one instant: tables without writers, to which the parts of the tables of one server of each shard are linked. They need no
// space of their own, until the parts are merged or dropped in the tables that they are from.
import { createHash, randomUUID } from 'node:crypto';
import { unlessAborted } from '../../../model/concurrency/bounded_waits.ts';
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef, TableName } from '../../port/refs.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { unmergedSettings } from '../load/replicated_staging.ts';
import { stagingPrefix } from '../load/staging.ts';
import { internalDatabase, localSuffix, namesOf, storedDatabase } from '../names.ts';
import { isOfCatalogSql } from '../owned_databases.ts';
import { atOnce } from '../replication/at_once.ts';
import { takeRows } from '../replication/take_over.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';

const replicatedEngine = /^Replicated(\w*MergeTree)\('(?:[^'\\]|\\.)*', '(?:[^'\\]|\\.)*'(?:, )?/;
/** The last clause; its values are numbers. */
const settingsClause = ' SETTINGS ';
const callMs = 10_000;
/** In one statement. */
const commandsMax = 500;
/** A replica that has not taken over all rows of its shard by then is none to take a snapshot of. */
const syncSeconds = 10;

/** A table or its database was dropped, or its columns changed, in between. */
const changedCodes: ReadonlySet<number> = new Set([60, 81, 122, 218]);

type Call = Pick<ServerCall, 'timeoutMs'> & { readonly signal: AbortSignal };

interface LocalName {
  readonly database: string;
  readonly table: string;
}

interface LocalTable extends LocalName {
  /** Its engine, with keys and settings, as the server shows it. */
  readonly engine: string;
  /** A digest of the columns. */
  readonly columns: string;
  /** The ids of those that have rows. */
  readonly partitions: readonly string[];
}

interface FixedTable {
  /** In the internal database; undefined: the table is empty. */
  readonly name: string | undefined;
  /** A digest of the columns: rows of parts that lack one follow from them. */
  readonly columns: string;
}

/** What one server has of a shard. */
interface FixedShard {
  readonly server: string;
  /** By `keyOf`. */
  readonly tables: ReadonlyMap<string, FixedTable>;
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 24);
const keyOf = ({ database, table }: LocalName): string => JSON.stringify([database, table]);

/** The engine of a table that is the only one with its rows, and does not merge them: they are read by the names of their parts. */
function unmergedEngine(engine: string): string {
  const settings = engine.lastIndexOf(settingsClause);
  if (settings < 0) throw new Error('a table of rows has a definition of another product');
  const before = engine.slice(0, settings).replace(replicatedEngine, '$1(');
  return `${before}${settingsClause}${unmergedSettings}, ${engine.slice(settings + settingsClause.length)}`;
}

export class FixedTables {
  readonly #context: WarehouseContext;
  /** Of all tables for the same purpose; those of this snapshot have a part of their own behind it. */
  readonly #prefix: string;
  readonly #id = randomUUID().slice(0, 8);
  /** The names of tables that were created, or may have been. */
  readonly #created = new Set<string>();
  /** What creates them: it is not interrupted, because the server would still create the table, after all others are dropped. */
  readonly #creating = new Set<Promise<unknown>>();
  #shards: readonly FixedShard[] = [];

  constructor(context: WarehouseContext, purpose: string = randomUUID()) {
    this.#context = context;
    this.#prefix = `${stagingPrefix}snapshot_${digestOf(purpose)}_`;
  }

  /** While no server writes to the catalog. `databases`: absent: all. */
  async fix(catalog: CatalogRef, databases: readonly string[] | undefined, signal: AbortSignal): Promise<void> {
    const stored = databases?.map((name) => quoteLiteral(storedDatabase(catalog.name, name)));
    const isOfCatalog = stored ? `database IN (${['NULL', ...stored].join(', ')})` : isOfCatalogSql(catalog.id);
    const failed = new AbortController();
    const call = { timeoutMs: callMs, signal: AbortSignal.any([signal, failed.signal]) };
    try {
      await this.#context.endedStaging.dropAll(this.#prefix, call);
      this.#shards = await this.#context.cluster.onEachShard(async (server) => {
        const sql = `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(internalDatabase)} ENGINE = Atomic`;
        await server.text({ ...call, sql });
        const tables = await this.#localTables(server, isOfCatalog, call);
        const fixed = await atOnce(
          tables,
          async (table) => [keyOf(table), await this.#fixUnchanged(server, table, call)] as const,
        );
        return { server: server.name, tables: new Map(fixed) };
      });
    } catch (error) {
      // The other servers begin no more tables.
      failed.abort();
      // Not waited for: writes are held meanwhile, and a server may not answer.
      void this.drop();
      throw error;
    }
  }

  /** `isOfCatalog`: a condition for the name of the database. */
  async #localTables(server: ClickHouseServer, isOfCatalog: string, call: Call): Promise<readonly LocalTable[]> {
    const isLocalTable = `${isOfCatalog} AND endsWith(table, ${quoteLiteral(localSuffix)})`;
    const tables = await server.rows<Omit<LocalTable, 'columns' | 'partitions'>>({
      ...call,
      sql: `SELECT database, table, engine_full AS engine FROM (SELECT database, name AS table, engine_full FROM system.tables)
        WHERE ${isLocalTable}`,
    });
    if (this.#context.cluster.isReplicated)
      await atOnce(tables, ({ database, table }) => takeRows(server, { database, table }, syncSeconds));
    const columns = await server.rows<LocalName & { readonly digest: string }>({
      ...call,
      sql: `SELECT database, table, toString(groupBitXor(sipHash64(position, name, type, default_expression))) AS digest
        FROM system.columns WHERE ${isLocalTable} GROUP BY database, table`,
    });
    const parts = await server.rows<LocalName & { readonly id: string }>({
      ...call,
      sql: `SELECT DISTINCT database, table, partition_id AS id FROM system.parts WHERE active AND ${isLocalTable}`,
    });
    const digests = new Map(columns.map((row) => [keyOf(row), row.digest]));
    const partitions = Map.groupBy(parts, keyOf);
    return tables.map((table) => ({
      ...table,
      columns: digests.get(keyOf(table)) ?? '',
      partitions: (partitions.get(keyOf(table)) ?? []).map(({ id }) => id),
    }));
  }

  async #fixUnchanged(server: ClickHouseServer, table: LocalTable, call: Call): Promise<FixedTable> {
    // Most of the time that writes wait is for tables that are created.
    if (table.partitions.length === 0) return { name: undefined, columns: table.columns };
    try {
      return await this.#fixOn(server, table, call);
    } catch (error) {
      if (error instanceof ClickHouseError && changedCodes.has(error.code)) throw tableChanged();
      throw error;
    }
  }

  async #fixOn(server: ClickHouseServer, table: LocalTable, call: Call): Promise<FixedTable> {
    const local = qualifiedName(table);
    const name = `${this.#prefix}${this.#id}_${digestOf(keyOf(table))}`;
    const fixed = qualifiedName({ database: internalDatabase, table: name });
    const sql = `CREATE TABLE ${fixed} AS ${local} ENGINE = ${unmergedEngine(table.engine)}`;
    await this.#create(server, name, sql, call.signal);
    // 24.8 cannot attach all of them by one command.
    const commands = table.partitions.map((id) => `ATTACH PARTITION ID ${quoteLiteral(id)} FROM ${local}`);
    for (let at = 0; at < commands.length; at += commandsMax)
      await server.text({ ...call, sql: `ALTER TABLE ${fixed} ${commands.slice(at, at + commandsMax).join(', ')}` });
    return { name, columns: table.columns };
  }

  async #create(server: ClickHouseServer, name: string, sql: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#created.add(name);
    const creating = server.text({ timeoutMs: callMs, sql });
    this.#creating.add(creating);
    await unlessAborted(creating, signal);
  }

  /** What each shard has of a table, in the order of shards. Throws CHANGE_IN_PROGRESS if it was created since. */
  shardsOf(table: TableName): readonly (FixedTable & { readonly server: string })[] {
    const { database, localTable } = namesOf(table);
    return this.#shards.map(({ server, tables }) => {
      const found = tables.get(keyOf({ database, table: localTable }));
      if (!found) throw tableChanged();
      return { ...found, server };
    });
  }

  /** Throws REPLICAS_UNAVAILABLE if the server that has the rows is lost: others have none as of that instant. */
  serverOf({ server }: { readonly server: string }): ClickHouseServer {
    const member = this.#context.cluster.member(server);
    if (!member || member.isDisabled)
      throw new Failure('REPLICAS_UNAVAILABLE', 'the server whose rows were to be read is not in use any more');
    return member.counted;
  }

  /** Idempotent. A server that is away drops its tables when it is back. */
  async drop(): Promise<void> {
    await Promise.allSettled(this.#creating);
    this.#creating.clear();
    const names = [...this.#created];
    this.#created.clear();
    await atOnce(names, (name) => this.#context.endedStaging.drop(name));
  }
}

const tableChanged = (): Failure => new Failure('CHANGE_IN_PROGRESS', 'a table was changed while its catalog was read');
