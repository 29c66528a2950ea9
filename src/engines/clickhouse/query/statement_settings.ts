// The settings of statements of callers.
import type { WarehouseContext } from '../context.ts';

/** Longer than any text that a request can have. */
const queryBytesMax = 64 * 1024 * 1024;

/** The limits of the warehouse. */
export const limitSettings = ({ spec }: WarehouseContext) => ({
  max_threads: spec.threads,
  max_memory_usage: spec.memoryLimitBytes,
  max_query_size: queryBytesMax,
});

/** For statements that name what they compute: the columns of a table may have the same names. */
export const columnsBeforeAliases = { prefer_column_name_to_alias: 1 } as const;
