// Files that callers upload or download: uploads, exports, rejected rows. Each is a row of the store and its content: in the directory
// `files` of the server while it is received, and in the file store once it is complete (blobs/). A quota limits the bytes of each owner,
// and files are removed when they expire. Knows no HTTP.

import { rm, stat } from 'node:fs/promises';
import type { Selectable, Transaction } from 'kysely';
import type { Trail } from '../access/audit/audit_log.ts';
import { newId } from '../model/ids.ts';
import type { Actor, Scope } from '../model/principal.ts';
import { requireExpectedVersion } from '../standard/expected_version.ts';
import { Failure } from '../standard/failure.ts';
import { LeaseHolder } from '../store/leases.ts';
import type { Batch } from '../store/row_batches.ts';
import type { FilesTable, Schema } from '../store/schema.ts';
import { isSweptHere } from '../store/servers.ts';
import type { Store } from '../store/store.ts';
import { afterCommit } from '../store/transactions.ts';
import { type BlobPlaces, idOfKey, orphanAgeMs } from './blobs/blob_places.ts';
import type { ByteRange, OpenBlob } from './blobs/blob_store.ts';
import { Digests } from './digests.ts';
import { FileLinks, type LinkMode } from './file_links.ts';
import {
  type FileKind,
  type FileListOptions,
  listFiles,
  type StoredFile,
  toStoredFile,
  versionOfUpload,
} from './file_rows.ts';
import { exactlySized, fileNotFound, type Part, validatePart } from './parts.ts';
import { remainingBytes, requireFileQuota, reserveFor } from './quota.ts';
import { receive } from './receiving.ts';

/** Throws in a transaction that must not be committed. */
type Confirm = (tx: Transaction<Schema>) => Promise<void>;

export interface NewFile {
  /** For callers who must find the file again after a crash; generated if absent. */
  readonly fileId?: string | undefined;
  readonly kind: FileKind;
  /** Id of a user. */
  readonly owner: string;
  /** The user's name; defaults to the id. */
  readonly createdBy?: string | undefined;
  readonly scopes?: readonly Scope[] | undefined;
  readonly name: string;
  /** Announced: the received content must have this size and digest. */
  readonly bytes?: number | undefined;
  readonly sha256?: string | undefined;
  readonly expiresInMs: number;
  /** The task whose result includes it. */
  readonly taskId?: string | undefined;
}

export interface FileStoreOptions {
  readonly store: Store;
  readonly blobs: BlobPlaces;
  readonly linkKey: Uint8Array;
  readonly limits: { readonly principalFileBytesMax: number; readonly uploadBytesMax: number };
  readonly trail: Trail;
  /** This server: if several use the store, each has the bytes of its files. */
  readonly holder?: Pick<LeaseHolder, 'serverId' | 'expiredUntil'> | undefined;
  /** Called at each use of a link. */
  readonly isLinkAllowed: (file: StoredFile) => boolean | Promise<boolean>;
  readonly clock?: (() => number) | undefined;
  /** Called before a part is received. Throws STORAGE_FULL. */
  readonly requireRoom?: (() => void) | undefined;
}

/** For an upload, `kind` and `createdAt` are required: a later upload may reuse its id. */
type LinkTarget = Pick<StoredFile, 'fileId' | 'expiresAt'> & Partial<Pick<StoredFile, 'kind' | 'createdAt'>>;

const sweepPage = 200;

export class FileStore {
  readonly #options: FileStoreOptions;
  readonly #clock: () => number;
  readonly #links: FileLinks;
  /** Uploads that are being written. */
  readonly #receiving = new Map<string, Promise<unknown>>();
  /** Files in the directory whose row is not inserted yet, or already deleted. */
  readonly #moving = new Set<string>();
  readonly #digests = new Digests();
  readonly #holder: Pick<LeaseHolder, 'serverId' | 'expiredUntil'>;

  constructor(options: FileStoreOptions) {
    this.#options = options;
    this.#holder = options.holder ?? new LeaseHolder();
    this.#clock = options.clock ?? Date.now;
    this.#links = new FileLinks(options.linkKey, this.#clock);
  }

