// What callers ask of warehouses: their engines and capabilities, admission of statements, condition, backends and tablets, and the same
// of warehouses that another server runs. How a warehouse is opened, started and suspended is in open_warehouses.ts.
import type { EngineCapability } from '../../model/engine_capabilities.ts';
import type { ExpectedTable } from '../../model/expected_table.ts';
import type { WarehouseSpec } from '../../model/records.ts';
import { objectNotFound } from '../../standard/failure.ts';
import type { Change } from '../../store/changes/change.ts';
import type { AdmissionLimits, AdmissionRequest } from '../admission.ts';
import { layoutOf, type RegisteredServers, replicasUnavailable } from '../cluster/registered_servers.ts';
import type { CatalogWrites } from '../copies/catalog_writes.ts';
import type { WriteFence } from '../copies/write_fence.ts';
import type { BackendStatus, Tablet } from '../port/backends.ts';
import type { CatalogFault, CatalogStorage, DamagedCatalog } from '../port/catalog_storage.ts';
import type { Engine, EngineWarehouse } from '../port/engine.ts';
import type { CatalogRef, TableRef } from '../port/refs.ts';
import { requireCapability } from '../required_capability.ts';
import type { WarehouseDescription } from '../warehouse_description.ts';
import { type OpenWarehouse, OpenWarehouses, type OpenWarehousesOptions, type PinnedFiles } from './open_warehouses.ts';
import {
  catalogsWithChangedDamage,
  conditionWithoutServer,
  onAnotherServer,
  reportIn,
  type WarehouseReports,
} from './other_servers.ts';
import { Quarantine } from './quarantine.ts';
import {
  availableBackendsOf,
  availableReplicasOf,
  conditionOf,
  loadOf,
  missingTabletsOf,
  servedTablets,
  type WarehouseCondition,
  type WarehouseLoad,
} from './warehouse_condition.ts';
import type { WriteGate } from './write_gate.ts';

export interface WarehousesOptions extends OpenWarehousesOptions {
  /** Free space on the disk of the data directory. */
  readonly disk: { requireRoom(): void; readonly message: string | undefined };
  readonly queueWaitMs: number;
}

/** The lower bound of `sharedMax`. More statements than two for each thread only compete for the processor. */
const sharedMin = 3;

type RecoveryWait = (warehouse: string) => Promise<void> | undefined;

export class Warehouses {
  readonly #options: WarehousesOptions;
  readonly #open: OpenWarehouses;
  readonly #descriptions = new Map<string, Promise<WarehouseDescription | undefined>>();
  readonly #damageListeners: ((catalogId: string) => void)[] = [];
  #recoveryWait: RecoveryWait = () => undefined;
  /** Statements that every warehouse refuses for a while. */
  readonly quarantine = new Quarantine();

  constructor(options: WarehousesOptions) {
    this.#options = options;
    this.#open = new OpenWarehouses(options, this.#damageChanged);
  }

  /** Holds back writes to all warehouses. */
  get writeGate(): WriteGate {
    return this.#open.writeGate;
  }

  /** Writes to warehouses that several servers write to pass it. To be called before any engine is opened. */
  fenceWritesWith(fence: WriteFence): void {
    this.#open.fence = fence;
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
    this.#open.start();
  }

