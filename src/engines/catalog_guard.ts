// Which catalogs of a warehouse are sound: checks their files against what is recorded of them before they are attached, records how
// far the files have come, and refuses work on damaged ones. How a file is read is the adapter's (catalog_storage.ts).
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
} from './catalog_storage.ts';
import type { CatalogRef } from './refs.ts';

/** How old a record of a catalog that is being written may be. The first write to a new log is recorded before it is acknowledged. */
const recordEveryMs = 1_000;

/** Most of an inspection is waiting for the disk; each needs a megabyte where there is a log. */
const inspectedAtOnce = 8;

export interface CatalogGuardOptions {
  readonly dataDirectory: string;
  readonly storage: CatalogStorage;
  readonly records: PositionRecords;
  readonly found: (damaged: DamagedCatalog) => void;
  /** What is known of the catalog's damage is no longer what it was. */
  readonly changed: (catalogId: string) => void;
  readonly failed: (error: unknown) => void;
}

export interface Recheck {
  /** What is wrong with a file that no engine has open. */
  readonly check: (request: AttachRequest) => Promise<readonly CatalogFault[]>;
  readonly attach: (request: AttachRequest) => Promise<void>;
}

interface Attached extends CatalogRef {
  readonly identity: string;
  /** The log whose first write is recorded. */
  log: string;
  recorded: FilePosition;
}

export class CatalogGuard {
  readonly #options: CatalogGuardOptions;
  readonly #attached = new Map<string, Attached>();
  readonly #damaged = new Map<string, DamagedCatalog>();
  /** Those that stopped the engine: not attached again until somebody asks for it. */
  readonly #setAside = new Set<string>();
  /** The last check of each that is being checked again: one at a time. */
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

  /** Of these, those that may be attached. To be called before every start of an engine. */
  async sound(catalogs: readonly CatalogRef[]): Promise<AttachRequest[]> {
    // What the engine wrote before it ended.
    await this.#record().catch(this.#options.failed);
    this.#attached.clear();
    return this.inspect(catalogs);
  }

