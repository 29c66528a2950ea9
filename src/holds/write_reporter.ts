// What a server does while another one moves a catalog that both write to, or takes a snapshot of it: it watches its writes, begins none while
// they are held, and reports when it is asked. It learns of moves and snapshots through the feed of changes, and stops writing by itself when
// the others may take it for dead.
import { setTimeout as pause } from 'node:timers/promises';
import { type AskedMove, askedMoves, isAbandoned, isMoved, saveReport } from '../catalog/moves/move_reports.ts';
import {
  type CatalogWrites,
  catalogHeld,
  type HoldKind,
  longest,
  type SeenWrites,
  type WriteWatch,
} from '../engines/copies/catalog_writes.ts';
import type { WriteFence } from '../engines/copies/write_fence.ts';
import { newId } from '../model/ids.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import type { Change } from '../store/changes/change.ts';
import type { ChangeFollower } from '../store/changes/change_feed.ts';
import type { LeaseHolder } from '../store/leases.ts';
import type { Store } from '../store/store.ts';

export interface WriteReport extends SeenWrites {
  /** Names the time since which the server has watched without a gap. */
  readonly watchId: string;
  readonly isHeld: boolean;
  /** Whether the server reads the catalog. */
  readonly isRead: boolean;
}

export interface WriteReporterParts {
  readonly store: Store;
  readonly holder: LeaseHolder;
  readonly observe: Observe;
  readonly writesOf: (warehouse: string) => Promise<CatalogWrites>;
  /** Lets the servers write again, if that was the last question. */
  readonly endHold: (taskId: string, asks: number) => Promise<boolean>;
}

interface KnownMove {
  readonly catalogId: string;
  readonly writes: CatalogWrites;
  readonly watch: WriteWatch;
  readonly watchId: string;
  answered: number;
  /** From then on it is only asked whether it still reads the old copy. */
  isSwitched: boolean;
}

/** So long a write waits for this server to reach the store again. */
const passMsMax = 5_000;
const passPollMs = 20;
/** How often the moves that are known here are read again: notices can be late, and the server that moves a catalog can die. */
const lookEveryMs = 1_000;

