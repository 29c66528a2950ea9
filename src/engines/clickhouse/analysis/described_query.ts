// Reads statements with what the warehouse has learned about texts, and asks a server for the columns of a query.
import { formatType } from '../../../model/types.ts';
import type { DescribedColumn } from '../../port/statements.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { namesOf, parsedDatabase, parsedTable } from '../names.ts';
import type { BoundColumn } from '../query/bound_statement.ts';
import { logicalTypeOf } from '../types/type_mapping.ts';
import { type ReadStatement, StatementReader } from './statement_reader.ts';
import type { NameCodec } from './stored_objects.ts';
import { analysisSettings } from './tree_cache.ts';

const localSuffix = '__local';

export const codec: NameCodec = {
  stored: namesOf,
  named({ database, table }) {
    const parsed = parsedDatabase(database);
    return parsed && !table.endsWith(localSuffix) ? { ...parsed, table: parsedTable(table) } : undefined;
  },
};

/** One for each warehouse, because it keeps what it learned about texts. */
const readers = new WeakMap<WarehouseContext, StatementReader>();

export function readerOf(context: WarehouseContext): StatementReader {
  const known = readers.get(context);
  if (known) return known;
  const reader = new StatementReader(codec);
  readers.set(context, reader);
  return reader;
}

export const sourcesOf = ({ named }: ReadStatement) =>
  named.map(({ object, uses }) => ({ name: object.name, isView: object.viewQuery !== undefined, uses }));

export function describedColumn({ name, type }: BoundColumn): DescribedColumn {
  const logical = logicalTypeOf(type);
  return logical ? { name, type: formatType(logical), logical } : { name, type };
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
}

/** The columns of a query. The server runs its scalar subqueries, so that it must have been authorized. */
export async function describeQuery(
  server: ClickHouseServer,
  { query, rewritten, toFailure }: Pick<ReadStatement, 'query' | 'rewritten' | 'toFailure'>,
  options: CallOptions,
): Promise<readonly BoundColumn[]> {
  const prefix = 'DESCRIBE (\n';
  try {
    return await server.rows<BoundColumn>({
      sql: `${prefix}${query?.text ?? ''}\n)`,
      parameters: rewritten.parameters,
      settings: { ...analysisSettings, describe_compact_output: 1 },
      isOfCaller: true,
      ...options,
    });
  } catch (error) {
    throw toFailure(error, prefix);
  }
}
