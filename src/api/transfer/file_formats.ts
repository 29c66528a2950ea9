// The formats of files with the rows of a query, and how each can be compressed: for exports and for queries.
import { arrowCompressions, parquetCompressions, textCompressions } from '../../model/export_formats.ts';
import { oneOf } from '../fields.ts';

export const CompressionOfFiles = oneOf(
  [...new Set([...parquetCompressions, ...textCompressions, ...arrowCompressions])],
  {
    description:
      'By default `snappy` for `parquet`, which also takes `zstd`, `gzip`, `lz4` and `none`; `none` for `csv` and `ndjson`, which also take `gzip` and `zstd`, and for `arrow`, which also takes `zstd` (of each buffer).',
  },
);
