// Files that a server parses itself: the bytes of the file follow an INSERT that reads its columns as texts. Which rows do not fit, it cannot
// say (checked_rows.ts does).
import { type FileHandle, open } from 'node:fs/promises';
import { isNested, type LogicalType } from '../../../model/types.ts';
import type { CsvOptions } from '../../port/load.ts';
import type { ReportProgress } from '../../port/work.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import type { MappedColumn } from './column_mapping.ts';
import { hasByteOrderMark, isBigEndian } from './csv_records.ts';
import type { FileColumn, FileShape } from './file_shape.ts';
import type { ParquetColumn } from './parquet_columns.ts';
import type { RawColumn } from './row_values.ts';

export interface NativeSource {
  readonly from: string;
  readonly raws: readonly RawColumn[];
  readonly format: 'CSV' | 'JSONEachRow' | 'Parquet';
  readonly settings: Readonly<Record<string, string | number>>;
}

/** With which every statement of a load runs, so that it computes what text_values.ts says. */
export const computeSettings = {
  short_circuit_function_evaluation: 'enable',
  precise_float_parsing: 1,
  output_format_decimal_trailing_zeros: 0,
  date_time_output_format: 'simple',
  date_time_overflow_behavior: 'ignore',
  insert_null_as_default: 0,
  max_partitions_per_insert_block: 0,
} as const;

const readSettings = {
  ...computeSettings,
  input_format_null_as_default: 0,
  input_format_defaults_for_omitted_fields: 0,
  input_format_csv_empty_as_default: 0,
  input_format_csv_trim_whitespaces: 0,
  input_format_csv_allow_variable_number_of_columns: 0,
  input_format_skip_unknown_fields: 1,
  input_format_json_read_numbers_as_strings: 1,
  input_format_json_read_bools_as_strings: 1,
  input_format_json_read_arrays_as_strings: 1,
  input_format_json_read_objects_as_strings: 1,
  input_format_json_throw_on_bad_escape_sequence: 1,
} as const;

const isJsonOrNested = (type: LogicalType): boolean => isNested(type) || type.kind === 'JSON';
const usesExpressions = (mapped: readonly MappedColumn[]) => mapped.some(({ expression }) => expression !== undefined);

/** Undefined if the parser of the servers would not read the file as it is meant. */
export function nativeSource(
  shape: FileShape,
  mapped: readonly MappedColumn[],
  parquet: readonly ParquetColumn[],
): NativeSource | undefined {
  const { format } = shape.file;
  if (format === 'parquet') return parquetSource(parquet);
  return format === 'csv' ? csvSource(shape, mapped) : jsonSource(shape, mapped);
}

