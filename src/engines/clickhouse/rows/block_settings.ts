// The settings with which all rows of an INSERT are one block, which a table stores whole or not at all, and once for its token.

/** More than a request can have. */
const blockRowsMax = 1_000_000_000;

export const blockSettings = (token: string) => ({
  insert_deduplicate: 1,
  insert_deduplication_token: token,
  max_insert_block_size: blockRowsMax,
  min_insert_block_size_rows: blockRowsMax,
  min_insert_block_size_bytes: 0,
  max_partitions_per_insert_block: 0,
});
