// The warehouses that this server has opened, each with its engine: how they are started, suspended when idle, kept as the store describes
// them, and pinned while their files are read. What callers ask of a warehouse is in warehouses.ts.
import type { WarehouseSpec } from '../../model/records.ts';
import type { Observe } from '../../observe/observations.ts';
import { Failure } from '../../standard/failure.ts';
import type { ReplicaChange } from '../../store/changes/change.ts';
import { Admission } from '../admission.ts';
import { CatalogGuard } from '../catalog_guard.ts';
import { clusterAccess } from '../cluster/cluster_access.ts';
import { CatalogWrites } from '../copies/catalog_writes.ts';
import type { WriteFence } from '../copies/write_fence.ts';
import { withGroupedInserts } from '../grouped_inserts.ts';
import type { DamagedCatalog, PositionRecords } from '../port/catalog_storage.ts';
import type { Engine, EngineWarehouse } from '../port/engine.ts';
import type { CatalogRef, DefinedObject, TableName } from '../port/refs.ts';
import type { Snapshot } from '../port/snapshot.ts';
import type { WarehouseDescription } from '../warehouse_description.ts';
import { guardedEngine } from './guarded_engine.ts';
import type { OtherServers } from './other_servers.ts';
import { statusesOf, suspended } from './warehouse_condition.ts';
import { WriteGate } from './write_gate.ts';

export interface OpenWarehousesOptions {
  readonly engines: readonly Engine[];
  /** Undefined if the warehouse does not exist. */
  readonly load: (name: string) => Promise<WarehouseDescription | undefined>;
  /** Of the connections to the cluster of a warehouse; undefined: it has none. */
  readonly passwordOf: (warehouseId: string) => Promise<string | undefined>;
  readonly catalogsOf: (warehouse: string) => Promise<readonly CatalogRef[]>;
  /** See `EngineWarehouseOptions.storedCatalogs`. */
  readonly storedCatalogsOf: (warehouse: string) => Promise<readonly string[]>;
  /** See `EngineWarehouseOptions.definedObject`. */
  readonly definedObject?: (warehouse: string, name: TableName) => Promise<DefinedObject | undefined>;
  /** Free space on the disk of the data directory. */
  readonly disk: { requireRoom(): void };
  /** Records of the positions of the catalog files. */
  readonly positions: PositionRecords;
  /** Absent if this server alone uses the store. */
  readonly otherServers?: OtherServers | undefined;
  readonly dataDirectory: string;
  readonly spoolDirectory: string;
  readonly readableDirectories?: readonly string[];
  readonly observe: Observe;
}

export interface OpenWarehouse {
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

export interface PinnedFiles {
  readonly damaged: readonly DamagedCatalog[];
  /** Must be called exactly once. */
  release(): Promise<void>;
}

const idleCheckMs = 1000;
const pinMsMax = 60_000;

export class OpenWarehouses {
  readonly #options: OpenWarehousesOptions;
  readonly #damageChanged: (catalogId: string) => void;
  /** By the id of the warehouse, which is stable across changes of its description. */
  readonly #open = new Map<string, Promise<OpenWarehouse>>();
  readonly writeGate = new WriteGate();
  /** Writes to warehouses that several servers write to pass it. To be set before any engine is opened. */
  fence: WriteFence | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  /** `damageChanged` is called when the known damage of a catalog has changed. */
  constructor(options: OpenWarehousesOptions, damageChanged: (catalogId: string) => void) {
    this.#options = options;
    this.#damageChanged = damageChanged;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#suspendIdle(), idleCheckMs);
    this.#timer.unref();
  }