  /** Removes what a crash left behind in the directory. */
  async start(): Promise<void> {
    await this.sweep();
  }

  /** Waits for uploads that are being written; their connections must have been closed before. */
  async stop(): Promise<void> {
    await Promise.allSettled(this.#receiving.values());
    await this.#digests.stop();
  }

  /**
   * Returns an existing file with this `fileId` unchanged, of whatever kind it is. `actor`: recorded in the audit trail; without one,
   * nothing is recorded. Throws FILE_QUOTA_EXCEEDED, CHANGE_IN_PROGRESS.
   */
  async create(file: NewFile, actor?: Actor): Promise<{ readonly file: StoredFile; readonly created: boolean }> {
    const row = this.#newRow(file, 'receiving');
    const { file_id } = row;
    if (file.fileId !== undefined)
      await this.#removeFromBucket((await this.#remove(file_id, this.#clock()))?.stored_as ?? null);
    return this.#options.store.transaction(async (tx) => {
      const existing = await tx.selectFrom('files').selectAll().where('file_id', '=', file_id).executeTakeFirst();
      if (existing) return { file: toStoredFile(existing), created: false };
      // Bytes of a removed file with this id are still being written or deleted: they must not become this one's.
      if (this.#receiving.has(file_id) || this.#moving.has(file_id))
        throw new Failure('CHANGE_IN_PROGRESS', 'an upload with this id is being deleted');
      await this.#insert(tx, row, actor);
      return { file: toStoredFile(row), created: true };
    });
  }

