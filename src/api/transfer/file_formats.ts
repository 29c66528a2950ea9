// The formats of files with the rows of a query, and how each can be compressed: for exports and for queries.
import { arrowCompressions, parquetCompressions, textCompressions } from '../../model/export_formats.ts';
import { oneOf } from '../fields.ts';

export const CompressionOfFiles = oneOf(
  [...new Set([...parquetCompressions, ...textCompressions, ...arrowCompressions])],
  {
    description:
      'The default is `snappy` for `parquet` (also `zstd`, `gzip`, `lz4`, `none`), and `none` for `csv` and `ndjson` (also `gzip`, `zstd`) and for `arrow` (also `zstd`, of each buffer).',
  },
);
