// What the parts of a warehouse share: its cluster, and which tables were changed.
import { setTimeout as pause } from 'node:timers/promises';
import type { WarehouseSpec } from '../../model/records.ts';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import { Failure } from '../../standard/failure.ts';
import type { EngineWarehouseOptions } from '../port/engine.ts';
import type { TableName } from '../port/refs.ts';
import { Cluster } from './cluster/cluster.ts';
import { Registered } from './cluster/registered.ts';
import { serverFailure } from './connection/clickhouse_error.ts';
import { EndedStaging } from './load/ended_staging.ts';
import { databasesOf, type OwnsDatabase } from './owned_databases.ts';
import { ReplicatedInserts } from './replication/replicated_inserts.ts';
import { AppliedSteps } from './steps/applied_steps.ts';
import type { RecordExchanges } from './steps/record_exchanges.ts';

const abandonedEveryMs = 10_000;
/** Between two searches for what loads left that ended without removing it. */
const removeEveryMs = 3_600_000;

/** The attempts to complete one write. */
export interface CompletionAttempt {
  isRunning: boolean;
  pauseMs: number;
  /** Of `performance.now()`. */
  nextAt: number;
}

/** What completes the writes that were interrupted (steps/left_writes.ts). */
export interface LeftWrites {
  /** @returns the number of steps. */
  completeLeft(context: WarehouseContext, signal: AbortSignal): Promise<number>;
  /** `attempts`: those of earlier calls, by the batch. */
  completeAbandoned(
    context: WarehouseContext,
    signal: AbortSignal,
    attempts: Map<string, CompletionAttempt>,
  ): Promise<void>;
  removeAbandoned(context: WarehouseContext): Promise<void>;
}

export class WarehouseContext {
  readonly options: EngineWarehouseOptions;
  readonly cluster: Cluster;
  readonly steps: AppliedSteps;
  readonly registered: Registered;
  readonly inserts = new ReplicatedInserts();
  readonly endedStaging: EndedStaging;
  readonly changed = new ChangedTables();
  /** The number of statements of callers that run now. */
  runningStatements = 0;
  readonly #leftWrites: LeftWrites;
  #spec: WarehouseSpec;
  #stopped = new AbortController();

  /** `hosts`: to which servers may be connected; undefined: any. */
  constructor(options: EngineWarehouseOptions, hosts: HostAllowlist | undefined, leftWrites: LeftWrites) {
    this.options = options;
    this.#leftWrites = leftWrites;
    this.#spec = options.spec;
    if (!options.cluster) throw new Error(`the warehouse ${options.name} has no cluster`);
    const owns = () => this.#owns();
    const completeLeft = (signal: AbortSignal) => leftWrites.completeLeft(this, signal);
    const { definedObject } = options;
    const exchangeRecords: RecordExchanges['exchange'] = (...exchanged) => this.steps.exchanges.exchange(...exchanged);
    const { cluster } = options;
    this.cluster = new Cluster(cluster, { hosts, owns, completeLeft, exchangeRecords, definedObject });
    this.registered = new Registered(this.cluster, owns, definedObject);
    this.steps = new AppliedSteps(this.cluster);
    this.endedStaging = new EndedStaging(this.cluster);
    this.#stopped.abort();
  }

  /** The databases of the catalogs of this warehouse, also of those that nobody sees: others on the same servers are not touched. */
  async #owns(): Promise<OwnsDatabase> {
    const { storedCatalogs, catalogs } = this.options;
    return databasesOf(await (storedCatalogs?.() ?? catalogs().then((all) => all.map(({ id }) => id))));
  }

  get isRunning(): boolean {
    return !this.#stopped.signal.aborted;
  }

  get spec(): WarehouseSpec {
    return this.#spec;
  }

  /** The limits apply to statements that begin afterwards. */
  configure(spec: WarehouseSpec): void {
    this.#spec = spec;
  }

  async start(): Promise<void> {
    if (this.isRunning) return;
    try {
      await this.cluster.open();
    } catch (error) {
      throw serverFailure(error);
    }
    this.#stopped = new AbortController();
    void this.#completeAbandoned(this.#stopped.signal);
  }

  /** A write whose server has ended, and that nobody repeats, is not left half done. */
  async #completeAbandoned(signal: AbortSignal): Promise<void> {
    const attempts = new Map<string, CompletionAttempt>();
    let removedAt = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      await pause(abandonedEveryMs, undefined, { ref: false, signal }).catch(() => undefined);
      if (signal.aborted) continue;
      // A server that is not available now is asked again.
      await this.#leftWrites.completeAbandoned(this, signal, attempts).catch(() => undefined);
      await this.endedStaging.dropLeft().catch(() => undefined);
      if (performance.now() - removedAt < removeEveryMs) continue;
      removedAt = performance.now();
      await this.#leftWrites.removeAbandoned(this).catch(() => undefined);
    }
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.cluster.close();
  }

  /**
   * Runs work of a method of the port: it ends when the warehouse is stopped, and the conditions of servers are its failures. `signal` is
   * aborted also when the warehouse is stopped.
   */
  async run<T>(given: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const stopped = this.#stopped.signal;
    if (stopped.aborted) throw suspended('notApplied');
    const signal = given ? AbortSignal.any([given, stopped]) : stopped;
    try {
      return await work(signal);
    } catch (error) {
      throw stopped.aborted ? suspended('unknown') : serverFailure(error);
    }
  }
}

const suspended = (outcome: 'notApplied' | 'unknown') =>
  new Failure('WAREHOUSE_SUSPENDED', 'the warehouse was suspended while the statement ran', {}, { outcome });

/** Tables whose row count may have changed since they were taken. */
export class ChangedTables {
  readonly #tables = new Map<string, TableName>();

  add(table: TableName): void {
    this.#tables.set(JSON.stringify([table.catalog, table.database, table.table]), table);
  }

  take(): readonly TableName[] {
    const tables = [...this.#tables.values()];
    this.#tables.clear();
    return tables;
  }
}
