// The rows of a query as files of a format that others read: what the engine is asked for, and what it tells of them.

export const textCompressions = ['none', 'gzip', 'zstd'] as const;
export const parquetCompressions = ['snappy', 'zstd', 'gzip', 'lz4', 'none'] as const;

export type ExportFormat =
  | { readonly kind: 'parquet'; readonly compression: (typeof parquetCompressions)[number] }
  | {
      readonly kind: 'csv';
      readonly compression: (typeof textCompressions)[number];
      /** One character. */
      readonly delimiter: string;
      readonly header: boolean;
      /** What stands for null; a value that is the same is quoted. */
      readonly nullText: string;
    }
  | { readonly kind: 'ndjson'; readonly compression: (typeof textCompressions)[number] }
  /** `file`: with a footer, to be read at any place; `stream`: from its beginning. */
  | { readonly kind: 'arrow'; readonly layout: 'file' | 'stream' };

export interface ExportInto {
  readonly format: ExportFormat;
  /** A file that has become this large is ended, and the next begun. Absent: all in one file. */
  readonly fileBytesMax?: number | undefined;
  /** The files may not be larger together. Throws FILE_QUOTA_EXCEEDED. */
  readonly bytesMax?: number | undefined;
}

export interface ExportedFile {
  readonly name: string;
  readonly bytes: number;
  readonly rows: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

/** Files in a directory that the caller takes away. */
export interface ExportedFiles {
  readonly directory: string;
  readonly entries: readonly ExportedFile[];
}

/** Where they are, for a result at that path. */
export const filesDirectory = (resultPath: string): string => `${resultPath}.files`;

/** What the names of the files end with. */
export function extensionOf(format: ExportFormat): string {
  if (format.kind === 'arrow') return format.layout === 'file' ? 'arrow' : 'arrows';
  if (format.kind === 'parquet' || format.compression === 'none') return format.kind;
  return `${format.kind}.${format.compression === 'gzip' ? 'gz' : 'zst'}`;
}