function csvSource({ csv, columns }: FileShape, mapped: readonly MappedColumn[]): NativeSource | undefined {
  const {
    delimiter = ',',
    quote = '"',
    escape: escaping = quote,
    comment = '',
    nullText = '',
    quotedNulls = true,
  } = csv;
  const isPlain = /^[\x20-\x7e\t]$/.test(delimiter) && /^["']$/.test(quote) && escaping === quote && comment === '';
  // What is above the rows is taken off by lines.
  const isHeaderOneLine = !csv.header || columns.every(({ name }) => !name.includes('\n'));
  if (!isPlain || !isHeaderOneLine || mapped.some(({ column, source }) => source && isNested(column.type)))
    return undefined;
  const raws = columns.map((file, i): RawColumn => {
    const form = quotedNulls
      ? ({ kind: 'text', nullText: quoteLiteral(nullText) } as const)
      : ({ kind: 'nullableText' } as const);
    return { name: quoteIdentifier(`_raw_${i}`), file, form };
  });
  const structure = raws.map(({ name }) => `${name} ${quotedNulls ? 'String' : 'Nullable(String)'}`);
  return {
    from: `input(${quoteLiteral(structure.join(', '))})`,
    raws,
    format: 'CSV',
    settings: {
      ...readSettings,
      format_csv_delimiter: delimiter,
      format_csv_allow_double_quotes: quote === '"' ? 1 : 0,
      format_csv_allow_single_quotes: quote === "'" ? 1 : 0,
      ...(quotedNulls ? {} : { format_csv_null_representation: nullText }),
    },
  };
}

/** A text cannot be distinguished from a number, an array or an object there. */
function jsonSource({ columns }: FileShape, mapped: readonly MappedColumn[]): NativeSource | undefined {
  const used = usesExpressions(mapped) ? columns : [];
  if (mapped.some(({ column, source }) => source && isJsonOrNested(column.type))) return undefined;
  if (used.some(({ type }) => isJsonOrNested(type))) return undefined;
  const files = new Map<string, FileColumn>(
    [...columns, ...mapped.flatMap(({ source }) => source ?? [])].map((file) => [file.name, file]),
  );
  const raws = [...files.values()].map(
    (file, i): RawColumn => ({
      name: quoteIdentifier(`_raw_${i}`),
      file,
      form: { kind: 'nullableText' },
    }),
  );
  const structure = raws.map(({ file }) => `${quoteIdentifier(file.name)} Nullable(String)`);
  const renamed = raws.map(({ name, file }) => `${quoteIdentifier(file.name)} AS ${name}`);
  return {
    from: `(SELECT ${renamed.join(', ')} FROM input(${quoteLiteral(structure.join(', '))}))`,
    raws,
    format: 'JSONEachRow',
    settings: readSettings,
  };
}

function parquetSource(parquet: readonly ParquetColumn[]): NativeSource {
  const raws = parquet.map(
    ({ name, type, isBytes }, i): RawColumn => ({
      name: quoteIdentifier(`_raw_${i}`),
      file: { name, type },
      form: { kind: 'value', type, isBytes },
    }),
  );
  const structure = parquet.map(({ name, serverType }) => `${quoteIdentifier(name)} ${serverType}`);
  const renamed = parquet.map(({ name }, i) => `${quoteIdentifier(name)} AS ${quoteIdentifier(`_raw_${i}`)}`);
  return {
    from: `(SELECT ${renamed.join(', ')} FROM input(${quoteLiteral(structure.join(', '))}))`,
    raws,
    format: 'Parquet',
    settings: { ...readSettings, date_time_overflow_behavior: 'throw' },
  };
}

const chunkBytes = 1024 * 1024;
/** A socket takes shorter chunks without having sent those before. */
const sentBytesMin = 256 * 1024;

/** Sends the bytes that the server gets: of CSV the rows without what is above them, in UTF-8. */
export async function withNativeData<T>(
  { file, csv }: FileShape,
  progress: ReportProgress | undefined,
  send: (data: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<T> {
  const opened = await open(file.path);
  try {
    const { size } = await opened.stat();
    const bytes = counted(chunksOf(opened), size, progress);
    const data =
      file.format === 'csv'
        ? belowHeader(inUtf8(bytes, csv), (csv.skipRows ?? 0) + (csv.header ? 1 : 0), csv.skipRows ?? 0)
        : bytes;
    return await send(withOwnShortChunks(data));
  } finally {
    await opened.close();
  }
}

/** In two buffers in turn: new memory for each chunk would cost several times as much as sending it. */
async function* chunksOf(file: FileHandle): AsyncGenerator<Buffer> {
  let [filled, spare] = [Buffer.allocUnsafeSlow(chunkBytes), Buffer.allocUnsafeSlow(chunkBytes)];
  let reading = file.read(filled, 0, chunkBytes);
  for (;;) {
    const { bytesRead } = await reading;
    if (bytesRead === 0) return;
    // While the other one is sent.
    reading = file.read(spare, 0, chunkBytes);
    reading.catch(() => undefined);
    yield filled.subarray(0, bytesRead);
    [filled, spare] = [spare, filled];
  }
}

async function* withOwnShortChunks(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) yield chunk.length < sentBytesMin ? Buffer.from(chunk) : chunk;
}

async function* counted(
  chunks: AsyncIterable<Buffer>,
  size: number,
  progress: ReportProgress | undefined,
): AsyncGenerator<Buffer> {
  let sent = 0;
  for await (const chunk of chunks) {
    sent += chunk.length;
    progress?.(size === 0 ? 1 : Math.min(1, sent / size));
    yield chunk;
  }
}

async function* inUtf8(chunks: AsyncIterable<Buffer>, { encoding = 'utf-8' }: CsvOptions): AsyncGenerator<Buffer> {
  let decoder: TextDecoder | undefined;
  let isFirst = true;
  for await (const chunk of chunks) {
    if (isFirst && encoding === 'utf-16') decoder = new TextDecoder(isBigEndian(chunk) ? 'utf-16be' : 'utf-16le');
    const bytes = isFirst && encoding === 'utf-8' && hasByteOrderMark(chunk) ? chunk.subarray(3) : chunk;
    isFirst = false;
    if (decoder) yield Buffer.from(decoder.decode(bytes, { stream: true }));
    else yield encoding === 'latin-1' ? Buffer.from(bytes.toString('latin1')) : bytes;
  }
}

const newline = 0x0a;

/** Without the first lines. Empty lines above the header do not count, except those that the caller counts. */
async function* belowHeader(chunks: AsyncIterable<Buffer>, lines: number, skipped: number): AsyncGenerator<Buffer> {
  let remaining = lines;
  let isLineEmpty = true;
  for await (const chunk of chunks) {
    let from = 0;
    while (remaining > 0 && from < chunk.length) {
      const end = chunk.indexOf(newline, from);
      const line = chunk.subarray(from, end < 0 ? chunk.length : end);
      if (line.length > 1 || (line.length === 1 && line[0] !== 0x0d)) isLineEmpty = false;
      if (end < 0) from = chunk.length;
      else {
        from = end + 1;
        const isCounted = remaining > lines - skipped || !isLineEmpty;
        if (isCounted) remaining--;
        isLineEmpty = true;
      }
    }
    if (from < chunk.length) yield from === 0 ? chunk : chunk.subarray(from);
  }
}