export class WriteReporter implements WriteFence, ChangeFollower {
  readonly #parts: WriteReporterParts;
  /** By the id of the task: those that have asked this server, and have not ended. */
  readonly #known = new Map<string, KnownMove>();
  /** By the id of the task: the catalogs whose writes are held. */
  readonly #held = new Map<string, { readonly catalogId: string; readonly kind: HoldKind }>();
  /** Catalogs that were moved away, by the ids that they had. */
  readonly #left = new Set<string>();
  #read: { readonly epoch: number; readonly isDone: Promise<void> } | undefined;
  /** The epoch of the lease for which all moves were read. */
  #readEpoch: number | undefined;
  #turn: Promise<void> = Promise.resolve();
  /** Since all moves were last read. */
  #hasFailed = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(parts: WriteReporterParts) {
    this.#parts = parts;
  }

  async passed(): Promise<number> {
    const { holder } = this.#parts;
    for (const began = performance.now(); ; await pause(passPollMs)) {
      const epoch = holder.leaseEpoch;
      if (epoch !== undefined) {
        if (epoch !== this.#readEpoch) await this.#readAll(epoch);
        if (holder.leaseEpoch === epoch) return epoch;
      }
      if (holder.hasEnded) throw new Failure('SHUTTING_DOWN', 'the server is shutting down');
      if (performance.now() - began > passMsMax) {
        const message = 'this server cannot renew its lease in the metadata store, so it writes nothing';
        throw new Failure('STORE_UNAVAILABLE', message, {}, { outcome: 'notApplied' });
      }
    }
  }

  heldFor(catalogId: string): HoldKind | undefined {
    if (this.#left.has(catalogId)) return 'move';
    return longest([...this.#held.values()].flatMap((held) => (held.catalogId === catalogId ? held.kind : [])));
  }

  requireFree(catalogId: string): void {
    const kind = this.heldFor(catalogId);
    if (kind) throw catalogHeld(kind);
  }

  async requireUnbroken(since: number, catalogIds: readonly string[]): Promise<void> {
    const { holder, store } = this.#parts;
    if (holder.leaseEpoch === since) return;
    // Others may have taken this server for dead. That matters only to the move of one of the catalogs.
    const wasMoved = await isMoved(store.db, catalogIds).catch(() => true);
    if (!wasMoved) return;
    const message =
      'this server was cut off from the metadata store while the catalog was being moved to another warehouse';
    throw new Failure('STORE_UNAVAILABLE', message, {}, { outcome: 'unknown' });
  }

  changed(change: Change): void {
    if (change.kind === 'move') this.#look([change.taskId]);
  }

  reload(): void {
    this.#look();
  }

  /** Waits for what has begun. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#turn;
  }

  /** Reads all moves once for each epoch: what others did while they could take this server for dead is unknown here. */
  #readAll(epoch: number): Promise<void> {
    if (this.#read?.epoch === epoch) return this.#read.isDone;
    const isDone = this.#inTurn(async () => {
      await this.#follow();
      this.#readEpoch = epoch;
    });
    const read = { epoch, isDone };
    this.#read = read;
    isDone.catch(() => {
      if (this.#read === read) this.#read = undefined;
    });
    return isDone;
  }

  #look(taskIds?: readonly string[]): void {
    if (this.#isStopped) return;
    this.#inTurn(() => this.#follow(taskIds)).catch((error: unknown) => {
      this.#parts.observe({ kind: 'backgroundError', what: 'moves of catalogs by other servers', error });
      // The notice of a move that is not known here yet may have been the only one.
      this.#hasFailed = true;
      this.#schedule();
    });
  }

  /** One after the other, so that an older reading is not followed after a newer one. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #follow(taskIds?: readonly string[]): Promise<void> {
    const { store } = this.#parts;
    const wanted = taskIds && [...new Set(taskIds)];
    const moves = await askedMoves(store.db, Date.now(), wanted);
    for (const move of moves) await this.#followOne(move);
    const found = new Set(moves.map(({ taskId }) => taskId));
    // Those that were given up.
    for (const id of wanted ?? [...this.#known.keys(), ...this.#held.keys()]) if (!found.has(id)) this.#forget(id);
    this.#schedule();
  }

  async #followOne(move: AskedMove): Promise<void> {
    const { taskId, catalogId, kind, isSwitched } = move;
    if (isSwitched) this.#left.add(catalogId);
    // The process that moves the catalog holds and watches its own writes itself.
    const isOwn = move.askedBy === this.#parts.holder.id;
    if (isOwn || isSwitched || !move.isHeld) this.#held.delete(taskId);
    else this.#held.set(taskId, { catalogId, kind });
    if (isOwn || move.asks === 0) return this.#forget(taskId);
    const known = this.#known.get(taskId) ?? (await this.#begin(move));
    if (!known) return;
    known.isSwitched = isSwitched;
    // Questions are counted from 1 again when a move is completed a second time, which this server may not have heard of.
    if (known.answered !== move.asks) await this.#answer(move, known);
    else if (move.isHeld && !isSwitched) await this.#endAbandoned(move);
  }

  async #begin({ taskId, catalogId, warehouse, isSwitched }: AskedMove): Promise<KnownMove | undefined> {
    if (warehouse === null) return undefined;
    const writes = await this.#parts.writesOf(warehouse).catch((error: unknown) => {
      // The warehouse of an old copy can be gone; that must not keep this server from following other moves.
      if (isSwitched && error instanceof Failure && error.code === 'OBJECT_NOT_FOUND') return undefined;
      throw error;
    });
    if (!writes) return undefined;
    const known = {
      catalogId,
      writes,
      watch: writes.watch(catalogId),
      watchId: newId(),
      answered: 0,
      isSwitched: false,
    };
    this.#known.set(taskId, known);
    return known;
  }

  async #answer({ taskId, catalogId, asks, isHeld }: AskedMove, known: KnownMove): Promise<void> {
    const { store, holder } = this.#parts;
    const report: WriteReport = {
      ...known.watch.seen(),
      watchId: known.watchId,
      isHeld,
      isRead: known.writes.isRead(catalogId),
    };
    await saveReport(store.db, taskId, holder.serverId ?? '', asks, JSON.stringify(report));
    known.answered = asks;
  }

  /** A hold ends with the process that wanted it, also if another one has its task by now: that asks anew. */
  async #endAbandoned(move: AskedMove): Promise<void> {
    const { store, holder } = this.#parts;
    const { taskId, asks } = move;
    if ((await isAbandoned(store.db, move, holder)) && (await this.#parts.endHold(taskId, asks)))
      this.#held.delete(taskId);
  }

  #forget(taskId: string): void {
    this.#held.delete(taskId);
    this.#known.get(taskId)?.watch.close();
    this.#known.delete(taskId);
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const open = [...this.#known].flatMap(([taskId, { isSwitched }]) => (isSwitched ? [] : taskId));
    const taskIds = [...new Set([...open, ...this.#held.keys()])];
    if (this.#isStopped || (taskIds.length === 0 && !this.#hasFailed)) return;
    const wanted = this.#hasFailed ? undefined : taskIds;
    this.#timer = setTimeout(() => {
      this.#hasFailed = false;
      this.#look(wanted);
    }, lookEveryMs).unref();
  }
}
