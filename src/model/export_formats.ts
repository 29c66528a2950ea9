// The file formats of an export, and how each can be compressed.

export const exportFormats = ['parquet', 'csv', 'ndjson', 'arrow'] as const;
export const textCompressions = ['none', 'gzip', 'zstd'] as const;
export const arrowCompressions = ['none', 'zstd'] as const;
export const parquetCompressions = ['snappy', 'zstd', 'gzip', 'lz4', 'none'] as const;