  /** The same, without a start. */
  async inspect(catalogs: readonly CatalogRef[]): Promise<AttachRequest[]> {
    const records = await this.#options.records.load();
    const sound: AttachRequest[] = [];
    for (let at = 0; at < catalogs.length; at += inspectedAtOnce) {
      const some = catalogs.slice(at, at + inspectedAtOnce);
      const inspected = await Promise.all(some.map((catalog) => this.#inspect(catalog, records.get(catalog.id))));
      sound.push(...inspected.filter((request) => request !== undefined));
    }
    return sound;
  }

  /** Takes over what an engine reports of a catalog that it attached, or could not. */
  reported(report: AttachReport): void {
    const { catalog } = report;
    if (report.kind === 'attached') {
      const { identity } = report;
      this.#attachable(catalog.id);
      this.#attached.set(catalog.id, { ...catalog, identity, log: '', recorded: { checkpoint: 0, logBytes: 0 } });
      this.#record(catalog.id).catch(this.#options.failed);
      return;
    }
    if (report.kind === 'fatal') this.setAside(catalog, report.reason);
    else this.#found({ ...catalog, reason: report.reason, isAttached: false });
  }

  detached({ id }: CatalogRef): void {
    this.#attached.delete(id);
    this.#damaged.delete(id);
    this.#setAside.delete(id);
  }

  /** The engine stopped because of the file: it is not attached again until `recheck` finds it sound. */
  setAside(catalog: CatalogRef, reason: string): void {
    this.#setAside.add(catalog.id);
    this.#found({ ...catalog, reason, isAttached: false });
  }

  /** A damaged place was read; what is elsewhere in the file can be used. */
  damagedWithin({ id }: CatalogRef, reason: string): void {
    const catalog = this.#attached.get(id);
    if (catalog && !this.#damaged.has(id)) this.#found({ id, name: catalog.name, reason, isAttached: true });
  }

  /** What was damaged within an attached catalog can be read, or is no longer in it. */
  foundSound({ id }: CatalogRef): void {
    if (!this.#damaged.get(id)?.isAttached) return;
    this.#damaged.delete(id);
    this.#options.changed(id);
  }

  /** Attaches a catalog again that was refused, if its file is sound now. @returns what is wrong with it, single tables included. */
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
    const wasSetAside = this.#setAside.has(id);
    let isReleased = false;
    // A start of the engine does not open the file while another process reads it.
    this.#setAside.add(id);
    try {
      const record = (await this.#options.records.load()).get(id);
      const lag = await this.#faultOf(catalog, record);
      const request = { ...catalog, identity: record?.identity };
      const faults: readonly CatalogFault[] =
        lag === undefined ? await check(request) : [{ kind: 'damaged', reason: lag }];
      const ofFile = faults.find(({ table }) => table === undefined);
      if (ofFile) {
        // An engine that was just starting may have attached it.
        if (this.#isRefused(id)) this.#found({ ...catalog, reason: ofFile.reason, isAttached: false });
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
      if (isReleased || !wasSetAside) this.#setAside.delete(id);
    }
  }

  /** Throws CATALOG_DAMAGED. */
  require({ id }: CatalogRef): void {
    const damaged = this.#damaged.get(id);
    if (damaged && !damaged.isAttached) throw catalogDamaged(damaged);
  }

  /** The catalog that SQL calls so; undefined: none that is attached. */
  named(name: string): CatalogRef | undefined {
    const folded = foldName(name);
    return this.#attached.values().find((catalog) => foldName(catalog.name) === folded);
  }

  /** To be awaited after each write, before it is acknowledged: a log that holds acknowledged work is known to exist. */
  async written({ id }: CatalogRef): Promise<void> {
    const catalog = this.#attached.get(id);
    if (!catalog) return;
    const { storage, dataDirectory } = this.#options;
    const log = storage.logOf(dataDirectory, id);
    if (log !== '' && log === catalog.log) {
      this.#written.add(id);
      return;
    }
    // The work is done and on disk, whether this can be recorded or not.
    await this.#record(id).catch(this.#options.failed);
  }

  start(): void {
    this.#timer ??= setInterval(() => {
      if (this.#written.size > 0) this.#record().catch(this.#options.failed);
    }, recordEveryMs).unref();
  }

  /** After the engine has closed the files. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const id of this.#attached.keys()) this.#written.add(id);
    await this.#record().catch(this.#options.failed);
  }

  /** Undefined where the catalog is not to be attached. */
  async #inspect(catalog: CatalogRef, record: RecordedPosition | undefined): Promise<AttachRequest | undefined> {
    if (this.#setAside.has(catalog.id)) return undefined;
    const isNew = record === undefined && (await this.#isNew(catalog));
    const reason = isNew ? undefined : await this.#faultOf(catalog, record);
    if (reason !== undefined) {
      this.#found({ ...catalog, reason, isAttached: false });
      return undefined;
    }
    this.#attachable(catalog.id);
    return { ...catalog, identity: record?.identity, isNew };
  }

  /** The first start of a server creates a catalog before there is an engine. */
  async #isNew({ id }: CatalogRef): Promise<boolean> {
    const { storage, records, dataDirectory } = this.#options;
    return !storage.exists(dataDirectory, id) && (await records.isEmpty(id));
  }

  async #faultOf(catalog: CatalogRef, recorded: RecordedPosition | undefined): Promise<string | undefined> {
    try {
      const position = await this.#options.storage.position(this.#options.dataDirectory, catalog.id);
      return recorded && faultOfPosition(recorded, position);
    } catch (error) {
      if (error instanceof DamagedFile) return error.message;
      throw error;
    }
  }

  /** Records what was written, and this one. One at a time: an older position never replaces a newer one. */
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
    const positions = new Map<string, RecordedPosition>();
    const logs = new Map<string, string>();
    for (const catalog of written) {
      logs.set(catalog.id, storage.logOf(dataDirectory, catalog.id));
      const position = await this.#positionOf(catalog);
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

  /** Undefined where the file was taken away, or put back, under the engine that has it open. */
  async #positionOf(catalog: Attached): Promise<FilePosition | undefined> {
    try {
      const position = await this.#options.storage.position(this.#options.dataDirectory, catalog.id);
      const reason = faultOfPosition(catalog.recorded, position);
      if (reason === undefined) return position;
      this.#found({ id: catalog.id, name: catalog.name, reason, isAttached: false });
    } catch (error) {
      if (!(error instanceof DamagedFile)) throw error;
      this.#found({ id: catalog.id, name: catalog.name, reason: error.message, isAttached: false });
    }
    return undefined;
  }

  #found(damaged: DamagedCatalog): void {
    const known = this.#damaged.get(damaged.id);
    this.#damaged.set(damaged.id, damaged);
    if (known?.reason === damaged.reason) return;
    this.#options.found(damaged);
    this.#options.changed(damaged.id);
  }

  #attachable(id: string): void {
    if (!this.#isRefused(id)) return;
    this.#damaged.delete(id);
    this.#options.changed(id);
  }
}

/** Why a file is not the one that was recorded, or not as far. */
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
