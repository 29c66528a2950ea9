// The settings with which every statement runs, whatever the profiles of a server say: exact values, no waiting for other inserts, one
// time zone. A setting is sent only to a server that has it.

const always: Readonly<Record<string, string | number>> = {
  output_format_json_quote_64bit_integers: 0,
  output_format_json_quote_decimals: 0,
  output_format_json_quote_64bit_floats: 0,
  output_format_json_quote_denormals: 1,
  output_format_json_escape_forward_slashes: 0,
  output_format_decimal_trailing_zeros: 1,
  output_format_json_named_tuples_as_objects: 1,
  output_format_json_map_as_array_of_tuples: 1,
  output_format_json_validate_utf8: 0,
  date_time_output_format: 'iso',
  session_timezone: 'UTC',
  // An error breaks the response instead of being a part of it.
  http_write_exception_in_output_format: 0,
  cancel_http_readonly_queries_on_client_close: 1,
  async_insert: 0,
  insert_distributed_sync: 1,
  // Longer than any text that a request can have, with what the adapter adds to it.
  max_query_size: 64 * 1024 * 1024,
  // Servers that are frozen accept connections and never answer.
  receive_timeout: 15,
  handshake_timeout_ms: 5000,
  // Otherwise rows are stored on any replica, and the server that was asked may get them later.
  prefer_localhost_replica: 1,
  // Otherwise rows that are selected from one Distributed table into another are not written by it: only one copy would have them.
  parallel_distributed_insert_select: 0,
  // Values that do not fit are refused, not cut.
  date_time_overflow_behavior: 'throw',
  // Null as in standard SQL.
  cast_keep_nullable: 1,
  join_use_nulls: 1,
  aggregate_functions_null_for_empty: 1,
  union_default_mode: 'DISTINCT',
  insert_null_as_default: 0,
  input_format_null_as_default: 0,
  // Without it, servers of 24.8 convert `5e-324` to 0.
  precise_float_parsing: 1,
  // JSON values of a Parquet file are read as their texts.
  input_format_parquet_enable_json_parsing: 0,
  // The tables of a join or of IN, whose rows are spread over the shards, are read whole and sent to each shard.
  distributed_product_mode: 'global',
  // A lost shard is a failure, never an answer with fewer rows.
  skip_unavailable_shards: 0,
  allow_experimental_variant_type: 1,
  allow_suspicious_variant_types: 1,
};

/** The comment by which the statements of a warehouse are found on a server, also on one that several warehouses share. */
export const commentOf = (warehouseId: string): string => `tabularium warehouse ${warehouseId}`;

/** `known`: the names of the settings of the server. `comment`: of the statements. */
export const settingsFor = (known: ReadonlySet<string>, comment = ''): ReadonlyMap<string, string> =>
  new Map(
    Object.entries({ ...always, log_comment: comment }).flatMap(([name, value]) =>
      known.has(name) ? [[name, String(value)] as const] : [],
    ),
  );
