// How many rows a table has, exactly, and how many bytes they take, nearly.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { TableDefinition } from '../../../model/records.ts';
import type { TableRef } from '../../engine.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteLiteral } from '../sql/identifiers.ts';
import { blockSizeBytes } from '../storage/catalog_files.ts';

export interface TableSize {
  readonly rowCount: number;
  readonly dataBytes: number;
}

/** DuckDB lists about 3,000 segments for a hundred million values, at 5 µs each: up to this many values they are looked at. */
const inspectedValuesMax = 500_000_000;
/** A stored value of a table that is not looked at; 5 is what the Star Schema Benchmark's take. */
const bytesPerValue = 5;
/** A value that no checkpoint has compressed yet. */
const bytesPerFreshValue = 16;

/** Blocks of 16 KiB that hold the table's columns, and an estimate of what is only in the write-ahead log as yet. */
export async function tableStatistics(connection: DuckDBConnection, table: TableRef): Promise<TableSize> {
  const rowCount = await countRows(connection, table);
  if (rowCount === 0) return { rowCount, dataBytes: 0 };
  const name = qualifiedTable(table);
  const described = await connection.run(`SELECT * FROM ${name} LIMIT 0`);
  const values = rowCount * described.columnCount;
  // DuckDB reads this function's argument without the rule that "" inside quotes is a quote: such a name cannot be said.
  const sayable = ![table.catalog.name, table.database, table.table].some((part) => part.includes('"'));
  if (values > inspectedValuesMax || !sayable) return { rowCount, dataBytes: values * bytesPerValue };
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

/** Exact, and read off the row groups: a few milliseconds for a hundred million rows. */
export async function countRows(connection: DuckDBConnection, table: TableRef): Promise<number> {
  return Number((await rowsOf(connection, `SELECT count(*) FROM ${qualifiedTable(table)}`))[0]?.[0] ?? 0);
}

/** How much work it is, one with another, to copy each table and then to make its unique key: two weights for each. */
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
