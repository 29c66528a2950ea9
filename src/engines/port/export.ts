// Export of the rows of a query to files in the spool of this server, which the adapter writes: the options and the result.

import type { arrowCompressions, parquetCompressions, textCompressions } from '../../model/export_formats.ts';

export type ExportFormat =
  | { readonly kind: 'parquet'; readonly compression: (typeof parquetCompressions)[number] }
  | {
      readonly kind: 'csv';
      readonly compression: (typeof textCompressions)[number];
      /** One character. */
      readonly delimiter: string;
      readonly header: boolean;
      /** The text that represents null; an equal value is quoted. */
      readonly nullText: string;
    }
  | { readonly kind: 'ndjson'; readonly compression: (typeof textCompressions)[number] }
  /** `file`: with a footer, for random access; `stream`: for sequential reading. */
  | {
      readonly kind: 'arrow';
      readonly layout: 'file' | 'stream';
      /** The compression of each buffer of a record batch. Absent in requests of earlier releases: none. */
      readonly compression?: (typeof arrowCompressions)[number];
    };

export interface ExportInto {
  readonly format: ExportFormat;
  /** A file that reaches this size is closed and the next one started. Absent: all rows in one file. */
  readonly fileBytesMax?: number | undefined;
  /** Limit of the total size of the files. Throws FILE_QUOTA_EXCEEDED. */
  readonly bytesMax?: number | undefined;
  /** Whether the files are flushed to the disk. Otherwise a crash of the operating system can truncate them, like the pages of a result. */
  readonly isDurable?: boolean;
}

export interface ExportedFile {
  readonly name: string;
  readonly bytes: number;
  readonly rows: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

/** Files in a directory that the caller removes. */
export interface ExportedFiles {
  readonly format: ExportFormat['kind'];
  readonly directory: string;
  readonly entries: readonly ExportedFile[];
}

/** The directory of the exported files of the result at this path. */
export const filesDirectory = (resultPath: string): string => `${resultPath}.files`;

/** The extension of the file names. */
export function extensionOf(format: ExportFormat): string {
  if (format.kind === 'arrow') return format.layout === 'file' ? 'arrow' : 'arrows';
  if (format.kind === 'parquet' || format.compression === 'none') return format.kind;
  return `${format.kind}.${format.compression === 'gzip' ? 'gz' : 'zst'}`;
}
