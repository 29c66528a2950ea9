// The runtime state of warehouses: which of them run, admission of statements, auto-suspend and auto-resume. The desired state of a
// warehouse is in the store and read through `load`; how an engine works is behind the port (engine.ts).
import type { EngineCapability } from '../model/engine_capabilities.ts';
import type { ExpectedTable } from '../model/expected_table.ts';
import type { WarehouseSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure, objectNotFound } from '../standard/failure.ts';
import type { Change } from '../store/changes/change.ts';
import { Admission, type AdmissionLimits, type AdmissionRequest } from './admission.ts';
import { CatalogGuard } from './catalog_guard.ts';
import type { CatalogFault, CatalogStorage, DamagedCatalog, PositionRecords } from './catalog_storage.ts';
import { clusterAccess } from './cluster/cluster_access.ts';
import { layoutOf, type RegisteredServers, replicasUnavailable } from './cluster/registered_servers.ts';
import { CatalogWrites } from './copies/catalog_writes.ts';
import type { WriteFence } from './copies/write_fence.ts';
import type { BackendStatus, CatalogRef, Engine, EngineWarehouse, TableRef, Tablet } from './engine.ts';
import { withGroupedInserts } from './grouped_inserts.ts';
import { guardedEngine } from './guarded_engine.ts';
import {
  catalogsWithChangedDamage,
  conditionWithoutServer,
  type OtherServers,
  onAnotherServer,
  reportIn,
  type WarehouseReports,
} from './other_servers.ts';
import { Quarantine } from './quarantine.ts';
import { requireCapability } from './required_capability.ts';
import type { Snapshot } from './snapshot.ts';
import {
  availableBackendsOf,
  availableReplicasOf,
  conditionOf,
  loadOf,
  missingTabletsOf,
  servedTablets,
  statusesOf,
  suspended,
  type WarehouseCondition,
  type WarehouseDescription,
  type WarehouseLoad,
} from './warehouse_condition.ts';
import { WriteGate } from './write_gate.ts';

export interface WarehousesOptions {
  readonly engines: readonly Engine[];
  /** Undefined if the warehouse does not exist. */
  readonly load: (name: string) => Promise<WarehouseDescription | undefined>;
  /** Of the connections to the cluster of a warehouse; undefined: it has none. */
  readonly passwordOf: (warehouseId: string) => Promise<string | undefined>;
  readonly catalogsOf: (warehouse: string) => Promise<readonly CatalogRef[]>;
  /** Free space on the disk of the data directory. */
  readonly disk: { requireRoom(): void; readonly message: string | undefined };
  /** Records of the positions of the catalog files. */
  readonly positions: PositionRecords;
  /** Absent if this server alone uses the store. */
  readonly otherServers?: OtherServers | undefined;
  readonly dataDirectory: string;
  readonly spoolDirectory: string;
  readonly readableDirectories?: readonly string[];
  readonly queueWaitMs: number;
  readonly observe: Observe;
}

export type { WarehouseCondition, WarehouseDescription } from './warehouse_condition.ts';

export interface PinnedFiles {
  readonly damaged: readonly DamagedCatalog[];
  /** Must be called exactly once. */
  release(): Promise<void>;
}

interface Running {
  description: WarehouseDescription;
  /** What the engine was opened or last configured with. */
  configured: WarehouseSpec;
  readonly engine: EngineWarehouse;
  readonly guard: CatalogGuard;
  readonly writes: CatalogWrites;
  readonly admission: Admission;
  lastUsedAt: number;
  /** Suspended because it was idle, not by an operator. */
  isAsleep: boolean;
  starting: Promise<void> | undefined;
  startError: string | undefined;
  /** Snapshots that keep the files unchanged while backups of the whole server read them. */
  readonly filePins: Set<Snapshot[]>;
}

const idleCheckMs = 1000;
const pinMsMax = 60_000;
/** The lower bound of `sharedMax`. More statements than two for each thread only compete for the processor. */
const sharedMin = 3;

