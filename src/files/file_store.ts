// Files that callers send or fetch, apart from those of the tables: uploads, exports, rejected rows. One row of the store and one
// file `<dataDir>/files/<fileId>` each; bounded by a quota for each owner, gone when their time is over. Knows no HTTP.
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Selectable, sql, type Transaction } from 'kysely';
import type { Trail } from '../access/audit/audit_log.ts';
import { newId } from '../model/ids.ts';
import type { Actor, Basis, Scope } from '../model/principal.ts';
import { requireBasis } from '../standard/basis.ts';
import { Failure } from '../standard/failure.ts';
import type { FilesTable, Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { Digests } from './digests.ts';
import { FileLinks, type LinkMode } from './file_links.ts';
import { exactlySized, fileNotFound, type Part, validatePart } from './parts.ts';
import { remainingBytes, requireFileQuota, reserveFor } from './quota.ts';
import { receive, storageFailure } from './receiving.ts';

export type FileKind = FilesTable['kind'];

/** Times are milliseconds since 1970. */
export interface StoredFile {
  readonly fileId: string;
  readonly kind: FileKind;
  /** Id of the user whose it is. */
  readonly owner: string;
  /** What the token that made it was confined to. */
  readonly scopes: readonly Scope[] | undefined;
  readonly name: string;
  readonly state: 'receiving' | 'ready';
  /** Announced, and once it is ready what it has. */
  readonly bytes: number | null;
  readonly receivedBytes: number;
  /** In hexadecimal. */
  readonly sha256: string | null;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly updatedAt: number;
  readonly expiresAt: number;
  /** Whose result it is a part of. */
  readonly taskId: string | null;
}

/** Of an upload; one that has the id of another that is gone is not the same. */
export const basisOfUpload = ({ fileId, createdAt, state }: StoredFile): Basis => ({
  objectId: `${fileId}/${createdAt}`,
  category: 'uploads',
  name: fileId,
  version: state === 'ready' ? 2 : 1,
});

export interface NewFile {
  /** For who must find it again after a crash; without it, a new one. */
  readonly fileId?: string | undefined;
  readonly kind: FileKind;
  /** Id of a user. */
  readonly owner: string;
  /** The user's name; the id where it is left out. */
  readonly createdBy?: string | undefined;
  readonly scopes?: readonly Scope[] | undefined;
  readonly name: string;
  /** Announced: it must come out so. */
  readonly bytes?: number | undefined;
  readonly sha256?: string | undefined;
  readonly expiresInMs: number;
  /** Whose result it is a part of. */
  readonly taskId?: string | undefined;
}

export interface FileStoreOptions {
  readonly store: Store;
  /** Absolute. */
  readonly directory: string;
  readonly linkKey: Uint8Array;
  readonly limits: { readonly principalFileBytesMax: number; readonly uploadBytesMax: number };
  readonly trail: Trail;
  /** Asked at each use of a link. */
  readonly isLinkAllowed: (file: StoredFile) => boolean | Promise<boolean>;
  readonly clock?: (() => number) | undefined;
}

/** Of an upload all of it: another one may have its id later. */
type Linked = Pick<StoredFile, 'fileId' | 'expiresAt'> & Partial<Pick<StoredFile, 'kind' | 'createdAt'>>;

const sweepPage = 200;

export class FileStore {
  readonly #options: FileStoreOptions;
  readonly #clock: () => number;
  readonly #links: FileLinks;
  /** Uploads that are written now. */
  readonly #receiving = new Map<string, Promise<unknown>>();
  /** Files that have no row yet, or none any more. */
  readonly #moving = new Set<string>();
  readonly #digests = new Digests();

  constructor(options: FileStoreOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
    this.#links = new FileLinks(options.linkKey, this.#clock);
  }

  /** What a crash left behind goes. */
  async start(): Promise<void> {
    await mkdir(this.#options.directory, { recursive: true, mode: 0o700 });
    await this.sweep();
  }

  /** Waits for what is written now; who sends it must have been cut off. */
  async stop(): Promise<void> {
    await Promise.allSettled(this.#receiving.values());
    await this.#digests.stop();
  }

  /**
   * Returns an existing file with this `fileId` unchanged, of whatever kind it is. `actor`: recorded in the audit trail; without one,
   * nothing is recorded. Throws FILE_QUOTA_EXCEEDED, CHANGE_IN_PROGRESS.
   */
  async create(file: NewFile, actor?: Actor): Promise<{ readonly file: StoredFile; readonly created: boolean }> {
    const row = this.#rowOf(file, 'receiving');
    const { file_id } = row;
    if (file.fileId !== undefined) await this.#remove(file_id, this.#clock());
    return this.#options.store.transaction(async (tx) => {
      const known = await tx.selectFrom('files').selectAll().where('file_id', '=', file_id).executeTakeFirst();
      if (known) return { file: shown(known), created: false };
      // Bytes of a removed file with this id are still being written or deleted: they must not become this one's.
      if (this.#receiving.has(file_id) || this.#moving.has(file_id))
        throw new Failure('CHANGE_IN_PROGRESS', 'an upload with this id is being deleted');
      await this.#insert(tx, row, actor);
      return { file: shown(row), created: true };
    });
  }

  /** Absolute. The file need not be there yet. */
  pathOf(fileId: string): string {
    return join(this.#options.directory, fileId);
  }

  /** What has expired is not found. */
  async find(fileId: string): Promise<StoredFile | undefined> {
    const row = await this.#options.store.db
      .selectFrom('files')
      .selectAll()
      .where('file_id', '=', fileId)
      .where('expires_at', '>', this.#clock())
      .executeTakeFirst();
    return row && shown(row);
  }

  /** In the order in which they were made. `owner`: only theirs. */
  async list(options: {
    readonly kind: FileKind;
    readonly owner?: string | undefined;
    readonly after?: string | undefined;
    readonly limit: number;
    /** A SQL LIKE pattern with `\` as its escape. */
    readonly namePattern?: string | undefined;
    readonly state?: StoredFile['state'] | undefined;
  }): Promise<StoredFile[]> {
    const { kind, owner, after, limit, namePattern, state } = options;
    let query = this.#options.store.db
      .selectFrom('files')
      .selectAll()
      .where('kind', '=', kind)
      .where('expires_at', '>', this.#clock())
      .orderBy('file_id')
      .limit(limit);
    if (owner !== undefined) query = query.where('owner', '=', owner);
    if (state !== undefined) query = query.where('state', '=', state);
    if (namePattern !== undefined) query = query.where(sql<boolean>`name like ${namePattern} escape '\\'`);
    if (after !== undefined) query = query.where('file_id', '>', after);
    return (await query.execute()).map(shown);
  }

  /**
   * Takes in a part of an upload: the bytes are on the disk when it returns. With the last of them the file is ready. What came of a
   * part that breaks off is kept, unless its digest is wrong. Throws OBJECT_NOT_FOUND, CHANGE_IN_PROGRESS, FILE_OFFSET_INVALID and others.
   */
  append(fileId: string, content: AsyncIterable<Uint8Array>, part: Part, actor?: Actor): Promise<StoredFile> {
    // Set before anything is waited for: of two that come at once, one is refused.
    if (this.#receiving.has(fileId))
      throw new Failure('CHANGE_IN_PROGRESS', 'the upload is being sent by another request');
    const running = this.#append(fileId, content, part, actor).finally(() => this.#receiving.delete(fileId));
    this.#receiving.set(fileId, running);
    return running;
  }

  /** Moves a finished file in: it is ready when this returns. Done again with the same `fileId`, it answers the same. */
  async adopt(path: string, file: NewFile, actor?: Actor): Promise<StoredFile> {
    const row = this.#rowOf(file, 'ready');
    const known = file.fileId === undefined ? undefined : await this.find(file.fileId);
    if (known && known.kind !== row.kind) throw new Failure('OBJECT_ALREADY_EXISTS', 'the id is that of another file');
    if (known) {
      await rm(path, { force: true });
      return known;
    }
    this.#moving.add(row.file_id);
    try {
      const { size } = await stat(path);
      await sync(path);
      await rename(path, this.pathOf(row.file_id));
      await sync(this.#options.directory);
      const full = { ...row, bytes: size, received_bytes: size, reserved_bytes: size };
      await this.#options.store.transaction((tx) => this.#insert(tx, full, actor));
      return shown(full);
    } catch (error) {
      await rm(this.pathOf(row.file_id), { force: true });
      return storageFailure(error);
    } finally {
      this.#moving.delete(row.file_id);
    }
  }

  /** False where it was not there. Downloads that have begun go on. */
  remove(fileId: string, actor?: Actor): Promise<boolean> {
    return this.#remove(fileId, Number.MAX_SAFE_INTEGER, actor);
  }

  /** Only if it expires by then: its id may have been given to a new file meanwhile. */
  async #remove(fileId: string, expiresUntil: number, actor?: Actor): Promise<boolean> {
    const { store, trail } = this.#options;
    let isMarked = false;
    try {
      const was = await store.transaction(async (tx) => {
        const gone = await tx
          .deleteFrom('files')
          .where('file_id', '=', fileId)
          .where('expires_at', '<=', expiresUntil)
          .returningAll()
          .executeTakeFirst();
        if (!gone) return false;
        if (actor) requireBasis(basisOfUpload(shown(gone)), actor);
        this.#moving.add(fileId);
        isMarked = true;
        if (actor) await trail.append(tx, actor, { outcome: '0', objectId: fileId });
        return true;
      });
      if (was) await this.#drop(fileId);
      return was;
    } finally {
      if (isMarked) this.#moving.delete(fileId);
    }
  }

  /** Removes the files of a task's result. Idempotent. */
  async removeForTask(taskId: string): Promise<void> {
    const { db } = this.#options.store;
    const rows = await db.selectFrom('files').select('file_id').where('task_id', '=', taskId).execute();
    for (const { file_id } of rows) await this.remove(file_id);
  }

  /** How many bytes an owner may add; others may add some meanwhile. Throws FILE_QUOTA_EXCEEDED where it is none. */
  remainingBytes(owner: string): Promise<number> {
    return remainingBytes(this.#options.store.db, owner, this.#quota);
  }

  /** A path with a query that lets whoever has it read, or write, the file for an hour at most. */
  link({ fileId, expiresAt, kind, createdAt }: Linked, mode: LinkMode): string {
    return this.#links.link(fileId, mode, expiresAt, kind === 'upload' ? createdAt : undefined);
  }

  /** The file of a link. Throws FORBIDDEN, OBJECT_NOT_FOUND. */
  async resolveLink(fileId: string, mode: LinkMode, query: URLSearchParams): Promise<StoredFile> {
    const created = this.#links.require(fileId, mode, query);
    const file = await this.find(fileId);
    // Ids of uploads are their clients' to choose, and may be those of files that are gone.
    if (!file || created !== (file.kind === 'upload' ? file.createdAt : undefined)) throw fileNotFound(fileId);
    if (!(await this.#options.isLinkAllowed(file)))
      throw new Failure('FORBIDDEN', 'the user for whom this file was made may no longer read it');
    return file;
  }

  /** Removes what has expired, and files on the disk that nothing knows. Returns how many. */
  async sweep(): Promise<number> {
    const { store, directory } = this.#options;
    const removed = new Set<string>();
    // Before the rows are read: a file that comes in between has its row, or is on its way.
    const names = await readdir(directory);
    for (;;) {
      const page = await store.db
        .selectFrom('files')
        .select('file_id')
        .where('expires_at', '<=', this.#clock())
        .limit(sweepPage)
        .execute();
      for (const { file_id } of page) if (await this.#remove(file_id, this.#clock())) removed.add(file_id);
      if (page.length < sweepPage) break;
    }
    for (const name of names) {
      if (this.#moving.has(name) || this.#receiving.has(name) || removed.has(name)) continue;
      const row = await store.db.selectFrom('files').select('file_id').where('file_id', '=', name).executeTakeFirst();
      if (row || this.#moving.has(name)) continue;
      await rm(join(directory, name), { recursive: true, force: true });
      removed.add(name);
    }
    return removed.size;
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
    if (file.state === 'ready') throw new Failure('CHANGE_NOT_SUPPORTED', 'the upload is complete; make another one');
    const total = part.total ?? file.bytes ?? undefined;
    validatePart(file, part, total, limits.uploadBytesMax);
    // The store never says more than the file has: not even after a crash that comes now.
    if (part.offset < file.receivedBytes) await this.#settled(fileId, part.offset);
    const received = await receive(exactlySized(content, part, total ?? limits.uploadBytesMax), {
      path: this.pathOf(fileId),
      offset: part.offset,
      digest: part.digest,
      digests: this.#digests,
      key: fileId,
      reserve: (bytes) => reserveFor(store, fileId, Math.max(bytes, total ?? 0), this.#quota),
      onDurable: (bytes) => this.#settled(fileId, bytes),
    });
    const { bytes, sha256, fault } = received;
    const isWhole = fault === undefined && (total === undefined ? part.end === undefined : bytes === total);
    if (isWhole && sha256 !== undefined) return this.#finish(file, bytes, sha256, actor);
    if (fault !== undefined) throw fault;
    return { ...file, receivedBytes: bytes };
  }

  get #quota() {
    const { principalFileBytesMax, uploadBytesMax } = this.#options.limits;
    return { bytesMax: principalFileBytesMax, uploadBytesMax };
  }

  /** The bytes and their name in the directory are on the disk before the store says so. */
  async #finish(file: StoredFile, bytes: number, sha256: string, actor: Actor | undefined): Promise<StoredFile> {
    const { store, trail, directory } = this.#options;
    const { fileId } = file;
    if (file.sha256 !== null && file.sha256 !== sha256) {
      await this.#settled(fileId, 0);
      throw new Failure('FILE_DIGEST_MISMATCH', 'the content is not what was announced', { receivedBytes: 0 });
    }
    this.#digests.forget(fileId);
    await sync(directory);
    const end = { state: 'ready', bytes, received_bytes: bytes, reserved_bytes: bytes, sha256 } as const;
    const updated_at = this.#clock();
    const row = await store.transaction(async (tx) => {
      const done = await tx
        .updateTable('files')
        .set({ ...end, updated_at })
        .where('file_id', '=', fileId)
        .returningAll()
        .executeTakeFirst();
      if (done && actor) await trail.append(tx, actor, { outcome: '0', objectId: fileId, details: { bytes, sha256 } });
      return done;
    });
    if (row) return shown(row);
    await this.#drop(fileId);
    throw fileNotFound(fileId);
  }

  async #settled(fileId: string, bytes: number): Promise<void> {
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

  /** Of a file whose row is gone. One that is being written goes when that has ended. */
  async #drop(fileId: string): Promise<void> {
    this.#digests.forget(fileId);
    await rm(this.pathOf(fileId), { force: true });
  }

  #rowOf(file: NewFile, state: StoredFile['state']): Selectable<FilesTable> {
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
    };
  }
}

function shown(row: Selectable<FilesTable>): StoredFile {
  return {
    fileId: row.file_id,
    kind: row.kind,
    owner: row.owner,
    scopes: row.scopes === null ? undefined : (JSON.parse(row.scopes) as Scope[]),
    name: row.name,
    state: row.state,
    bytes: row.bytes,
    receivedBytes: row.received_bytes,
    sha256: row.sha256,
    createdAt: row.created_at,
    createdBy: row.created_by,
    updatedAt: row.updated_at,
    expiresAt: row.expires_at,
    taskId: row.task_id,
  };
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
