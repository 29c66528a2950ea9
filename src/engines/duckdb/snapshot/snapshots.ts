// Snapshots of the engine process: each a connection of its own with one read transaction that stays open, and the files that it
// writes. A change that takes a catalog's name away ends those of the catalog.
import { randomUUID } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../engine.ts';
import type { SnapshotTable, TablePart } from '../../snapshot.ts';
import { trackInsert, type WriteVersions } from '../analysis/data_versions.ts';
import { ownSchema, rowsOf } from '../instance/applied_steps.ts';
import type { Sessions } from '../instance/connection_pool.ts';
import type { Operations } from '../process/protocol.ts';
import { locateErrors } from '../process/wire_errors.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';
import { restorePart } from './restore_part.ts';
import { partOf, partsText, writePartText } from './table_parts.ts';

/** Told which connection an interrupt should reach. */
type Interruptible = (connection: DuckDBConnection | undefined) => void;

type Named = 'beginSnapshot' | 'snapshotParts' | 'writeSnapshotPart' | 'endSnapshot' | 'restorePart';
type SnapshotOperations = { [K in Named]: (argument: Operations[K][0]) => Promise<Operations[K][1]> };

/** How rows get into tables. */
interface Tables {
  readonly sessions: Sessions;
  readonly epochs: WriteVersions;
}

interface Open {
  readonly connection: DuckDBConnection;
  readonly catalog: CatalogRef;
  running: Promise<unknown>;
  isEnded: boolean;
}

export class Snapshots {
  readonly #instance: DuckDBInstance;
  readonly #own: string;
  readonly #tables: Tables;
  readonly #open = new Map<string, Open>();

  /** `own`: where this process writes. */
  constructor(instance: DuckDBInstance, own: string, tables: Tables) {
    this.#instance = instance;
    this.#own = own;
    this.#tables = tables;
  }

  /** What of it the server can ask for. */
  operations(started: Interruptible, signal: AbortSignal): SnapshotOperations {
    return {
      beginSnapshot: (catalog) => locateErrors('', 0, () => this.begin(catalog)),
      snapshotParts: ({ id, table }) => locateErrors('', 0, () => this.parts(id, table, started)),
      writeSnapshotPart: ({ id, table, part, path }) =>
        locateErrors('', 0, () => this.write(id, table, part, path, started)),
      endSnapshot: async (id) => void (await this.end(id)) as undefined,
      restorePart: async (part) => {
        const { catalog, database, table } = part.table;
        const { sessions, epochs } = this.#tables;
        const attempting = (attempt: () => Promise<void>) =>
          trackInsert(epochs, { catalog: catalog.name, database, table }, attempt);
        await sessions.with(undefined, started, ({ connection }) =>
          locateErrors('', 0, () => restorePart(connection, part, { own: this.#own, signal, attempting })),
        );
        return undefined;
      },
    };
  }

  async begin(catalog: CatalogRef): Promise<string> {
    const connection = await this.#instance.connect();
    try {
      await connection.run('BEGIN TRANSACTION READ ONLY');
      // A transaction begins in a catalog with the first look at it.
      const touched = `${quoteIdentifier(catalog.name)}.${quoteIdentifier(ownSchema)}.steps`;
      await rowsOf(connection, `SELECT step FROM ${touched} LIMIT 1`);
    } catch (error) {
      connection.closeSync();
      if (error instanceof Error && /^(?:Binder|Catalog) Error/.test(error.message)) throw moved();
      throw error;
    }
    const id = randomUUID();
    this.#open.set(id, { connection, catalog, running: Promise.resolve(), isEnded: false });
    return id;
  }

  parts(id: string, { database, table, columns }: SnapshotTable, started: Interruptible): Promise<TablePart[]> {
    return this.#within(id, started, async ({ connection, catalog }) => {
      const text = partsText(qualifiedTable({ catalog, database, table }), columns);
      const [version] = (await rowsOf(connection, 'SELECT version()'))[0] ?? [];
      return (await rowsOf(connection, text)).map((row) => partOf(row, String(version)));
    });
  }

  write(id: string, table: SnapshotTable, part: number, path: string, started: Interruptible): Promise<number> {
    return this.#within(id, started, async ({ connection, catalog }) => {
      const file = join(this.#own, `part-${randomUUID()}`);
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
    const open = this.#open.get(id);
    this.#open.delete(id);
    if (open) await closed(open);
  }

  /** Those of a catalog that is about to lose its name. */
  async endOf(catalog: CatalogRef): Promise<void> {
    for (const open of this.#open.values()) if (open.catalog.id === catalog.id) await closed(open);
  }

  async #within<T>(id: string, started: Interruptible, work: (open: Open) => Promise<T>): Promise<T> {
    const open = this.#open.get(id);
    if (!open || open.isEnded) throw moved();
    const run = async () => {
      started(open.connection);
      try {
        return await work(open);
      } finally {
        started(undefined);
      }
    };
    const running = run();
    open.running = running.catch(() => undefined);
    try {
      return await running;
    } catch (error) {
      throw open.isEnded ? moved() : error;
    }
  }
}

async function closed(open: Open): Promise<void> {
  if (open.isEnded) return;
  open.isEnded = true;
  open.connection.interrupt();
  await open.running;
  await open.connection.run('ROLLBACK').catch(() => undefined);
  open.connection.closeSync();
}

const moved = () => new Failure('CHANGE_IN_PROGRESS', 'the catalog was renamed or dropped while it was read');
