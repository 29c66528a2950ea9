// Table sizes: the exact number of rows, and an estimate of their bytes.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { TableDefinition } from '../../../model/records.ts';
import type { TableRef } from '../../port/refs.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteLiteral } from '../sql/identifiers.ts';
import { blockSizeBytes } from '../storage/catalog_files.ts';

export interface TableSize {
  readonly rowCount: number;
  readonly dataBytes: number;
}

/** Segments are inspected up to this many values: DuckDB lists about 3,000 segments for 100 million values, at 5 µs each. */
const inspectedValuesMax = 500_000_000;
/** Bytes of a stored value, for tables that are not inspected; values of the Star Schema Benchmark take 5. */
const bytesPerValue = 5;
/** Bytes of a value that no checkpoint has compressed yet. */
const bytesPerFreshValue = 16;

/** Counts the 16 KiB blocks of the table's columns, and estimates the values that are only in the write-ahead log. */
export async function tableStatistics(connection: DuckDBConnection, table: TableRef): Promise<TableSize> {
  const rowCount = await countRows(connection, table);
  if (rowCount === 0) return { rowCount, dataBytes: 0 };
  const name = qualifiedTable(table);
  const described = await connection.run(`SELECT * FROM ${name} LIMIT 0`);
  const values = rowCount * described.columnCount;
  // DuckDB does not support "" as an escaped quote in this function's argument, so such names cannot be passed.
  const isPassable = ![table.catalog.name, table.database, table.table].some((part) => part.includes('"'));
  if (values > inspectedValuesMax || !isPassable) return { rowCount, dataBytes: values * bytesPerValue };
  const [sizes] = await rowsOf(
    connection,
    'SELECT count(DISTINCT block_id) FILTER (persistent AND block_id >= 0), coalesce(sum(len(additional_block_ids)), 0), ' +
      `coalesce(sum(count) FILTER (NOT persistent AND segment_type <> 'VALIDITY'), 0) ` +
      `FROM pragma_storage_info(${quoteLiteral(name)})`,
  );
  const [blocks = 0n, moreBlocks = 0n, freshValues = 0n] = (sizes ?? []) as readonly bigint[];
  const dataBytes = Number(blocks + moreBlocks) * blockSizeBytes + Number(freshValues) * bytesPerFreshValue;
  return { rowCount, dataBytes };
}

/** Exact. DuckDB sums the counts of row groups: a few milliseconds for 100 million rows. */
export async function countRows(connection: DuckDBConnection, table: TableRef): Promise<number> {
  return Number((await rowsOf(connection, `SELECT count(*) FROM ${qualifiedTable(table)}`))[0]?.[0] ?? 0);
}

/** Relative durations of copying each table and of creating its unique key: two weights for each table. */
export async function copyWeights(
  connection: DuckDBConnection,
  tables: readonly { readonly table: TableRef; readonly definition: TableDefinition }[],
): Promise<number[]> {
  const weights: number[] = [];
  for (const { table, definition } of tables) {
    const rows = await countRows(connection, table);
    weights.push(rows, definition.uniqueKey.length > 0 ? rows : 0);
  }
  return weights;
}