  /** Stops all engines; none is started afterwards. */
  stop(): Promise<void> {
    return this.#open.stop();
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
    const reports = (await this.#open.all()).map((open) => {
      return [open.description.id, { condition: this.#conditionOf(open), damaged: open.guard.damaged() }];
    });
    return Object.fromEntries(reports);
  }

  /** Call it with each changed report of another server. */
  reported(report: string, previous: string | undefined): void {
    for (const catalogId of catalogsWithChangedDamage(report, previous)) this.#damageChanged(catalogId);
  }

  readonly #damageChanged = (catalogId: string): void => {
    for (const listener of this.#damageListeners) listener(catalogId);
  };

  /** Checks the files of these catalogs of a warehouse against their recorded positions. Starts no engine. */
  async inspect(name: string, catalogs: readonly CatalogRef[]): Promise<void> {
    if (await this.otherServerOf(name)) return;
    const { guard } = await this.#openOf(name);
    await guard.inspect(catalogs);
  }

  /** The writes that this server sends to the engine of a warehouse. */
  readonly writesOf = async (name: string): Promise<CatalogWrites> => (await this.#openOf(name)).writes;

  /** The known damage of a catalog's file, or undefined. */
  async damageOf(warehouse: string, catalogId: string): Promise<DamagedCatalog | undefined> {
    const description = await this.#describe(warehouse);
    const serverId = this.#otherServerOf(description);
    if (serverId === undefined) return (await this.#openOf(warehouse)).guard.damageOf(catalogId);
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
    const { guard, engine } = await this.#openOf(warehouse);
    return guard.recheck(catalog, {
      check: (request) => engine.checkFile(request, expected, options),
      attach: (request) => engine.attach(request),
    });
  }

  /** Call when the whole attached catalog was read without a fault. */
  async foundSound(warehouse: string, catalog: CatalogRef): Promise<void> {
    (await this.#openOf(warehouse)).guard.foundSound(catalog);
  }

  /**
   * Prevents the engine from checkpointing its catalogs: meanwhile, writes go to the logs only. An engine that is not running is
   * not started; if it starts before the release, its files are pinned then.
   */
  async pinFiles(name: string, signal: AbortSignal): Promise<PinnedFiles> {
    return this.#open.pinFiles(await this.#openOf(name), signal);
  }

  /** The storage layouts of all engines. */
  storages(): readonly CatalogStorage[] {
    return this.#options.engines.flatMap(({ storage }) => storage ?? []);
  }

  /** Follows the feed of changes: reads the changed description of a warehouse, which `apply` passes on to the engine, and passes on notices about replicas. */
  changed(change: Change): Promise<void> | undefined {
    if (change.kind === 'replica') return this.#open.replicaChanged(change);
    if (change.kind !== 'object') return undefined;
    const id =
      change.category === 'warehouses' ? change.objectId : change.category === 'backends' ? change.parentId : null;
    if (id === null) return undefined;
    this.#descriptions.clear();
    return this.#open.describeAgain(id);
  }

  /** Reads all descriptions again. */
  reload(): Promise<void> {
    this.#descriptions.clear();
    return this.#open.describeAllAgain();
  }

  /** Call it after a change of a warehouse, in the server that runs it: stops the engine of a suspended one, configures the others. */
  apply(name: string): Promise<void> {
    return this.#open.apply(name);
  }

  /** Call after a warehouse was deleted. */
  removed(id: string): Promise<void> {
    return this.#open.removed(id);
  }

  /** Starts a warehouse, as its `resume` operation does. */
  async resume(name: string): Promise<void> {
    const open = await this.#openOf(name);
    open.isAsleep = false;
    await this.#open.ensureStarted(open);
  }

  /** The running engine of a warehouse; resumes the warehouse if that is allowed. For changes of the catalog, which do not queue. */
  async use(name: string): Promise<EngineWarehouse> {
    const open = await this.#openOf(name);
    await this.#open.ensureAwake(open);
    return open.engine;
  }

  async allRunning(): Promise<readonly { readonly name: string; readonly engine: EngineWarehouse }[]> {
    return (await this.#open.all()).flatMap(({ engine, description }) =>
      engine.running ? { name: description.name, engine } : [],
    );
  }

  /** The servers of each warehouse on a cluster that this server watches, by the id of the warehouse. */
  async runningClusters(): Promise<readonly { readonly id: string; readonly servers: RegisteredServers }[]> {
    return (await this.#open.all()).flatMap(({ engine, description }) =>
      engine.running && engine.servers ? { id: description.id, servers: engine.servers } : [],
    );
  }

  /** The load of each open warehouse and its backends, for the metrics. */
  async load(): Promise<readonly WarehouseLoad[]> {
    return (await this.#open.all()).map(loadOf);
  }

  /** Throws WAREHOUSE_BUSY if the warehouse is full, before any work is done for a statement. Delays callers that return too early. */
  async requireQueueCapacity(name: string, request: AdmissionRequest): Promise<void> {
    const { admission, description } = await this.#openOf(name);
    await admission.requireQueueCapacity(this.#limitsOf(description), request);
  }

  /** Runs a statement once it is admitted. Throws WAREHOUSE_BUSY. */
  async admit<T>(
    name: string,
    request: AdmissionRequest,
    work: (engine: EngineWarehouse, queuedMs: number, spec: WarehouseSpec) => Promise<T>,
  ): Promise<T> {
    const open = await this.#openOf(name);
    const { spec } = open.description;
    return open.admission.run(this.#limitsOf(open.description), request, async (queuedMs) => {
      if (!open.engine.running) await this.#open.ensureAwake(open);
      const recovered = this.#recoveryWait(name);
      if (recovered) {
        await recovered;
        if (!open.engine.running) await this.#open.ensureAwake(open);
      }
      open.lastUsedAt = performance.now();
      try {
        return await work(open.engine, queuedMs, spec);
      } finally {
        open.lastUsedAt = performance.now();
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
  async #watched(name: string): Promise<OpenWarehouse> {
    const open = await this.#openOf(name);
    if (open.engine.servers) await this.#open.ensureAwake(open);
    return open;
  }

  /** The servers of a cluster; undefined if the engine has none. Throws WAREHOUSE_SUSPENDED. */
  serversOf = async (name: string): Promise<RegisteredServers | undefined> =>
    (await this.#watched(name)).engine.servers;

  /** What the servers of a cluster have in common; undefined if it has none. */
  layoutOf = async (name: string): Promise<ReturnType<typeof layoutOf>> =>
    layoutOf((await this.#describe(name)).backends);

  async backendStatus(name: string, backend: string): Promise<BackendStatus> {
    return (await this.#openOf(name)).engine.status(backend);
  }

  /** The tablets of a table by id, with their replicas by backend. The replicas of a disabled backend are not available. */
  async tabletsOf(name: string, table: TableRef): Promise<readonly Tablet[]> {
    const { engine, description } = await this.#openOf(name);
    return servedTablets(await engine.topology().tablets(table), description);
  }

  /** `tableCount`: the number of tables of the warehouse. */
  async tabletCount(name: string, backend: string, tableCount: () => Promise<number>): Promise<number> {
    return (await this.#openOf(name)).engine.topology().tabletCount(backend, tableCount);
  }

  /** The condition of a warehouse from state in memory: calls no engine and resumes none. */
  async condition(name: string): Promise<WarehouseCondition> {
    const described = await this.#describe(name);
    const serverId = this.#otherServerOf(described);
    if (serverId === undefined) return this.#conditionOf(await this.#openOf(name));
    const reports = this.#options.otherServers?.reportOf(serverId);
    return reportIn(reports, described.id)?.condition ?? conditionWithoutServer(serverId, reports === undefined);
  }

  #conditionOf(open: OpenWarehouse): WarehouseCondition {
    return conditionOf(open, this.#options.disk.message);
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

  async #openOf(name: string): Promise<OpenWarehouse> {
    const description = await this.#describe(name);
    const serverId = this.#otherServerOf(description);
    if (serverId !== undefined) throw onAnotherServer(name, serverId);
    return this.#open.of(description);
  }
}
