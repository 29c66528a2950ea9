// The rows of a table as a Parquet file that a server writes, for a copy in another engine. What readers of Parquet do not read alike is a text
// there, which they convert exactly.
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { LogicalType } from '../../../model/types.ts';
import type { TableToSum } from '../../port/refs.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { namesOf } from '../names.ts';
import { columnsBeforeAliases, readSettings } from '../query/statement_settings.ts';
import { qualifiedName, quoteIdentifier } from '../sql/identifiers.ts';

const copyMsMax = 24 * 3600 * 1000;
const settings = {
  ...columnsBeforeAliases,
  output_format_parquet_string_as_string: 1,
  output_format_parquet_compression_method: 'snappy',
  date_time_output_format: 'simple',
};

export async function writeCopy(
  { cluster }: WarehouseContext,
  { catalog, database, table, columns }: TableToSum,
  path: string,
  { signal, rowsMax }: { readonly signal: AbortSignal; readonly rowsMax?: number | undefined },
): Promise<void> {
  const name = { catalog: catalog.name, database, table };
  const from = qualifiedName(namesOf(name));
  const values = columns.map(({ name, type }) => `${stored(quoteIdentifier(name), type)} AS ${quoteIdentifier(name)}`);
  const limit = rowsMax === undefined ? '' : ` LIMIT ${rowsMax}`;
  const sql = `SELECT ${values.join(', ')} FROM ${from}${limit} FORMAT Parquet`;
  const write = async (server: ClickHouseServer) => {
    const stream = await server.stream({
      sql,
      settings: { ...settings, ...readSettings(cluster, server, [name]) },
      timeoutMs: copyMsMax,
      isOfCaller: true,
      signal,
    });
    await pipeline(stream, createWriteStream(path, { mode: 0o600 }), { signal });
  };
  await cluster.onAny(write, { isUnread: () => true });
}

function stored(column: string, { kind }: LogicalType): string {
  switch (kind) {
    case 'LARGEINT':
    case 'UUID':
    case 'DATETIME':
    case 'JSON':
      return `toString(${column})`;
    case 'TIMESTAMPTZ':
      return `concat(toString(${column}), '+00')`;
    case 'BINARY':
      return `base64Encode(toString(${column}))`;
    default:
      return column;
  }
}
