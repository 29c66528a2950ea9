// The format of files with rows, as a body asks for it: with defaults, and without options that belong to another format.
import type { ExportFormat } from '../../engines/port/export.ts';
import {
  arrowCompressions,
  type exportFormats,
  parquetCompressions,
  textCompressions,
} from '../../model/export_formats.ts';
import { invalidParameter } from '../../standard/failure.ts';

export interface FormatFields {
  readonly format: (typeof exportFormats)[number];
  readonly compression?: string | undefined;
  readonly csv?: { readonly delimiter?: string; readonly header?: boolean; readonly nullText?: string } | undefined;
  readonly arrowLayout?: 'file' | 'stream' | undefined;
}

const wrongFormat = (pointer: string, format: string) =>
  invalidParameter(pointer, 'format', `is not for the format ${format}`);

/** Throws INVALID_PARAMETER unless an option belongs to the format. */
export function requireFormat(isRight: boolean, pointer: string, format: string): void {
  if (!isRight) throw wrongFormat(pointer, format);
}

/** Throws INVALID_PARAMETER for an option of another format. */
export function fileFormatOf({ format: kind, compression, csv, arrowLayout }: FormatFields): ExportFormat {
  requireFormat(csv === undefined || kind === 'csv', '/csv', kind);
  requireFormat(arrowLayout === undefined || kind === 'arrow', '/arrowLayout', kind);
  const compressionOf = <C extends string>(offered: readonly C[], byDefault: C): C => {
    const found = offered.find((name) => name === (compression ?? byDefault));
    if (found === undefined) throw wrongFormat('/compression', kind);
    return found;
  };
  switch (kind) {
    case 'parquet':
      return { kind, compression: compressionOf(parquetCompressions, 'snappy') };
    case 'csv': {
      const { delimiter = ',', header = true, nullText = '' } = csv ?? {};
      return { kind, compression: compressionOf(textCompressions, 'none'), delimiter, header, nullText };
    }
    case 'ndjson':
      return { kind, compression: compressionOf(textCompressions, 'none') };
    case 'arrow':
      return { kind, layout: arrowLayout ?? 'file', compression: compressionOf(arrowCompressions, 'none') };
  }
}