type RecoveryWait = (warehouse: string) => Promise<void> | undefined;

export class Warehouses {
  readonly #options: WarehousesOptions;
  readonly #damageListeners: ((catalogId: string) => void)[] = [];
  #recoveryWait: RecoveryWait = () => undefined;
  /** Writes to warehouses that several servers write to pass it. To be set before any engine is opened. */
  fence: WriteFence | undefined;
  /** By the id of the warehouse, which is stable across changes of its description. */
  readonly #running = new Map<string, Promise<Running>>();
  readonly #descriptions = new Map<string, Promise<WarehouseDescription | undefined>>();
  /** Statements that every warehouse refuses for a while. */
  readonly quarantine = new Quarantine();
  readonly writeGate = new WriteGate();
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(options: WarehousesOptions) {
    this.#options = options;
  }

  /** The listener is called when the known damage of a catalog, and with it its record, has changed. */
  onDamageChanged(listener: (catalogId: string) => void): void {
    this.#damageListeners.push(listener);
  }

  /** Statements wait for the recovery of their warehouse; `wait` returns undefined if there is none to wait for. */
  waitForRecoveryWith(wait: RecoveryWait): void {
    this.#recoveryWait = wait;
  }

  engineNames(): readonly string[] {
    return this.#options.engines.map((engine) => engine.name);
  }

  /** The adapter with this name; undefined if there is none. */
  engine(name: string): Engine | undefined {
    return this.#options.engines.find((engine) => engine.name === name);
  }

  /** Whether no warehouse can lack a capability, whatever its engine is. */
  allHave(capability: EngineCapability): boolean {
    return this.#options.engines.every(({ capabilities }) => capabilities[capability]);
  }

