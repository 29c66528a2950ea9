// Snapshots of catalogs, for backups: the parts of the servers in pieces, each in a Parquet file that a server writes, and the restore of such files.
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { dataInvalid } from '../../data_files/load_failures.ts';
import { rowsOfParquet } from '../../data_files/parquet_footer.ts';
import type { EngineWarehouse } from '../../port/engine.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { PartToRestore, Snapshot, SnapshotTable, TablePart } from '../../port/snapshot.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { WarehouseContext } from '../context.ts';
import { computeSettings } from '../load/native_source.ts';
import { loadStaged } from '../load/staged_load.ts';
import { loadColumn } from '../load/staging.ts';
import { internalDatabase } from '../names.ts';
import { columnsBeforeAliases } from '../query/statement_settings.ts';
import { completeEarlier } from '../rows/pending_steps.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { FixedTables } from './fixed_tables.ts';
import { fileStructure, readValues, valuesVersion, writtenValues } from './part_values.ts';

export type SnapshotMethods = Pick<EngineWarehouse, 'snapshot' | 'restorePart'>;

/** Of a file. */
const rowsPerPiece = 4 * 1024 * 1024;
/** The limit is that of the task, which aborts it. */
const partMsMax = 24 * 3600 * 1000;
const callMs = 60_000;

const writeSettings = {
  ...columnsBeforeAliases,
  output_format_parquet_string_as_string: 1,
  output_format_parquet_compression_method: 'zstd',
  date_time_output_format: 'simple',
  // Rows are in the order of the part, so that the same piece is the same file.
  max_threads: 1,
};
const readSettings = { ...computeSettings, input_format_null_as_default: 0 } as const;

/** `pieceRows`: at most so many rows in a file. */
export function snapshotsOf(context: WarehouseContext, pieceRows = rowsPerPiece): SnapshotMethods {
  return {
    snapshot: (catalog, { signal }) =>
      context.run(signal, async (runSignal) => {
        const tables = new FixedTables(context);
        await tables.fix(catalog, runSignal);
        return new CatalogSnapshot(context, catalog, tables, pieceRows);
      }),
    restorePart: (part, { signal }) => context.run(signal, (runSignal) => restorePart(context, part, runSignal)),
  };
}

/** Rows of a part of a server. */
interface Piece extends TablePart {
  readonly shard: number;
  readonly name: string;
  /** The first row, counted within the part. */
  readonly first: number;
  readonly isWhole: boolean;
}

class CatalogSnapshot implements Snapshot {
  readonly #context: WarehouseContext;
  readonly #catalog: CatalogRef;
  readonly #tables: FixedTables;
  readonly #pieceRows: number;
  /** By the database and the table: by the number of the part. */
  readonly #pieces = new Map<string, ReadonlyMap<number, Piece>>();

  constructor(context: WarehouseContext, catalog: CatalogRef, tables: FixedTables, pieceRows: number) {
    this.#context = context;
    this.#catalog = catalog;
    this.#tables = tables;
    this.#pieceRows = pieceRows;
  }

  parts(table: SnapshotTable, signal: AbortSignal): Promise<readonly TablePart[]> {
    return this.#context.run(signal, async (runSignal) => {
      const pieces = numbered((await this.#piecesOf(table, runSignal)).flat());
      this.#pieces.set(keyOf(table), new Map(pieces.map((piece) => [piece.part, piece])));
      return pieces.map(({ part, rows, fingerprint }) => ({ part, rows, fingerprint }));
    });
  }

