// Snapshots in the engine process: each has its own connection with a read transaction that stays open, and writes parts of tables to
// files. A change that renames or drops a catalog ends the snapshots of the catalog.
import { randomUUID } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { SnapshotTable, TablePart } from '../../port/snapshot.ts';
import { trackInsert, type WriteVersions } from '../analysis/data_versions.ts';
import { ownSchema, rowsOf } from '../instance/applied_steps.ts';
import type { Interruptible, Sessions } from '../instance/connection_pool.ts';
import type { Operations } from '../process/protocol.ts';
import { locateErrors } from '../process/wire_errors.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';
import { restorePart } from './restore_part.ts';
import { copiedPartsText, partOf, partsText, writePartText } from './table_parts.ts';

type SnapshotOperation = 'beginSnapshot' | 'snapshotParts' | 'writeSnapshotPart' | 'endSnapshot' | 'restorePart';
type SnapshotOperations = { [K in SnapshotOperation]: (argument: Operations[K][0]) => Promise<Operations[K][1]> };

/** Needed to write rows into tables. */
interface TableAccess {
  readonly sessions: Sessions;
  readonly versions: WriteVersions;
}

interface OpenSnapshot {
  readonly connection: DuckDBConnection;
  readonly catalog: CatalogRef;
  readonly keepsFile: boolean;
  running: Promise<unknown>;
  isEnded: boolean;
}

/** An open transaction alone does not keep DuckDB from writing a log of insertions into the file. */
const suspendCheckpoints = "SET GLOBAL checkpoint_threshold = '1024TiB'";
const resumeCheckpoints = 'RESET GLOBAL checkpoint_threshold';

export class Snapshots {
  readonly #instance: DuckDBInstance;
  readonly #workDirectory: string;
  readonly #tables: TableAccess;
  readonly #open = new Map<string, OpenSnapshot>();

  /** `workDirectory`: the only directory that this process writes to. */
  constructor(instance: DuckDBInstance, workDirectory: string, tables: TableAccess) {
    this.#instance = instance;
    this.#workDirectory = workDirectory;
    this.#tables = tables;
  }

  /** The operations that the server can call. */
  operations(started: Interruptible, signal: AbortSignal): SnapshotOperations {
    return {
      beginSnapshot: ({ catalog, keepsFile }) => locateErrors('', 0, () => this.begin(catalog, keepsFile)),
      snapshotParts: ({ id, table }) => locateErrors('', 0, () => this.parts(id, table, started)),
      writeSnapshotPart: ({ id, table, part, path }) =>
        locateErrors('', 0, () => this.write(id, table, part, path, started)),
      endSnapshot: async (id) => void (await this.end(id)) as undefined,
      restorePart: async (part) => {
        const { catalog, database, table } = part.table;
        const { sessions, versions } = this.#tables;
        const runAttempt = (attempt: () => Promise<void>) =>
          trackInsert(versions, { catalog: catalog.name, database, table }, attempt);
        await sessions.with(undefined, started, ({ connection }) =>
          locateErrors('', 0, () =>
            restorePart(connection, part, { workDirectory: this.#workDirectory, signal, runAttempt }),
          ),
        );
        return undefined;
      },
    };
  }

  /** Whether the logs must not be written into the files. */
  get keepFiles(): boolean {
    return this.#open.values().some(({ keepsFile, isEnded }) => keepsFile && !isEnded);
  }

  async begin(catalog: CatalogRef, keepsFile: boolean): Promise<string> {
    const connection = await this.#instance.connect();
    try {
      if (keepsFile) await connection.run(suspendCheckpoints);
      await connection.run('BEGIN TRANSACTION READ ONLY');
      // The snapshot of a catalog begins with the transaction's first read of it.
      const steps = `${quoteIdentifier(catalog.name)}.${quoteIdentifier(ownSchema)}.steps`;
      await rowsOf(connection, `SELECT step FROM ${steps} LIMIT 1`);
    } catch (error) {
      await this.#close({ connection, catalog, keepsFile, running: Promise.resolve(), isEnded: false });
      if (error instanceof Error && /^(?:Binder|Catalog) Error/.test(error.message)) throw catalogMovedFailure();
      throw error;
    }
    const id = randomUUID();
    this.#open.set(id, { connection, catalog, keepsFile, running: Promise.resolve(), isEnded: false });
    return id;
  }

  parts(
    id: string,
    { database, table, columns, isCopied }: SnapshotTable,
    started: Interruptible,
  ): Promise<TablePart[]> {
    return this.#run(id, started, async ({ connection, catalog }) => {
      const textOf = isCopied ? copiedPartsText : partsText;
      const text = textOf(qualifiedTable({ catalog, database, table }), columns);
      const [version] = (await rowsOf(connection, 'SELECT version()'))[0] ?? [];
      return (await rowsOf(connection, text)).map((row) => partOf(row, String(version)));
    });
  }

  write(id: string, table: SnapshotTable, part: number, path: string, started: Interruptible): Promise<number> {
    return this.#run(id, started, async ({ connection, catalog }) => {
      const file = join(this.#workDirectory, `part-${randomUUID()}`);
      try {
        const [row] = await rowsOf(connection, writePartText(catalog.name, table, part, file));
        await rename(file, path);
        return Number(row?.[0]);
      } catch (error) {
        await rm(file, { force: true });
        throw error;
      }
    });
  }

  /** Idempotent. */
  async end(id: string): Promise<void> {
    const snapshot = this.#open.get(id);
    this.#open.delete(id);
    if (snapshot) await this.#close(snapshot);
  }

  /** Ends the snapshots of a catalog that is about to be renamed or dropped. */
  async endOf(catalog: CatalogRef): Promise<void> {
    for (const snapshot of this.#open.values()) if (snapshot.catalog.id === catalog.id) await this.#close(snapshot);
  }

  async #close(snapshot: OpenSnapshot): Promise<void> {
    if (snapshot.isEnded) return;
    snapshot.isEnded = true;
    snapshot.connection.interrupt();
    await snapshot.running;
    await snapshot.connection.run('ROLLBACK').catch(() => undefined);
    if (snapshot.keepsFile && !this.keepFiles) await snapshot.connection.run(resumeCheckpoints);
    snapshot.connection.closeSync();
  }

  async #run<T>(id: string, started: Interruptible, work: (snapshot: OpenSnapshot) => Promise<T>): Promise<T> {
    const snapshot = this.#open.get(id);
    if (!snapshot || snapshot.isEnded) throw catalogMovedFailure();
    const run = async () => {
      started(snapshot.connection);
      try {
        return await work(snapshot);
      } finally {
        started(undefined);
      }
    };
    const running = run();
    snapshot.running = running.catch(() => undefined);
    try {
      return await running;
    } catch (error) {
      throw snapshot.isEnded ? catalogMovedFailure() : error;
    }
  }
}

const catalogMovedFailure = () =>
  new Failure('CHANGE_IN_PROGRESS', 'the catalog was renamed or dropped while it was being read');