  /** Throws NOT_SUPPORTED_BY_ENGINE if all engines lack the capability. */
  requireOfAny(capability: EngineCapability): void {
    const [first] = this.#options.engines;
    if (first && !this.#options.engines.some(({ capabilities }) => capabilities[capability]))
      requireCapability(first, capability);
  }

  async engineOf(warehouse: string): Promise<Engine> {
    const description = await this.#describe(warehouse);
    return this.engine(description.spec.engine) as Engine;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#suspendIdle(), idleCheckMs);
    this.#timer.unref();
  }

  /** Stops all engines; none is started afterwards. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    const all = await Promise.allSettled(this.#running.values());
    await Promise.all(all.map((result) => (result.status === 'fulfilled' ? result.value.engine.stop() : undefined)));
    await Promise.all(all.map((result) => (result.status === 'fulfilled' ? result.value.guard.stop() : undefined)));
  }

  /** The part of the spec of a new warehouse that says which server has its data. */
  placeOf(engine: string): Pick<WarehouseSpec, 'serverId'> {
    const { otherServers } = this.#options;
    return !otherServers || this.engine(engine)?.isReachedByAllServers ? {} : { serverId: otherServers.serverId };
  }

  /** The other server that has the data of a warehouse; undefined if it is this one, or if the warehouse does not exist. */
  async otherServerOf(name: string): Promise<string | undefined> {
    if (!this.#options.otherServers) return undefined;
    const description = await this.#describe(name).catch(() => undefined);
    return description && this.#otherServerOf(description);
  }

  #otherServerOf({ spec }: WarehouseDescription): string | undefined {
    const { otherServers } = this.#options;
    return otherServers && spec.serverId !== otherServers.serverId ? spec.serverId : undefined;
  }

  /** What the other servers may know of the warehouses of this one. */
  async reports(): Promise<WarehouseReports> {
    const all = await Promise.allSettled(this.#running.values());
    const own = all.flatMap((entry) => (entry.status === 'fulfilled' ? [entry.value] : []));
    const reports = own.map((running) => {
      return [running.description.id, { condition: this.#conditionOf(running), damaged: running.guard.damaged() }];
    });
    return Object.fromEntries(reports);
  }

  /** Call it with each changed report of another server. */
  reported(report: string, previous: string | undefined): void {
    for (const catalogId of catalogsWithChangedDamage(report, previous))
      for (const listener of this.#damageListeners) listener(catalogId);
  }

  /** Checks the files of these catalogs of a warehouse against their recorded positions. Starts no engine. */
  async inspect(name: string, catalogs: readonly CatalogRef[]): Promise<void> {
    if (await this.otherServerOf(name)) return;
    const { guard } = await this.#runningOf(name);
    await guard.inspect(catalogs);
  }

  /** The writes that this server sends to the engine of a warehouse. */
  readonly writesOf = async (name: string): Promise<CatalogWrites> => (await this.#runningOf(name)).writes;

  /** The known damage of a catalog's file, or undefined. */
  async damageOf(warehouse: string, catalogId: string): Promise<DamagedCatalog | undefined> {
    const description = await this.#describe(warehouse);
    const serverId = this.#otherServerOf(description);
    if (serverId === undefined) return (await this.#runningOf(warehouse)).guard.damageOf(catalogId);
    const report = reportIn(this.#options.otherServers?.reportOf(serverId), description.id);
    return report?.damaged.find(({ id }) => id === catalogId);
  }

  /**
   * Checks the file of a catalog that is refused as damaged, and serves the catalog again if the file is intact now. Call it within
   * `admit`.
   */
  async recheck(
    warehouse: string,
    catalog: CatalogRef,
    expected: readonly ExpectedTable[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly CatalogFault[]> {
    const { guard, engine } = await this.#runningOf(warehouse);
    return guard.recheck(catalog, {
      check: (request) => engine.checkFile(request, expected, options),
      attach: (request) => engine.attach(request),
    });
  }

  /** Call when the whole attached catalog was read without a fault. */
  async foundSound(warehouse: string, catalog: CatalogRef): Promise<void> {
    (await this.#runningOf(warehouse)).guard.foundSound(catalog);
  }

  /**
   * Prevents the engine from checkpointing its catalogs: meanwhile, writes go to the logs only. An engine that is not running is
   * not started; if it starts before the release, its files are pinned then.
   */
  async pinFiles(name: string, signal: AbortSignal): Promise<PinnedFiles> {
    const running = await this.#runningOf(name);
    const pin: Snapshot[] = [];
    running.filePins.add(pin);
    const release = async () => {
      running.filePins.delete(pin);
      for (const snapshot of pin.splice(0)) await snapshot.close();
    };
    try {
      if (running.engine.running) await this.#pin(running, pin, signal);
      return { damaged: running.guard.damaged(), release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  /** A catalog that cannot be pinned because it is being renamed is skipped: the copy of its file is checked at the end. */
  async #pin(running: Running, pin: Snapshot[], signal: AbortSignal): Promise<void> {
    for (const catalog of await this.#options.catalogsOf(running.description.name)) {
      try {
        pin.push(await running.engine.snapshot(catalog, { signal, keepsFile: true }));
      } catch (error) {
        if (!(error instanceof Failure) || signal.aborted) throw error;
      }
    }
  }

  /** The storage layouts of all engines. */
  storages(): readonly CatalogStorage[] {
    return this.#options.engines.flatMap(({ storage }) => storage ?? []);
  }

  /** Follows the feed of changes: reads the changed description of a warehouse. `apply` passes it on to the engine. */
  changed(change: Change): Promise<void> | undefined {
    if (change.kind !== 'object') return undefined;
    if (change.category === 'warehouses') return this.#describeAgain(change.objectId);
    return change.category === 'backends' && change.parentId !== null
      ? this.#describeAgain(change.parentId)
      : undefined;
  }

  /** Reads all descriptions again. */
  async reload(): Promise<void> {
    this.#descriptions.clear();
    await Promise.all(this.#running.keys().map((id) => this.#describeAgain(id)));
  }

  async #describeAgain(id: string): Promise<void> {
    this.#descriptions.clear();
    const running = await this.#running.get(id);
    if (!running) return;
    const { name, spec } = running.description;
    const description = await this.#options.load(name);
    if (description?.id === id) {
      running.description = description;
      // Who knows of the change by now may rely on it; the rest of it, below, takes longer.
      running.engine.servers?.withdraw(
        description.backends.flatMap(({ disabled, name: one }) => (disabled ? one : [])),
      );
    }
    // The change may be of another server, which applied it to its own connection only.
    if (!this.#options.otherServers || !this.engine(spec.engine)?.isReachedByAllServers) return;
    const applied = description?.id === id ? this.apply(name) : this.removed(id);
    applied.catch((error: unknown) =>
      this.#options.observe({ kind: 'backgroundError', what: 'change of a warehouse', error }),
    );
  }

  /** Call it after a change of a warehouse, in the server that runs it: stops the engine of a suspended one, configures the others. */
  async apply(name: string): Promise<void> {
    const description = await this.#options.load(name);
    const running = description && (await this.#running.get(description.id));
    if (!running) return;
    const { spec } = description;
    await running.engine.servers?.refresh();
    if (spec.suspended) {
      running.admission.refuseAll(suspended(name));
      await running.engine.stop();
    } else if (JSON.stringify(running.configured) !== JSON.stringify(spec)) {
      running.configured = spec;
      await running.engine.configure(spec);
    }
  }

  /** Call after a warehouse was deleted. */
  async removed(id: string): Promise<void> {
    const running = await this.#running.get(id);
    this.#running.delete(id);
    await running?.engine.stop();
    await running?.guard.stop();
  }

  /** Starts a warehouse, as its `resume` operation does. */
  async resume(name: string): Promise<void> {
    const running = await this.#runningOf(name);
    running.isAsleep = false;
    await this.#ensureStarted(running);
  }

  /** The running engine of a warehouse; resumes the warehouse if that is allowed. For changes of the catalog, which do not queue. */
  async use(name: string): Promise<EngineWarehouse> {
    const running = await this.#runningOf(name);
    await this.#ensureAwake(running);
    return running.engine;
  }

  async allRunning(): Promise<readonly EngineWarehouse[]> {
    const all = await Promise.allSettled(this.#running.values());
    return all.flatMap((entry) =>
      entry.status === 'fulfilled' && entry.value.engine.running ? [entry.value.engine] : [],
    );
  }

  /** The load of each open warehouse and its backends, for the metrics. */
  async load(): Promise<readonly WarehouseLoad[]> {
    const all = await Promise.allSettled(this.#running.values());
    return all.flatMap((entry) => (entry.status === 'fulfilled' ? loadOf(entry.value) : []));
  }

  /** Throws WAREHOUSE_BUSY if the warehouse is full, before any work is done for a statement. Delays callers that return too early. */
  async requireQueueCapacity(name: string, request: AdmissionRequest): Promise<void> {
    const { admission, description } = await this.#runningOf(name);
    await admission.requireQueueCapacity(this.#limitsOf(description), request);
  }

  /** Runs a statement once it is admitted. Throws WAREHOUSE_BUSY. */
  async admit<T>(
    name: string,
    request: AdmissionRequest,
    work: (engine: EngineWarehouse, queuedMs: number, spec: WarehouseSpec) => Promise<T>,
  ): Promise<T> {
    const running = await this.#runningOf(name);
    const { spec } = running.description;
    return running.admission.run(this.#limitsOf(running.description), request, async (queuedMs) => {
      if (!running.engine.running) await this.#ensureAwake(running);
      const recovered = this.#recoveryWait(name);
      if (recovered) {
        await recovered;
        if (!running.engine.running) await this.#ensureAwake(running);
      }
      running.lastUsedAt = performance.now();
      try {
        return await work(running.engine, queuedMs, spec);
      } finally {
        running.lastUsedAt = performance.now();
      }
    });
  }

  async availableBackends(name: string): Promise<number> {
    return availableBackendsOf(await this.#watched(name)).length;
  }

  /** How many replicas a new table can have, of each of its tablets. */
  async availableReplicas(name: string): Promise<number> {
    return availableReplicasOf(await this.#watched(name));
  }

  /** Throws REPLICAS_UNAVAILABLE, with the tables and their tablets, if no backend is available for one of them. */
  async requireReplicas(name: string, tables: readonly string[]): Promise<void> {
    const missing = missingTabletsOf(await this.#watched(name));
    if (missing.length > 0) throw replicasUnavailable(tables, missing);
  }

  /** Of an engine with a cluster, after its servers were asked how they are. Throws WAREHOUSE_SUSPENDED. */
  async #watched(name: string): Promise<Running> {
    const running = await this.#runningOf(name);
    if (running.engine.servers) await this.#ensureAwake(running);
    return running;
  }

  /** The servers of a cluster; undefined if the engine has none. Throws WAREHOUSE_SUSPENDED. */
  serversOf = async (name: string): Promise<RegisteredServers | undefined> =>
    (await this.#watched(name)).engine.servers;

  /** What the servers of a cluster have in common; undefined if it has none. */
  layoutOf = async (name: string): Promise<ReturnType<typeof layoutOf>> =>
    layoutOf((await this.#describe(name)).backends);

  async backendStatus(name: string, backend: string): Promise<BackendStatus> {
    return (await this.#runningOf(name)).engine.status(backend);
  }

  /** The tablets of a table by id, with their replicas by backend. The replicas of a disabled backend are not available. */
  async tabletsOf(name: string, table: TableRef): Promise<readonly Tablet[]> {
    const { engine, description } = await this.#runningOf(name);
    return servedTablets(await engine.topology().tablets(table), description);
  }

  /** `tableCount`: the number of tables of the warehouse. */
  async tabletCount(name: string, backend: string, tableCount: () => Promise<number>): Promise<number> {
    return (await this.#runningOf(name)).engine.topology().tabletCount(backend, tableCount);
  }

  /** The condition of a warehouse from state in memory: calls no engine and resumes none. */
  async condition(name: string): Promise<WarehouseCondition> {
    const described = await this.#describe(name);
    const serverId = this.#otherServerOf(described);
    if (serverId === undefined) return this.#conditionOf(await this.#runningOf(name));
    const reports = this.#options.otherServers?.reportOf(serverId);
    return reportIn(reports, described.id)?.condition ?? conditionWithoutServer(serverId, reports === undefined);
  }

  #conditionOf(running: Running): WarehouseCondition {
    return conditionOf(running, this.#options.disk.message);
  }

  #limitsOf({ spec }: WarehouseDescription): AdmissionLimits {
    return {
      queriesMax: spec.queriesMax,
      // A cluster shares its processors by itself.
      sharedMax: spec.cluster ? spec.queriesMax : Math.max(sharedMin, 2 * spec.threads - 1),
      queueMax: spec.queueMax,
      queueWaitMs: this.#options.queueWaitMs,
    };
  }

  #describe(name: string): Promise<WarehouseDescription> {
    let found = this.#descriptions.get(name);
    if (!found) {
      found = this.#options.load(name);
      this.#descriptions.set(name, found);
      found.then(
        (description) => description ?? this.#descriptions.delete(name),
        () => this.#descriptions.delete(name),
      );
    }
    return found.then((description) => {
      if (!description) throw objectNotFound('warehouses', name, `there is no warehouse "${name}"`);
      return description;
    });
  }

  async #runningOf(name: string): Promise<Running> {
    const description = await this.#describe(name);
    let running = this.#running.get(description.id);
    if (!running) {
      const serverId = this.#otherServerOf(description);
      if (serverId !== undefined) throw onAnotherServer(name, serverId);
      running = Promise.resolve(this.#createRunning(description));
      this.#running.set(description.id, running);
      // The servers of a cluster are watched from the beginning.
      if (description.spec.cluster && !description.spec.suspended)
        running.then((opened) => this.#ensureStarted(opened)).catch(() => undefined);
    }
    return running;
  }

  #createRunning(description: WarehouseDescription): Running {
    const { dataDirectory, spoolDirectory, readableDirectories, observe, catalogsOf } = this.#options;
    const adapter = this.engine(description.spec.engine) as Engine;
    const guard = new CatalogGuard({
      dataDirectory,
      ...(adapter.storage ? { storage: adapter.storage } : {}),
      records: this.#options.positions,
      onDamage: ({ name: catalog, reason }) =>
        observe({ kind: 'catalogDamaged', warehouse: description.name, catalog, reason }),
      changed: (catalogId) => {
        for (const listener of this.#damageListeners) listener(catalogId);
      },
      failed: (error) => observe({ kind: 'backgroundError', what: 'positions of catalog files', error }),
    });
    guard.start();
    const writes = new CatalogWrites();
    const opened = adapter.open({
      name: description.name,
      spec: description.spec,
      cluster: clusterAccess(description, {
        current: async () => (await this.#running.get(description.id))?.description ?? description,
        passwordOf: this.#options.passwordOf,
      }),
      dataDirectory,
      spoolDirectory,
      ...(readableDirectories ? { readableDirectories } : {}),
      observe,
      catalogs: () => catalogsOf(description.name),
      toAttach: async () => guard.attachable(await catalogsOf(description.name)),
      attached: (report) => guard.reported(report),
    });
    return {
      description,
      configured: description.spec,
      engine: withGroupedInserts(
        guardedEngine({
          engine: opened,
          guard,
          requireRoom: () => this.#options.disk.requireRoom(),
          gate: this.writeGate,
          writes,
          fence: adapter.isReachedByAllServers ? this.fence : undefined,
        }),
      ),
      guard,
      writes,
      admission: new Admission(),
      lastUsedAt: performance.now(),
      isAsleep: false,
      starting: undefined,
      startError: undefined,
      filePins: new Set(),
    };
  }

  async #ensureAwake(running: Running): Promise<void> {
    const { name, spec } = running.description;
    if (spec.suspended || (running.isAsleep && !spec.autoResume)) throw suspended(name);
    if (!running.engine.running) await this.#ensureStarted(running);
  }

  async #ensureStarted(running: Running): Promise<void> {
    if (this.#isStopped) throw new Failure('SHUTTING_DOWN', 'the server is shutting down');
    await this.writeGate.passed();
    running.starting ??= running.engine.start().then(
      async () => {
        // Before anything is written.
        for (const pin of running.filePins) await this.#pin(running, pin, AbortSignal.timeout(pinMsMax));
        running.startError = undefined;
        running.isAsleep = false;
        running.lastUsedAt = performance.now();
      },
      (error: unknown) => {
        running.startError = error instanceof Failure ? error.message : 'the engine does not start';
        throw error;
      },
    );
    try {
      await running.starting;
    } finally {
      running.starting = undefined;
    }
  }

  async #suspendIdle(): Promise<void> {
    for (const entry of await Promise.allSettled(this.#running.values())) {
      if (entry.status === 'rejected') continue;
      const running = entry.value;
      const { autoSuspendSeconds } = running.description.spec;
      const { admission, engine } = running;
      const isRunning =
        admission.running + admission.queued > 0 ||
        statusesOf(running).some(({ runningQueries }) => runningQueries > 0);
      const busy = isRunning || running.filePins.size > 0;
      if (busy) running.lastUsedAt = performance.now();
      if (!engine.running || busy || autoSuspendSeconds === 0) continue;
      if (performance.now() - running.lastUsedAt < autoSuspendSeconds * 1000) continue;
      running.isAsleep = true;
      await engine
        .stop()
        .catch((error: unknown) => this.#options.observe({ kind: 'backgroundError', what: 'auto-suspend', error }));
    }
  }
}
