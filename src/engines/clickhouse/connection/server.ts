// A ClickHouse server and the cluster that it belongs to, as the other parts of the adapter use them.
import type { Readable } from 'node:stream';
import type { TableName } from '../../port/refs.ts';

export interface ServerCall {
  readonly sql: string;
  /** Values of `{name:Type}` in the text, in ClickHouse's text format. */
  readonly parameters?: Readonly<Record<string, string>> | undefined;
  readonly settings?: Readonly<Record<string, string | number>> | undefined;
  /** The database of unqualified names. */
  readonly database?: string | undefined;
  /** By which the call can be cancelled and its progress be read; generated if absent. */
  readonly queryId?: string | undefined;
  /** The data of an INSERT, which follows the text. A chunk may be changed once the next one is asked for. */
  readonly data?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /** Sends text and data, which has no chunks, in gzip: a body that was cut is then an error, and not an INSERT of fewer rows. */
  readonly gzip?: boolean | undefined;
  readonly timeoutMs: number;
  /**
   * The call is what a caller asked for, so that exceeding `timeoutMs` is STATEMENT_TIMEOUT. Any other is a call of the adapter, and a server
   * that takes longer for it has failed: WAREHOUSE_FAILED.
   */
  readonly isOfCaller?: boolean | undefined;
  /** Aborting it also ends the statement on the server. */
  readonly signal?: AbortSignal | undefined;
}

/** One server. Every method throws a `ClickHouseError` with the code of the server, or a Failure where the connection is lost. */
export interface ClickHouseServer {
  /** The name of the backend. */
  readonly name: string;
  /** `24.8.1.1`, as of the last probe. */
  readonly version: string;
  /** Runs a statement to its end. @returns the response, complete. */
  text(call: ServerCall): Promise<string>;
  /** Runs a SELECT. @returns its rows as objects: integers of 64 bits and more are strings. */
  rows<Row extends object>(call: ServerCall): Promise<Row[]>;
  /** Starts a statement. The stream fails where the response is incomplete, also if the status of the response was 200. */
  stream(call: ServerCall): Promise<Readable>;
}

export interface OnAnyOptions {
  /** The work passes nothing on before it ends: if it only reads, it can also be repeated when it has received something. */
  readonly isWhole?: boolean;
  /** Whether nothing was passed on until now; absent: nothing if nothing was received. */
  readonly isUnread?: () => boolean;
  /**
   * The names of servers that have picked a replica that does not count, and perhaps would again: the others are asked first. Those that do so now are
   * added.
   */
  readonly avoided?: Set<string>;
}

export interface OnEachOptions {
  /** The work may be the rest of what others have done already: a server that is complete but for such work takes it, too. */
  readonly isBegunWork?: boolean;
  /** The work makes no difference to a server that does not take part in it. */
  readonly withoutDisabled?: boolean;
}

export interface TakeOverOptions {
  /** It has what was changed. */
  readonly from?: ClickHouseServer | undefined;
  /** From 1. Absent: of all shards. */
  readonly shard?: number | undefined;
}

/** The replicas that count, of all shards, where the definition of the cluster has others, too. */
export interface CountedReplicas {
  /** As the servers know themselves. */
  readonly ids: readonly string[];
  /** The place, from 0, at which each shard whose replica a server picks has one that counts; undefined: there is none. */
  readonly first: number | undefined;
}

export interface ClickHouseCluster {
  /** The name of the cluster definition. */
  readonly name: string;
  /** False: the servers cannot replicate; copies are written by Distributed tables. */
  readonly isReplicated: boolean;
  /** The number of shards, and of replicas that the cluster has of each. */
  readonly shardCount: number;
  readonly replicasOfShard: number;
  /** A write changes several servers, none of which gets it from another one: copies, or shards. */
  readonly writesMany: boolean;
  /**
   * Runs on a server that is available, and once more on another one if the first is lost before `work` has received a byte. Throws 503 if
   * none is available.
   */
  onAny<T>(work: (server: ClickHouseServer) => Promise<T>, options?: OnAnyOptions): Promise<T>;
  /**
   * Runs on each server of the cluster that is not disabled. Throws 503 if one of them is not available, or as `requireAllCopies` does.
   */
  onEach<T>(work: (server: ClickHouseServer) => Promise<T>, options?: OnEachOptions): Promise<T[]>;
  /**
   * Throws 503 if the definition of the cluster has a server that is disabled and cannot replicate: it could never catch up with what is
   * changed without it.
   */
  requireAllCopies(): void;
  /**
   * Which replicas count for a statement on `server`, which picks those of other shards itself. Undefined: all of the definition of the cluster do,
   * or none is picked.
   */
  countedReplicas(server: Pick<ClickHouseServer, 'name'>): CountedReplicas | undefined;
  /** Runs on one available server of each shard, in the order of shards. Throws REPLICAS_UNAVAILABLE if a shard has none. */
  onEachShard<T>(work: (server: ClickHouseServer, shard: number) => Promise<T>): Promise<T[]>;
  /** The available servers of each shard, in the order of shards. Throws REPLICAS_UNAVAILABLE if a shard has none. */
  availableOfShards(): readonly (readonly ClickHouseServer[])[];
  /**
   * Lets the replicas take over what was changed on others, before it is acknowledged. `follow` fails if a server does not in time: then it takes
   * no statements, neither of this server of Tabularium nor of those that share its store, until it has caught up.
   * @returns how many have taken it over. Throws STORE_UNAVAILABLE with the outcome `unknown`.
   */
  takeOver(follow: (server: ClickHouseServer) => Promise<void>, options?: TakeOverOptions): Promise<number>;
}

/** The names of a table on the servers. */
export interface StoredNames {
  /** `{catalog}__{database}`, encoded. */
  readonly database: string;
  /** The Distributed table, which callers read and write. */
  readonly table: string;
  /** The table with the rows of one server. */
  readonly localTable: string;
}

export type NamesOf = (table: TableName) => StoredNames;