  #piecesOf(table: SnapshotTable, signal: AbortSignal): Promise<Piece[][]> {
    const shards = this.#tables.shardsOf({ ...table, catalog: this.#catalog.name });
    return Promise.all(
      shards.map(async (fixed, shard) => {
        const parts = await this.#tables.serverOf(fixed).rows<{ name: string; count: string; hash: string }>({
          sql: `SELECT name, toString(rows) AS count, concat(hash_of_uncompressed_files, uncompressed_hash_of_compressed_files) AS hash
            FROM system.parts WHERE active AND rows > 0 AND database = ${quoteLiteral(internalDatabase)} AND table = ${quoteLiteral(fixed.name)}`,
          timeoutMs: callMs,
          signal,
        });
        return parts.flatMap(({ name, count, hash }) =>
          piecesOf({ shard, name, rows: Number(count), hash, definition: fixed.definition }, this.#pieceRows),
        );
      }),
    );
  }

  write(table: SnapshotTable, part: number, path: string, signal: AbortSignal): Promise<number> {
    return this.#context.run(signal, async (runSignal) => {
      const piece = this.#pieces.get(keyOf(table))?.get(part);
      const fixed = piece && this.#tables.shardsOf({ ...table, catalog: this.#catalog.name })[piece.shard];
      if (!piece || !fixed) throw new Error(`the snapshot has no part ${part} of the table`);
      const { name, first, rows, isWhole } = piece;
      const within = isWhole ? '' : ` AND _part_offset >= ${first} AND _part_offset < ${first + rows}`;
      const from = qualifiedName({ database: internalDatabase, table: fixed.name });
      const stream = await this.#tables.serverOf(fixed).stream({
        sql: `SELECT ${writtenValues(table.columns).join(', ')} FROM ${from} WHERE _part = ${quoteLiteral(name)}${within} FORMAT Parquet`,
        settings: writeSettings,
        timeoutMs: partMsMax,
        isOfCaller: true,
        signal: runSignal,
      });
      await pipeline(stream, createWriteStream(path, { mode: 0o600 }), { signal: runSignal });
      const written = await rowsOfParquet(path);
      if (written === undefined) throw new Error('a server wrote a file that is no Parquet file');
      return written;
    });
  }

  close(): Promise<void> {
    return this.#tables.drop();
  }
}

const keyOf = ({ database, table }: Pick<SnapshotTable, 'database' | 'table'>): string =>
  JSON.stringify([database, table]);

interface ServerPart {
  readonly shard: number;
  readonly name: string;
  readonly rows: number;
  /** Of the contents. */
  readonly hash: string;
  readonly definition: string;
}

function piecesOf({ shard, name, rows, hash, definition }: ServerPart, pieceRows: number): Piece[] {
  return Array.from({ length: Math.ceil(rows / pieceRows) }, (_, index) => {
    const first = index * pieceRows;
    const fingerprint = createHash('sha256')
      .update(JSON.stringify([valuesVersion, hash, rows, pieceRows, index, definition]))
      .digest('hex');
    const isWhole = rows <= pieceRows;
    return { part: 0, rows: Math.min(pieceRows, rows - first), fingerprint, shard, name, first, isWhole };
  });
}

/**
 * Gives each piece a number that follows from its contents, because the servers give parts other names whenever they merge: a piece has it in later
 * backups too. Equal pieces are counted.
 */
function numbered(pieces: readonly Piece[]): Piece[] {
  const used = new Set<number>();
  const sorted = pieces.toSorted((a, b) =>
    a.fingerprint < b.fingerprint ? -1 : Number(a.fingerprint !== b.fingerprint),
  );
  const all = sorted.map((piece) => {
    let part = Number.parseInt(piece.fingerprint.slice(0, 12), 16);
    while (used.has(part)) part++;
    used.add(part);
    return { ...piece, part };
  });
  return all.sort((a, b) => a.part - b.part);
}

/** Atomic; once for each step. Throws DATA_INVALID, CONSTRAINT_VIOLATED. */
async function restorePart(
  context: WarehouseContext,
  { table, columns, path, rows, step }: PartToRestore,
  signal: AbortSignal,
): Promise<void> {
  const attempt = await context.steps.begin(table.catalog, [step]);
  if ((await completeEarlier(context, table.catalog, step, attempt)) !== undefined) return;
  const names = [...columns.map(({ name }) => quoteIdentifier(name)), quoteIdentifier(loadColumn)];
  const from = `input(${quoteLiteral(fileStructure(columns))})`;
  await context.cluster.onAny((server) =>
    loadStaged(
      context,
      server,
      { table, step, mode: 'append' },
      {
        attempt,
        signal,
        stage: async ({ into, number }) => {
          const sql = `INSERT INTO ${into} (${names.join(', ')}) SELECT ${[...readValues(columns), number].join(', ')} FROM ${from} FORMAT Parquet`;
          const call = { sql, settings: readSettings, timeoutMs: partMsMax, isOfCaller: true, signal };
          try {
            await server.text({ ...call, data: createReadStream(path) });
          } catch (error) {
            throw serverFailure(error) instanceof ClickHouseError ? unreadable() : error;
          }
        },
        check: (found) => {
          if (found !== rows) throw dataInvalid(`a file has ${found} rows instead of ${rows}`);
        },
      },
    ),
  );
  context.changed.add({ catalog: table.catalog.name, database: table.database, table: table.table });
}

const unreadable = () => dataInvalid('a file does not have the rows of the table');
