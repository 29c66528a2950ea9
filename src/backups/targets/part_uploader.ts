// Uploads parts of tables: the engine writes them to a folder of the spool, they are named by their digest, and sent only if the target
// does not have them yet.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Snapshot, SnapshotTable, TablePart } from '../../engines/port/snapshot.ts';
import type { Amount } from '../../tasks/task.ts';
import {
  type BackedUpPart,
  type BackedUpTable,
  backupIdOfFile,
  filePath,
  listParts,
  type Manifest,
} from '../manifest.ts';
import type { BackupTarget, TargetFile } from './backup_target.ts';

const readBytes = 1024 * 1024;

export interface PartUploaderOptions {
  readonly target: BackupTarget;
  readonly backupId: string;
  /** An empty directory for this backup only. */
  readonly staging: string;
  readonly snapshot: Snapshot;
  readonly signal: AbortSignal;
  readonly progress: (amount: Amount) => void;
}

/** A table with its current parts. */
export interface TableToUpload {
  readonly id: string;
  readonly ref: SnapshotTable;
  readonly body: BackedUpTable['definition'];
  readonly parts: readonly TablePart[];
}

export class PartUploader {
  readonly #options: PartUploaderOptions;
  /** Files of the last backup, and of an interrupted attempt of this one, by digest. */
  readonly #existingFiles = new Map<string, { readonly path: string; readonly bytes: number }>();
  readonly #tables = new Map<string, BackedUpTable>();
  #sending: Promise<void> = Promise.resolve();
  #written = 0;
  #rowsDone = 0;
  #rowsAll = 0;
  filesSent = 0;
  bytesSent = 0;

  /** `base`: the last backup of the same object. `files`: the files in the target. */
  constructor(options: PartUploaderOptions, base: Manifest | undefined, files: ReadonlyMap<string, TargetFile>) {
    this.#options = options;
    for (const { part } of base ? listParts(base) : []) this.#addExisting(part, files);
    for (const [path, { bytes }] of files) {
      const sha256 = /([0-9a-f]{64})\.parquet$/.exec(path)?.[1];
      const isOwn = sha256 !== undefined && backupIdOfFile(path) === options.backupId;
      if (isOwn && !this.#existingFiles.has(sha256)) this.#existingFiles.set(sha256, { path, bytes });
    }
    for (const { tables } of base?.databases ?? []) for (const table of tables) this.#tables.set(table.id, table);
  }

  /** A file that is missing or changed is written again. */
  #addExisting({ sha256, path, bytes }: BackedUpPart, files: ReadonlyMap<string, TargetFile>): void {
    if (files.get(path)?.bytes === bytes) this.#existingFiles.set(sha256, { path, bytes });
  }

  /** Sends the parts of all tables, in order. */
  async send(tables: readonly TableToUpload[]): Promise<Map<string, BackedUpPart[]>> {
    this.#rowsAll = tables.flatMap(({ parts }) => parts).reduce((sum, { rows }) => sum + rows, 0);
    const sent = new Map<string, BackedUpPart[]>();
    try {
      for (const table of tables) sent.set(table.id, await this.#sendTable(table));
      await this.#sending;
    } finally {
      // A running upload reads a file that is deleted when this ends.
      await this.#sending.catch(() => undefined);
    }
    return sent;
  }

  async #sendTable({ id, ref, body, parts }: TableToUpload): Promise<BackedUpPart[]> {
    const { progress } = this.#options;
    const before = this.#unchanged(id, body);
    const sent: BackedUpPart[] = [];
    for (const part of parts) {
      progress({ done: this.#rowsDone, total: this.#rowsAll, unit: 'rows' });
      sent.push(before.get(keyOf(part)) ?? (await this.#sendPart(ref, part)));
      this.#rowsDone += part.rows;
    }
    progress({ done: this.#rowsDone, total: this.#rowsAll, unit: 'rows' });
    return sent;
  }

  /** Parts of the last backup that are unchanged, if the columns of the table are unchanged too. */
  #unchanged(id: string, { columns }: BackedUpTable['definition']): Map<string, BackedUpPart> {
    const before = this.#tables.get(id);
    const columnsOf = (all: typeof columns) => JSON.stringify(all.map(({ name, type }) => [name, type]));
    if (!before || columnsOf(before.definition.columns) !== columnsOf(columns)) return new Map();
    const existingParts = before.parts.filter(({ sha256, path }) => this.#existingFiles.get(sha256)?.path === path);
    return new Map(existingParts.map((part) => [keyOf(part), part]));
  }

  async #sendPart(ref: SnapshotTable, { part, rows, fingerprint }: TablePart): Promise<BackedUpPart> {
    const { snapshot, staging, target, backupId, signal } = this.#options;
    const staged = join(staging, `${this.#written++}.parquet`);
    const written = await snapshot.write(ref, part, staged, signal);
    if (written !== rows) throw new Error(`${written} rows were written of ${rows}`);
    const { size: bytes } = await stat(staged);
    const sha256 = await digestOf(staged, signal);
    // One file is sent while the next is written, and no more.
    await this.#sending;
    const known = this.#existingFiles.get(sha256);
    if (known?.bytes === bytes) {
      await rm(staged);
      return { part, rows, fingerprint, sha256, bytes, path: known.path };
    }
    const path = filePath(backupId, sha256);
    this.#existingFiles.set(sha256, { path, bytes });
    this.filesSent++;
    this.bytesSent += bytes;
    this.#sending = target.write(path, staged, signal).then(() => rm(staged));
    this.#sending.catch(() => undefined);
    return { part, rows, fingerprint, sha256, bytes, path };
  }
}

const keyOf = ({ part, rows, fingerprint }: TablePart) => `${part} ${rows} ${fingerprint}`;

export async function digestOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: readBytes, signal })) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
