// Protects the catalogs of a warehouse against damaged files: checks files against their recorded positions before they are
// attached, records the positions of the files, and refuses work on damaged catalogs. How a file is read is up to the adapter (see
// catalog_storage.ts).
import { foldName } from '../model/names.ts';
import type { RequestOutcome } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import {
  type AttachReport,
  type AttachRequest,
  type CatalogFault,
  type CatalogStorage,
  type DamagedCatalog,
  DamagedFile,
  type FilePosition,
  faultText,
  type PositionRecords,
  type RecordedPosition,
} from './port/catalog_storage.ts';
import type { CatalogRef } from './port/refs.ts';

/**
 * Maximum age of the recorded position of a catalog that is being written. The first write to a new log is recorded before it is
 * acknowledged.
 */
const recordEveryMs = 1_000;

/** Inspections mostly wait for the disk; each needs 1 MB of memory if there is a log. */
const inspectionsMax = 8;

export interface CatalogGuardOptions {
  readonly dataDirectory: string;
  /** Absent if the catalogs are not files of this server: then only what the engine reports is known. */
  readonly storage?: CatalogStorage;
  readonly records: PositionRecords;
  readonly onDamage: (damaged: DamagedCatalog) => void;
  /** Called when the known damage of the catalog changed. */
  readonly changed: (catalogId: string) => void;
  readonly failed: (error: unknown) => void;
}

export interface Recheck {
  /** Returns the faults of a file that no engine has open. */
  readonly check: (request: AttachRequest) => Promise<readonly CatalogFault[]>;
  readonly attach: (request: AttachRequest) => Promise<void>;
}

interface Attached extends CatalogRef {
  readonly identity: string;
  /** The log whose first write has been recorded. */
  log: string;
  recorded: FilePosition;
  /** While a change detaches it: its file may be removed at any time. */
  isDetaching: boolean;
}

