// Row positions, by which a table is read page by page: DuckDB's row ids, and how long they are valid.
import { createHash, randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { TableDefinition } from '../../../model/records.ts';
import { formatType } from '../../../model/types.ts';
import type { TableName, TableRef } from '../../port/refs.ts';
import type { RowsPage } from '../../port/rows.ts';
import type { StatementParameters } from '../../port/statements.ts';
import type { DataVersions } from '../analysis/data_versions.ts';
import { rememberStep, rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteIdentifier, sameName } from '../sql/identifiers.ts';
import { catalogFile } from '../storage/catalog_files.ts';

const rowId = 'rowid';

/** A column named rowid hides the row id: then the columns are renamed. */
const hidesId = (columns: readonly string[]) => columns.some((name) => sameName(name, rowId));

function sourceOf(table: TableRef, columns: readonly string[]): string {
  const names = hidesId(columns) ? `(${columns.map((_, i) => `c${i}`).join(', ')})` : '';
  return `${qualifiedTable(table)} AS r${names}`;
}

/** Rows are returned in the order of their ids without a sort: DuckDB preserves it, and skips row groups below `after`. */
export function rowsPage(
  table: TableRef,
  { columns, after, limit }: RowsPage,
): { readonly sql: string; readonly parameters: StatementParameters } {
  const values = hidesId(columns) ? columns.map((name, i) => `c${i} AS ${quoteIdentifier(name)}`).join(', ') : 'r.*';
  const where = after === undefined ? '' : ` WHERE r.${rowId} > $2`;
  return {
    sql: `SELECT r.${rowId}, ${values} FROM ${sourceOf(table, columns)}${where} LIMIT $1`,
    parameters: after === undefined ? [limit] : [limit, Number(after)],
  };
}

/**
 * Computes the validity marks of row positions: a position is valid as long as the table still has one of the marks that it had.
 *
 * Row ids are stable under inserts and deletes. Two operations renumber them. Rewriting a table for another definition: so the definition
 * is part of every mark. And a checkpoint, which drops deleted rows of tables without an index. DuckDB never does that to a table with an
 * index (`vacuum_rebuild_indexes` is 0). Other tables have two marks: the number of checkpoints of the file, valid whatever is deleted;
 * and, if the row ids have no gaps, the last removal of rows from the table, valid whatever is checkpointed.
 */
export class RowNumberings {
  readonly #dataDirectory: string;
  readonly #removals: DataVersions;
  /** Removals are counted per process. */
  readonly #process = randomUUID();
  /** Whether the row ids of a table had no gaps, and at which removal and checkpoint that was checked. */
  readonly #known = new Map<
    string,
    { readonly removal: number; readonly checkpoints: bigint; readonly isDense: boolean }
  >();

  /** `removals`: versions of deletes, updates and failed writes. */
  constructor(dataDirectory: string, removals: DataVersions) {
    this.#dataDirectory = dataDirectory;
    this.#removals = removals;
  }

  async of(connection: DuckDBConnection, table: TableRef, definition: TableDefinition): Promise<readonly string[]> {
    const columns = definition.columns.map(({ name, type }) => [name, formatType(type)]);
    const text = JSON.stringify([columns, definition.primaryKey, definition.uniqueKey]);
    const shape = createHash('sha256').update(text).digest('base64url').slice(0, 16);
    if (definition.primaryKey.length > 0 || definition.uniqueKey.length > 0) return [shape];
    const names = definition.columns.map(({ name }) => name);
    // Read before the transaction begins: a removal that commits after the snapshot and ends before the count would not be in the count.
    const removal = this.#removals.latestOf([tableName(table)]);
    return withoutRenumbering(connection, table, async () => {
      const checkpoints = await checkpointsOf(catalogFile(this.#dataDirectory, table.catalog));
      const counted = `${shape}.${checkpoints}`;
      if (removal === undefined) return [counted];
      const isDense = await this.#isDense(connection, table, names, { removal, checkpoints });
      return isDense ? [counted, `${shape}.${this.#process}.${removal}`] : [counted];
    });
  }

  /**
   * Whether the row ids of the table have no gaps, so that a checkpoint leaves them as they are. `removal`: the last one before the
   * connection's transaction began. False if another removal has begun since.
   */
  async #isDense(
    connection: DuckDBConnection,
    table: TableRef,
    columns: readonly string[],
    { removal, checkpoints }: { readonly removal: number; readonly checkpoints: bigint },
  ): Promise<boolean> {
    const isCurrent = () => this.#removals.latestOf([tableName(table)]) === removal;
    const key = JSON.stringify([table.catalog.id, tableName(table)]);
    let known = this.#known.get(key);
    // Inserts make no gaps; a checkpoint may close existing ones.
    if (known?.removal !== removal || !(known.isDense || known.checkpoints === checkpoints)) {
      const isGapless = `SELECT count(*) = coalesce(max(r.${rowId}) + 1, 0) FROM ${sourceOf(table, columns)}`;
      const [row] = await rowsOf(connection, isGapless);
      if (!isCurrent()) return false;
      known = { removal, checkpoints, isDense: row?.[0] === true };
      if (this.#known.size >= knownMax) this.#known.clear();
      this.#known.set(key, known);
    }
    return known.isDense && isCurrent();
  }
}

const knownMax = 10_000;

const tableName = ({ catalog, database, table }: TableRef): TableName => ({ catalog: catalog.name, database, table });

/**
 * A checkpoint renumbers rows before it writes the header of the file. A transaction that writes waits for a checkpoint that renumbers, and
 * while it is open checkpoints may run but renumber nothing (tests/engines/row_ids.test.ts). A checkpoint that runs meanwhile can make a page
 * token invalid without need; it cannot make a wrong one valid.
 */
async function withoutRenumbering<T>(
  connection: DuckDBConnection,
  { catalog }: TableRef,
  work: () => Promise<T>,
): Promise<T> {
  await connection.run('BEGIN TRANSACTION');
  try {
    await rememberStep(connection, catalog.name, `${rowId}-${randomUUID()}`);
    return await work();
  } finally {
    await connection.run('ROLLBACK');
  }
}

/** The two headers of a DuckDB file follow its first 4 KiB; each has a checksum, then the count of the checkpoint that wrote it. */
const headersOffset = 4096;
const headerBytes = 4096;
const countOffset = 8;

/** A number that every checkpoint changes. */
async function checkpointsOf(path: string): Promise<bigint> {
  const file = await open(path, 'r');
  try {
    const { buffer } = await file.read(Buffer.alloc(headerBytes + countOffset + 8), 0, undefined, headersOffset);
    // Checkpoints write the two headers alternately, so the sum changes with each.
    return buffer.readBigUInt64LE(countOffset) + buffer.readBigUInt64LE(headerBytes + countOffset);
  } finally {
    await file.close();
  }
}