  /** Stops all engines; none is started afterwards. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    const all = await this.all();
    await Promise.all(all.map(({ engine }) => engine.stop()));
    await Promise.all(all.map(({ guard }) => guard.stop()));
  }

  /** Those whose opening succeeded. */
  async all(): Promise<readonly OpenWarehouse[]> {
    const all = await Promise.allSettled(this.#open.values());
    return all.flatMap((entry) => (entry.status === 'fulfilled' ? [entry.value] : []));
  }

  /** Opens a warehouse whose engine this server runs, unless it is open. */
  of(description: WarehouseDescription): Promise<OpenWarehouse> {
    let open = this.#open.get(description.id);
    if (!open) {
      open = Promise.resolve(this.#opened(description));
      this.#open.set(description.id, open);
      // The servers of a cluster are watched from the beginning.
      if (description.spec.cluster && !description.spec.suspended)
        open.then((opened) => this.ensureStarted(opened)).catch(() => undefined);
    }
    return open;
  }

  #opened(description: WarehouseDescription): OpenWarehouse {
    const { dataDirectory, spoolDirectory, readableDirectories, observe } = this.#options;
    const { catalogsOf, storedCatalogsOf, definedObject } = this.#options;
    const adapter = this.#adapterOf(description);
    const guard = new CatalogGuard({
      dataDirectory,
      ...(adapter.storage ? { storage: adapter.storage } : {}),
      records: this.#options.positions,
      onDamage: ({ name: catalog, reason }) =>
        observe({ kind: 'catalogDamaged', warehouse: description.name, catalog, reason }),
      changed: this.#damageChanged,
      failed: (error) => observe({ kind: 'backgroundError', what: 'positions of catalog files', error }),
    });
    guard.start();
    const writes = new CatalogWrites();
    const opened = adapter.open({
      name: description.name,
      spec: description.spec,
      cluster: clusterAccess(description, {
        current: async () => (await this.#open.get(description.id))?.description ?? description,
        passwordOf: this.#options.passwordOf,
        noticesOf: this.#options.otherServers?.noticesOf,
      }),
      dataDirectory,
      spoolDirectory,
      ...(readableDirectories ? { readableDirectories } : {}),
      observe,
      catalogs: () => catalogsOf(description.name),
      storedCatalogs: () => storedCatalogsOf(description.name),
      definedObject: definedObject && ((name) => definedObject(description.name, name)),
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

  #adapterOf({ spec }: WarehouseDescription): Engine {
    return this.#options.engines.find(({ name }) => name === spec.engine) as Engine;
  }

  /** Reads the changed description of a warehouse. `apply` passes it on to the engine, here only if another server may have changed it. */
  async describeAgain(id: string): Promise<void> {
    const open = await this.#open.get(id);
    if (!open) return;
    const { name } = open.description;
    const description = await this.#options.load(name);
    if (description?.id === id) {
      open.description = description;
      // Who knows of the change by now may rely on it; the rest of it, below, takes longer.
      open.engine.servers?.withdraw(description.backends.flatMap(({ disabled, name: one }) => (disabled ? one : [])));
    }
    // The change may be of another server, which applied it to its own connection only.
    if (!this.#options.otherServers || !this.#adapterOf(open.description).isReachedByAllServers) return;
    // Not read again: nobody would repeat what a failing store prevents here.
    const applied = description?.id === id ? this.#applied(open, description) : this.removed(id);
    applied.catch((error: unknown) =>
      this.#options.observe({ kind: 'backgroundError', what: 'change of a warehouse', error }),
    );
  }

  /** A warehouse that is not open here reads none of its backends. */
  async replicaChanged({ warehouseId, backend, finding }: ReplicaChange): Promise<void> {
    const open = await this.#open.get(warehouseId);
    open?.engine.servers?.replicaChanged(backend, finding);
  }

  async describeAllAgain(): Promise<void> {
    await Promise.all(this.#open.keys().map((id) => this.describeAgain(id)));
  }

  /** After a change of the description: stops the engine of a suspended warehouse, configures the others. */
  async apply(name: string): Promise<void> {
    const description = await this.#options.load(name);
    const open = description && (await this.#open.get(description.id));
    if (open) await this.#applied(open, description);
  }

  async #applied(open: OpenWarehouse, { name, spec }: WarehouseDescription): Promise<void> {
    await open.engine.servers?.refresh();
    if (spec.suspended) {
      open.admission.refuseAll(suspended(name));
      await open.engine.stop();
    } else if (JSON.stringify(open.configured) !== JSON.stringify(spec)) {
      open.configured = spec;
      await open.engine.configure(spec);
    }
  }

  /** After a warehouse was deleted. */
  async removed(id: string): Promise<void> {
    const open = await this.#open.get(id);
    this.#open.delete(id);
    await open?.engine.stop();
    await open?.guard.stop();
  }

  /** Starts the engine, unless the warehouse is suspended and may not resume. Throws WAREHOUSE_SUSPENDED. */
  async ensureAwake(open: OpenWarehouse): Promise<void> {
    const { name, spec } = open.description;
    if (spec.suspended || (open.isAsleep && !spec.autoResume)) throw suspended(name);
    if (!open.engine.running) await this.ensureStarted(open);
  }

  /** Starts the engine, whatever suspended the warehouse. Throws SHUTTING_DOWN. */
  async ensureStarted(open: OpenWarehouse): Promise<void> {
    if (this.#isStopped) throw new Failure('SHUTTING_DOWN', 'the server is shutting down');
    await this.writeGate.passed();
    open.starting ??= open.engine.start().then(
      async () => {
        // Before anything is written.
        for (const pin of open.filePins) await this.#pin(open, pin, AbortSignal.timeout(pinMsMax));
        open.startError = undefined;
        open.isAsleep = false;
        open.lastUsedAt = performance.now();
      },
      (error: unknown) => {
        open.startError = error instanceof Failure ? error.message : 'the engine does not start';
        throw error;
      },
    );
    try {
      await open.starting;
    } finally {
      open.starting = undefined;
    }
  }

  async pinFiles(open: OpenWarehouse, signal: AbortSignal): Promise<PinnedFiles> {
    const pin: Snapshot[] = [];
    open.filePins.add(pin);
    const release = async () => {
      open.filePins.delete(pin);
      for (const snapshot of pin.splice(0)) await snapshot.close();
    };
    try {
      if (open.engine.running) await this.#pin(open, pin, signal);
      return { damaged: open.guard.damaged(), release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  /** A catalog that cannot be pinned because it is being renamed is skipped: the copy of its file is checked at the end. */
  async #pin(open: OpenWarehouse, pin: Snapshot[], signal: AbortSignal): Promise<void> {
    for (const catalog of await this.#options.catalogsOf(open.description.name)) {
      try {
        pin.push(await open.engine.snapshot(catalog, { signal, keepsFile: true }));
      } catch (error) {
        if (!(error instanceof Failure) || signal.aborted) throw error;
      }
    }
  }

  async #suspendIdle(): Promise<void> {
    for (const open of await this.all()) {
      const { autoSuspendSeconds } = open.description.spec;
      const { admission, engine } = open;
      const isRunning =
        admission.running + admission.queued > 0 || statusesOf(open).some(({ runningQueries }) => runningQueries > 0);
      const busy = isRunning || open.filePins.size > 0;
      if (busy) open.lastUsedAt = performance.now();
      if (!engine.running || busy || autoSuspendSeconds === 0) continue;
      if (performance.now() - open.lastUsedAt < autoSuspendSeconds * 1000) continue;
      open.isAsleep = true;
      await engine
        .stop()
        .catch((error: unknown) => this.#options.observe({ kind: 'backgroundError', what: 'auto-suspend', error }));
    }
  }
}
