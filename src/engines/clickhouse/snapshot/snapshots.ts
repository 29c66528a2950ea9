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
import { readsFloatsExactly } from '../types/read_values.ts';
import { FixedTables } from './fixed_tables.ts';
import { fileStructure, readValues, valuesVersion, writtenValues } from './part_values.ts';

export type SnapshotMethods = Pick<EngineWarehouse, 'snapshot' | 'restorePart'>;

/** Of a file. */
const rowsPerPiece = 4 * 1024 * 1024;
/** Parts with fewer rows share files: each file takes a second to restore. */
const smallRows = 128 * 1024;
const partsPerPieceMax = 1000;
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
const readSettings = {
  ...computeSettings,
  input_format_null_as_default: 0,
  input_format_parquet_allow_missing_columns: 0,
} as const;

export function snapshotsOf(context: WarehouseContext): SnapshotMethods {
  return {
    snapshot: (catalog, { signal, databases, purpose }) =>
      context.run(signal, async (runSignal) => {
        const tables = new FixedTables(context, purpose);
        await tables.fix(catalog, databases, runSignal);
        return new CatalogSnapshot(context, catalog, tables);
      }),
    restorePart: (part, { signal }) => context.run(signal, (runSignal) => restorePart(context, part, runSignal)),
  };
}

/** Rows of one part of a server, or of several. */
interface Piece extends TablePart {
  readonly shard: number;
  readonly names: readonly string[];
  /** The first row of it, counted within the part; undefined: it has all rows. */
  readonly first: number | undefined;
}

class CatalogSnapshot implements Snapshot {
  readonly #context: WarehouseContext;
  readonly #catalog: CatalogRef;
  readonly #tables: FixedTables;
  /** By the database and the table: by the number of the part. */
  readonly #pieces = new Map<string, ReadonlyMap<number, Piece>>();

  constructor(context: WarehouseContext, catalog: CatalogRef, tables: FixedTables) {
    this.#context = context;
    this.#catalog = catalog;
    this.#tables = tables;
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
        if (fixed.name === undefined) return [];
        const parts = await this.#tables.serverOf(fixed).rows<{ name: string; count: string; hash: string }>({
          sql: `SELECT name, toString(rows) AS count, concat(hash_of_uncompressed_files, uncompressed_hash_of_compressed_files) AS hash
            FROM system.parts WHERE active AND rows > 0 AND database = ${quoteLiteral(internalDatabase)} AND table = ${quoteLiteral(fixed.name)}`,
          timeoutMs: callMs,
          signal,
        });
        const all = parts.map(({ name, count, hash }) => ({ name, rows: Number(count), hash }));
        return piecesOf(all, shard, fixed.columns);
      }),
    );
  }

  write(table: SnapshotTable, part: number, path: string, signal: AbortSignal): Promise<number> {
    return this.#context.run(signal, async (runSignal) => {
      const piece = this.#pieces.get(keyOf(table))?.get(part);
      const fixed = piece && this.#tables.shardsOf({ ...table, catalog: this.#catalog.name })[piece.shard];
      if (!piece || fixed?.name === undefined) throw new Error(`the snapshot has no part ${part} of the table`);
      const { names, first, rows } = piece;
      const within = first === undefined ? '' : ` AND _part_offset >= ${first} AND _part_offset < ${first + rows}`;
      const from = qualifiedName({ database: internalDatabase, table: fixed.name });
      const stream = await this.#tables.serverOf(fixed).stream({
        sql: `SELECT ${writtenValues(table.columns).join(', ')} FROM ${from} WHERE _part IN (${names.map(quoteLiteral).join(', ')})${within} FORMAT Parquet`,
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
  readonly name: string;
  readonly rows: number;
  /** Of the contents. */
  readonly hash: string;
}

function piecesOf(parts: readonly ServerPart[], shard: number, columns: string): Piece[] {
  const piece = (of: readonly ServerPart[], rows: number, first?: number): Piece => {
    const contents = of.map(({ hash, rows: all }) => [hash, all]);
    const fingerprint = digestOf([valuesVersion, columns, contents, first ?? null, rows]);
    return { part: 0, rows, fingerprint, shard, names: of.map(({ name }) => name), first };
  };
  const large = parts.filter(({ rows }) => rows >= smallRows);
  const ofLarge = large.flatMap((part) => {
    if (part.rows <= rowsPerPiece) return [piece([part], part.rows)];
    return Array.from({ length: Math.ceil(part.rows / rowsPerPiece) }, (_, index) => {
      const first = index * rowsPerPiece;
      return piece([part], Math.min(rowsPerPiece, part.rows - first), first);
    });
  });
  const ofSmall = groupsOf(parts.filter(({ rows }) => rows < smallRows));
  return [
    ...ofLarge,
    ...ofSmall.map((group) =>
      piece(
        group,
        group.reduce((sum, { rows }) => sum + rows, 0),
      ),
    ),
  ];
}

/** In an order that follows from the contents. */
function groupsOf(parts: readonly ServerPart[]): ServerPart[][] {
  const groups: ServerPart[][] = [];
  let rowsInLast = 0;
  for (const part of parts.toSorted((a, b) => compare(a.hash, b.hash))) {
    const last = groups.at(-1);
    if (last && last.length < partsPerPieceMax && rowsInLast + part.rows <= rowsPerPiece) last.push(part);
    else {
      groups.push([part]);
      rowsInLast = 0;
    }
    rowsInLast += part.rows;
  }
  return groups;
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a !== b));
const digestOf = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');

/**
 * Gives each piece a number that follows from its contents, because the servers give parts other names whenever they merge: a piece has it in later
 * backups too. Equal pieces are counted.
 */
function numbered(pieces: readonly Piece[]): Piece[] {
  const used = new Set<number>();
  const sorted = pieces.toSorted((a, b) => compare(a.fingerprint, b.fingerprint));
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
          const values = readValues(columns, { exactFloats: readsFloatsExactly(server.version) });
          const sql = `INSERT INTO ${into} (${names.join(', ')}) SELECT ${[...values, number].join(', ')} FROM ${from} FORMAT Parquet`;
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