export class CatalogGuard {
  readonly #options: CatalogGuardOptions;
  readonly #attached = new Map<string, Attached>();
  readonly #damaged = new Map<string, DamagedCatalog>();
  /** Catalogs whose files stopped the engine: attached again only after a successful recheck. */
  readonly #excluded = new Set<string>();
  /** The last recheck of each catalog: rechecks of one catalog run one at a time. */
  readonly #rechecks = new Map<string, Promise<unknown>>();
  readonly #written = new Set<string>();
  #recording: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: CatalogGuardOptions) {
    this.#options = options;
  }

  damaged(): readonly DamagedCatalog[] {
    return [...this.#damaged.values()];
  }

  damageOf(catalogId: string): DamagedCatalog | undefined {
    return this.#damaged.get(catalogId);
  }

  /** Returns the catalogs that may be attached. Call it before every start of an engine. */
  async attachable(catalogs: readonly CatalogRef[]): Promise<AttachRequest[]> {
    // Records what the engine wrote before it ended.
    await this.#record().catch(this.#options.failed);
    this.#attached.clear();
    return this.inspect(catalogs);
  }

  /** Like `attachable`, when no engine is to be started. */
  async inspect(catalogs: readonly CatalogRef[]): Promise<AttachRequest[]> {
    if (!this.#options.storage) return catalogs.filter(({ id }) => !this.#excluded.has(id));
    const records = await this.#options.records.load();
    const attachable: AttachRequest[] = [];
    for (let start = 0; start < catalogs.length; start += inspectionsMax) {
      const batch = catalogs.slice(start, start + inspectionsMax);
      const inspected = await Promise.all(batch.map((catalog) => this.#inspect(catalog, records.get(catalog.id))));
      attachable.push(...inspected.filter((request) => request !== undefined));
    }
    return attachable;
  }

  /** Handles the report of an engine about a catalog that it attached or could not attach. */
  reported(report: AttachReport): void {
    const { catalog } = report;
    if (report.kind === 'attached') {
      const { identity } = report;
      this.#clearRefusal(catalog.id);
      this.#attached.set(catalog.id, {
        ...catalog,
        identity,
        log: '',
        recorded: { checkpoint: 0, logBytes: 0 },
        isDetaching: false,
      });
      this.#record(catalog.id).catch(this.#options.failed);
      return;
    }
    if (report.kind === 'fatal') this.setAside(catalog, report.reason);
    else this.#setDamaged({ ...catalog, reason: report.reason, isAttached: false });
  }

  /** Runs a change that detaches the catalog, and may remove its file. */
  async detach<T>(catalog: CatalogRef, work: () => Promise<T>): Promise<T> {
    const attached = this.#attached.get(catalog.id);
    if (attached) attached.isDetaching = true;
    try {
      const done = await work();
      this.#forget(catalog);
      return done;
    } finally {
      if (attached) attached.isDetaching = false;
    }
  }

  #forget({ id }: CatalogRef): void {
    this.#attached.delete(id);
    this.#damaged.delete(id);
    this.#excluded.delete(id);
  }

  /** The engine stopped because of the file: the catalog is not attached again until `recheck` finds no fault. */
  setAside(catalog: CatalogRef, reason: string): void {
    this.#excluded.add(catalog.id);
    this.#setDamaged({ ...catalog, reason, isAttached: false });
  }

  /** A damaged block was read; the rest of the file can be used. */
  damagedWithin({ id }: CatalogRef, reason: string): void {
    const catalog = this.#attached.get(id);
    if (catalog && !this.#damaged.has(id)) this.#setDamaged({ id, name: catalog.name, reason, isAttached: true });
  }

  /** The damaged part of an attached catalog can be read again, or no longer exists. */
  foundSound({ id }: CatalogRef): void {
    if (!this.#damaged.get(id)?.isAttached) return;
    this.#damaged.delete(id);
    this.#options.changed(id);
  }

  /** Attaches a refused catalog again if its file is intact now. @returns its faults, including those of single tables. */
  recheck(catalog: CatalogRef, work: Recheck): Promise<readonly CatalogFault[]> {
    const { id } = catalog;
    const before = this.#rechecks.get(id) ?? Promise.resolve();
    const done = before.catch(() => undefined).then(() => (this.#isRefused(id) ? this.#recheck(catalog, work) : []));
    this.#rechecks.set(id, done);
    const end = () => {
      if (this.#rechecks.get(id) === done) this.#rechecks.delete(id);
    };
    done.then(end, end);
    return done;
  }

  #isRefused(id: string): boolean {
    return this.#damaged.get(id)?.isAttached === false;
  }

  async #recheck(catalog: CatalogRef, { check, attach }: Recheck): Promise<readonly CatalogFault[]> {
    const { id } = catalog;
    const wasSetAside = this.#excluded.has(id);
    let isReleased = false;
    // Keeps a starting engine from opening the file while another process reads it.
    this.#excluded.add(id);
    try {
      const record = (await this.#options.records.load()).get(id);
      const lag = await this.#faultOf(catalog, record);
      const request = { ...catalog, identity: record?.identity };
      const faults: readonly CatalogFault[] =
        lag === undefined ? await check(request) : [{ kind: 'damaged', reason: lag }];
      const ofFile = faults.find(({ table }) => table === undefined);
      if (ofFile) {
        // An engine that was starting meanwhile may have attached it.
        if (this.#isRefused(id)) this.#setDamaged({ ...catalog, reason: ofFile.reason, isAttached: false });
        return faults;
      }
      await attach(request);
      const refused = this.#damaged.get(id);
      if (refused) return [...faults, { kind: 'damaged', reason: refused.reason }];
      isReleased = true;
      const damaged = faults.find(({ kind }) => kind === 'damaged');
      if (damaged) this.damagedWithin(catalog, faultText(damaged));
      return faults;
    } finally {
      if (isReleased || !wasSetAside) this.#excluded.delete(id);
    }
  }

  /** Throws CATALOG_DAMAGED. */
  require({ id }: CatalogRef): void {
    const damaged = this.#damaged.get(id);
    if (damaged && !damaged.isAttached) throw catalogDamaged(damaged);
  }

  /** The attached catalog with this name in SQL, or undefined. */
  named(name: string): CatalogRef | undefined {
    const folded = foldName(name);
    return this.#attached.values().find((catalog) => foldName(catalog.name) === folded);
  }

  /** Await this after each write, before it is acknowledged: it ensures that a log with acknowledged work is recorded. */
  async written({ id }: CatalogRef): Promise<void> {
    const catalog = this.#attached.get(id);
    if (!catalog) return;
    const { storage, dataDirectory } = this.#options;
    if (!storage) return;
    const log = storage.logOf(dataDirectory, id);
    if (log !== '' && log === catalog.log) {
      this.#written.add(id);
      return;
    }
    // The write is durable, whether or not this can be recorded.
    await this.#record(id).catch(this.#options.failed);
  }

  start(): void {
    this.#timer ??= setInterval(() => {
      if (this.#written.size > 0) this.#record().catch(this.#options.failed);
    }, recordEveryMs).unref();
  }

  /** Call after the engine has closed the files. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const id of this.#attached.keys()) this.#written.add(id);
    await this.#record().catch(this.#options.failed);
  }

  /** Undefined if the catalog must not be attached. */
  async #inspect(catalog: CatalogRef, record: RecordedPosition | undefined): Promise<AttachRequest | undefined> {
    if (this.#excluded.has(catalog.id)) return undefined;
    const isNew = record === undefined && (await this.#isNew(catalog));
    const reason = isNew ? undefined : await this.#faultOf(catalog, record);
    if (reason !== undefined) {
      this.#setDamaged({ ...catalog, reason, isAttached: false });
      return undefined;
    }
    this.#clearRefusal(catalog.id);
    return { ...catalog, identity: record?.identity, isNew };
  }

  /** The first start of a server creates a catalog before an engine exists. */
  async #isNew({ id }: CatalogRef): Promise<boolean> {
    const { storage, records, dataDirectory } = this.#options;
    return storage?.exists(dataDirectory, id) === false && (await records.isEmpty(id));
  }

  async #faultOf(catalog: CatalogRef, recorded: RecordedPosition | undefined): Promise<string | undefined> {
    try {
      const position = await this.#options.storage?.position(this.#options.dataDirectory, catalog.id);
      return recorded && position && faultOfPosition(recorded, position);
    } catch (error) {
      if (error instanceof DamagedFile) return error.message;
      throw error;
    }
  }

  /** Records the positions of all written catalogs and of `id`. Runs are serialized: an older position never replaces a newer one. */
  #record(id?: string): Promise<void> {
    if (id !== undefined) this.#written.add(id);
    const done = this.#recording.catch(() => undefined).then(() => this.#recordWritten());
    this.#recording = done;
    return done;
  }

  async #recordWritten(): Promise<void> {
    const { storage, records, dataDirectory } = this.#options;
    const written = [...this.#written].flatMap((id) => this.#attached.get(id) ?? []);
    this.#written.clear();
    if (!storage) return;
    const positions = new Map<string, RecordedPosition>();
    const logs = new Map<string, string>();
    for (const catalog of written) {
      logs.set(catalog.id, storage.logOf(dataDirectory, catalog.id));
      const position = await this.#positionOf(catalog, storage);
      if (position) positions.set(catalog.id, { ...position, identity: catalog.identity });
    }
    if (positions.size === 0) return;
    try {
      await records.save(positions);
    } catch (error) {
      for (const id of positions.keys()) this.#written.add(id);
      throw error;
    }
    for (const catalog of written) {
      const position = positions.get(catalog.id);
      if (!position) continue;
      catalog.recorded = position;
      catalog.log = logs.get(catalog.id) ?? '';
    }
  }

  /** Undefined if the file was removed or replaced while the engine had it open. */
  async #positionOf(catalog: Attached, storage: CatalogStorage): Promise<FilePosition | undefined> {
    try {
      const position = await storage.position(this.#options.dataDirectory, catalog.id);
      const reason = faultOfPosition(catalog.recorded, position);
      if (reason === undefined) return position;
      this.#setDamagedInUse(catalog, reason);
    } catch (error) {
      if (!(error instanceof DamagedFile)) throw error;
      this.#setDamagedInUse(catalog, error.message);
    }
    return undefined;
  }

  /** Ignored if the catalog was detached while its file was measured: another catalog may have its name now. */
  #setDamagedInUse(catalog: Attached, reason: string): void {
    const { id, name, isDetaching } = catalog;
    if (isDetaching || this.#attached.get(id) !== catalog) return;
    this.#setDamaged({ id, name, reason, isAttached: false });
  }

  #setDamaged(damaged: DamagedCatalog): void {
    const known = this.#damaged.get(damaged.id);
    this.#damaged.set(damaged.id, damaged);
    if (known?.reason === damaged.reason) return;
    this.#options.onDamage(damaged);
    this.#options.changed(damaged.id);
  }

  #clearRefusal(id: string): void {
    if (!this.#isRefused(id)) return;
    this.#damaged.delete(id);
    this.#options.changed(id);
  }
}

/** Why a file does not match or has not reached the recorded position, or undefined. */
export function faultOfPosition(recorded: FilePosition, now: FilePosition): string | undefined {
  if (now.checkpoint > recorded.checkpoint) return undefined;
  if (now.checkpoint < recorded.checkpoint)
    return `its file is older than work that was acknowledged (checkpoint ${now.checkpoint}, recorded ${recorded.checkpoint})`;
  if (now.logBytes >= recorded.logBytes) return undefined;
  if (now.logBytes === 0) return `its write-ahead log of ${recorded.logBytes} bytes of acknowledged work is missing`;
  return `its write-ahead log ends after ${now.logBytes} committed bytes, and ${recorded.logBytes} were acknowledged`;
}

export function catalogDamaged({ name, reason }: Pick<DamagedCatalog, 'name' | 'reason'>, outcome?: RequestOutcome) {
  const message = `the catalog ${JSON.stringify(name)} is damaged: ${reason}`;
  return new Failure('CATALOG_DAMAGED', message, { catalog: name, reason }, { outcome });
}