  /** The absolute path of a file in the directory. The file need not exist yet. */
  #pathOf(fileId: string): string {
    return this.#options.blobs.directory.pathOf(fileId);
  }

  /** A range of the content of a complete file. Throws OBJECT_NOT_FOUND, REMOTE_UNAVAILABLE. */
  async open({ fileId, storedAs }: StoredFile, range: ByteRange): Promise<OpenBlob> {
    const content = await this.#options.blobs.storeOf(storedAs).open(storedAs ?? fileId, range);
    if (!content) throw fileNotFound(fileId);
    return content;
  }

  /** Makes the content of a complete file available as a local file. Throws OBJECT_NOT_FOUND, REMOTE_UNAVAILABLE. */
  async fetch({ fileId, storedAs }: StoredFile, path: string, signal: AbortSignal): Promise<void> {
    const isFound = await this.#options.blobs.storeOf(storedAs).fetch(storedAs ?? fileId, path, signal);
    if (!isFound) throw fileNotFound(fileId);
  }

  /** Expired files are not found. */
  async find(fileId: string): Promise<StoredFile | undefined> {
    const row = await this.#options.store.db
      .selectFrom('files')
      .selectAll()
      .where('file_id', '=', fileId)
      .where('expires_at', '>', this.#clock())
      .executeTakeFirst();
    return row && toStoredFile(row);
  }

  /** In the order of creation, without those that have expired. */
  list(options: FileListOptions): Promise<Batch<StoredFile>> {
    return listFiles(this.#options.store.db, options, this.#clock());
  }

  /**
   * Writes a part of an upload; its bytes are on the disk when this returns. The file is ready after the last part. The received bytes
   * of an interrupted part are retained, unless its digest is wrong. Throws OBJECT_NOT_FOUND, CHANGE_IN_PROGRESS, FILE_OFFSET_INVALID
   * and others.
   */
  append(fileId: string, content: AsyncIterable<Uint8Array>, part: Part, actor?: Actor): Promise<StoredFile> {
    // Set before the first await: of two concurrent requests, one is refused.
    if (this.#receiving.has(fileId))
      throw new Failure('CHANGE_IN_PROGRESS', 'the upload is being sent by another request');
    const running = this.#append(fileId, content, part, actor).finally(() => this.#receiving.delete(fileId));
    this.#receiving.set(fileId, running);
    return running;
  }

  /**
   * Moves a finished file into the store: it is ready when this returns. Idempotent for the same `fileId`. What `confirm` throws in the
   * transaction that records the file keeps it from being stored.
   */
  async adopt(
    path: string,
    file: NewFile,
    { actor, confirm }: { readonly actor?: Actor | undefined; readonly confirm?: Confirm | undefined } = {},
  ): Promise<StoredFile> {
    const row = this.#newRow(file, 'ready');
    const existing = file.fileId === undefined ? undefined : await this.find(file.fileId);
    if (existing && existing.kind !== row.kind)
      throw new Failure('OBJECT_ALREADY_EXISTS', 'the id belongs to another file');
    if (existing) {
      await rm(path, { force: true });
      return existing;
    }
    const { blobs } = this.#options;
    const storedAs = blobs.newKey(row.file_id);
    const [target, key] = [blobs.storeOf(storedAs), storedAs ?? row.file_id];
    this.#moving.add(row.file_id);
    try {
      const { size } = await stat(path);
      await target.put(key, { path }, { durable: true });
      const full = { ...row, bytes: size, received_bytes: size, reserved_bytes: size, ...this.#location(storedAs) };
      await this.#options.store.transaction(async (tx) => {
        await confirm?.(tx);
        await this.#insert(tx, full, actor);
      });
      if (storedAs !== null) await rm(path, { force: true });
      return toStoredFile(full);
    } catch (error) {
      await target.remove(key).catch(ignored);
      throw error;
    } finally {
      this.#moving.delete(row.file_id);
    }
  }

  /** Returns false if the file does not exist. Downloads in progress continue. */
  async remove(fileId: string, actor?: Actor): Promise<boolean> {
    const removed = await this.#remove(fileId, Number.MAX_SAFE_INTEGER, actor);
    if (removed) await this.#removeFromBucket(removed.stored_as);
    return removed !== undefined;
  }

  /**
   * Only if the file expires by `expiresUntil`: its id may belong to a new file by now. Content in the bucket remains, until a caller or the
   * sweep of the bucket removes it.
   */
  async #remove(
    fileId: string,
    expiresUntil: number,
    actor?: Actor,
  ): Promise<Pick<Selectable<FilesTable>, 'stored_as'> | undefined> {
    const { store, trail } = this.#options;
    let isMarked = false;
    try {
      const removed = await store.transaction(async (tx) => {
        const row = await tx
          .deleteFrom('files')
          .where('file_id', '=', fileId)
          .where('expires_at', '<=', expiresUntil)
          .returningAll()
          .executeTakeFirst();
        if (!row) return undefined;
        if (actor)
          requireExpectedVersion(versionOfUpload(toStoredFile(row)), actor, (effect) => afterCommit(tx, effect));
        this.#moving.add(fileId);
        isMarked = true;
        if (actor) await trail.append(tx, actor, { outcome: '0', objectId: fileId });
        return row;
      });
      if (removed) await this.#removeLocal(fileId);
      return removed;
    } finally {
      if (isMarked) this.#moving.delete(fileId);
    }
  }

  /** Removes the files of a task's result that there are when `confirm` does not throw. Idempotent. */
  async removeForTask(taskId: string, confirm?: Confirm): Promise<void> {
    const rows = await this.#options.store.transaction(async (tx) => {
      await confirm?.(tx);
      return tx.selectFrom('files').select('file_id').where('task_id', '=', taskId).execute();
    });
    for (const { file_id } of rows) await this.remove(file_id);
  }

  /** How many bytes an owner may add; concurrent requests may use some of them. Throws FILE_QUOTA_EXCEEDED if none. */
  remainingBytes(owner: string): Promise<number> {
    return remainingBytes(this.#options.store.db, owner, this.#quota);
  }

  /** A signed path with a query, which allows its holder to read or write the file for at most one hour. */
  link({ fileId, expiresAt, kind, createdAt }: LinkTarget, mode: LinkMode): string {
    return this.#links.link(fileId, mode, expiresAt, kind === 'upload' ? createdAt : undefined);
  }

  /** The file of a link. Throws FORBIDDEN, OBJECT_NOT_FOUND. */
  async resolveLink(fileId: string, mode: LinkMode, query: URLSearchParams): Promise<StoredFile> {
    const created = this.#links.require(fileId, mode, query);
    const file = await this.find(fileId);
    // Clients choose the ids of uploads, which may be those of removed files.
    if (!file || created !== (file.kind === 'upload' ? file.createdAt : undefined)) throw fileNotFound(fileId);
    if (!(await this.#options.isLinkAllowed(file)))
      throw new Failure('FORBIDDEN', 'the user for whom this file was created may no longer read it');
    return file;
  }

  /** Removes expired files of this server, of lost ones and of the bucket, and files in the directory without a row. Returns how many. */
  async sweep(): Promise<number> {
    const { store, blobs } = this.#options;
    const removed = new Set<string>();
    // Listed before the rows are read: a file added in between has a row or is in `#moving` or `#receiving`.
    const names = (await Array.fromAsync(blobs.directory.list())).map(({ key }) => key);
    for (;;) {
      const page = await store.db
        .selectFrom('files')
        .select('file_id')
        .where('expires_at', '<=', this.#clock())
        .where(isSweptHere(this.#holder, this.#clock()))
        .limit(sweepPage)
        .execute();
      for (const { file_id } of page) if (await this.#remove(file_id, this.#clock())) removed.add(file_id);
      if (page.length < sweepPage) break;
    }
    for (const name of names) {
      if (this.#moving.has(name) || this.#receiving.has(name) || removed.has(name)) continue;
      const isKept = (await this.#keyOf(name)) === null;
      if (isKept || this.#moving.has(name) || this.#receiving.has(name)) continue;
      await blobs.directory.remove(name);
      removed.add(name);
    }
    return removed.size;
  }

  /** Removes files in the bucket that no row has, unless a server may be about to add it. Returns how many. Throws REMOTE_UNAVAILABLE. */
  async sweepBucket(): Promise<number> {
    const { bucket } = this.#options.blobs;
    let removed = 0;
    if (!bucket) return removed;
    for await (const { key, modifiedAtMs } of bucket.list()) {
      if (modifiedAtMs > this.#clock() - orphanAgeMs || (await this.#keyOf(idOfKey(key))) === key) continue;
      await bucket.remove(key);
      removed++;
    }
    return removed;
  }

  /** The key in the bucket, null if the content is in the directory, or undefined if there is no such file. */
  async #keyOf(fileId: string): Promise<string | null | undefined> {
    const { db } = this.#options.store;
    const row = await db.selectFrom('files').select('stored_as').where('file_id', '=', fileId).executeTakeFirst();
    return row?.stored_as;
  }

  async #append(
    fileId: string,
    content: AsyncIterable<Uint8Array>,
    part: Part,
    actor: Actor | undefined,
  ): Promise<StoredFile> {
    const { store, limits } = this.#options;
    const file = await this.find(fileId);
    if (!file) throw fileNotFound(fileId);
    if (file.state === 'ready') throw new Failure('CHANGE_NOT_SUPPORTED', 'the upload is complete; create another one');
    const total = part.total ?? file.bytes ?? undefined;
    validatePart(file, part, total, limits.uploadBytesMax);
    this.#options.requireRoom?.();
    // Recorded before the file is truncated: the store must never record more bytes than the file has, not even after a crash.
    if (part.offset < file.receivedBytes) await this.#recordReceived(fileId, part.offset);
    const received = await receive(exactlySized(content, part, total ?? limits.uploadBytesMax), {
      path: this.#pathOf(fileId),
      offset: part.offset,
      digest: part.digest,
      digests: this.#digests,
      key: fileId,
      reserve: (bytes) => reserveFor(store, fileId, Math.max(bytes, total ?? 0), this.#quota),
      onDurable: (bytes) => this.#recordReceived(fileId, bytes),
    });
    const { bytes, sha256, fault } = received;
    const isComplete = fault === undefined && (total === undefined ? part.end === undefined : bytes === total);
    if (isComplete && sha256 !== undefined) return this.#finish(file, bytes, sha256, actor);
    if (fault !== undefined) throw fault;
    return { ...file, receivedBytes: bytes };
  }

  get #quota() {
    const { principalFileBytesMax, uploadBytesMax } = this.#options.limits;
    return { bytesMax: principalFileBytesMax, uploadBytesMax };
  }

  /** The content is in the file store before the row says that the file is ready. */
  async #finish(file: StoredFile, bytes: number, sha256: string, actor: Actor | undefined): Promise<StoredFile> {
    const { store, trail, blobs } = this.#options;
    const { fileId } = file;
    if (file.sha256 !== null && file.sha256 !== sha256) {
      await this.#recordReceived(fileId, 0);
      throw new Failure('FILE_DIGEST_MISMATCH', 'the content does not have the announced SHA-256 digest', {
        receivedBytes: 0,
      });
    }
    const stored_as = blobs.newKey(fileId);
    await blobs.storeOf(stored_as).put(stored_as ?? fileId, { path: this.#pathOf(fileId) }, { durable: true });
    const content = { bytes, received_bytes: bytes, reserved_bytes: bytes, sha256 };
    const end = { state: 'ready', ...content, ...this.#location(stored_as) } as const;
    const updated_at = this.#clock();
    const row = await store.transaction(async (tx) => {
      const updated = await tx
        .updateTable('files')
        .set({ ...end, updated_at })
        .where('file_id', '=', fileId)
        // Another server may have completed it, or removed it and reused its id.
        .where('state', '=', 'receiving')
        .where('created_at', '=', file.createdAt)
        .returningAll()
        .executeTakeFirst();
      if (updated && actor)
        await trail.append(tx, actor, { outcome: '0', objectId: fileId, details: { bytes, sha256 } });
      return updated;
    });
    this.#digests.forget(fileId);
    if (!row || stored_as !== null) await this.#removeLocal(fileId);
    if (row) return toStoredFile(row);
    await this.#removeFromBucket(stored_as);
    throw fileNotFound(fileId);
  }

  async #recordReceived(fileId: string, bytes: number): Promise<void> {
    await this.#options.store.db
      .updateTable('files')
      .set({ received_bytes: bytes, updated_at: this.#clock() })
      .where('file_id', '=', fileId)
      .execute();
  }

  async #insert(tx: Transaction<Schema>, row: Selectable<FilesTable>, actor: Actor | undefined): Promise<void> {
    await requireFileQuota(tx, row, this.#quota);
    await tx.insertInto('files').values(row).execute();
    const details = { kind: row.kind, name: row.name };
    if (actor) await this.#options.trail.append(tx, actor, { outcome: '0', objectId: row.file_id, details });
  }

  /** What is in the bucket can be read by every server. */
  #location(storedAs: string | null): Pick<Selectable<FilesTable>, 'stored_as' | 'server_id'> {
    return { stored_as: storedAs, server_id: storedAs === null ? (this.#holder.serverId ?? null) : null };
  }

  /** For a file whose row is deleted or that is in the bucket. The bytes of one that is being written are freed when it is closed. */
  async #removeLocal(fileId: string): Promise<void> {
    this.#digests.forget(fileId);
    await this.#options.blobs.directory.remove(fileId);
  }

  /** If the bucket does not answer, its sweep removes the content later. */
  async #removeFromBucket(storedAs: string | null): Promise<void> {
    if (storedAs !== null) await this.#options.blobs.bucket?.remove(storedAs).catch(ignored);
  }

  #newRow(file: NewFile, state: StoredFile['state']): Selectable<FilesTable> {
    const now = this.#clock();
    return {
      file_id: file.fileId ?? newId(now),
      kind: file.kind,
      owner: file.owner,
      scopes: file.scopes === undefined ? null : JSON.stringify(file.scopes),
      name: file.name,
      state,
      bytes: file.bytes ?? null,
      received_bytes: 0,
      reserved_bytes: file.bytes ?? 0,
      sha256: file.sha256 ?? null,
      created_at: now,
      created_by: file.createdBy ?? file.owner,
      updated_at: now,
      expires_at: now + file.expiresInMs,
      task_id: file.taskId ?? null,
      ...this.#location(null),
    };
  }
}

const ignored = () => undefined;
