// Exports the rows of a SELECT, as a server streams them, to files. The directory gets its name when all files are complete.
import { mkdir, rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { ExecuteOptions, StatementResult } from '../../engine.ts';
import { type ExportInto, extensionOf, filesDirectory } from '../../export.ts';
import { cancelledFailure } from '../connection/clickhouse_error.ts';
import { RowLines } from '../query/row_lines.ts';
import { rowsRewriter } from '../types/json_rows.ts';
import { logicalTypeOf } from '../types/type_mapping.ts';
import { OutputFiles } from './output_files.ts';
import type { RowFiles } from './row_files.ts';
import { TextFiles } from './text_files.ts';
import { textRows } from './text_rows.ts';

type Options = Pick<ExecuteOptions, 'resultPath' | 'rowsMax' | 'signal'> & { readonly into: ExportInto };

/** In these formats, wide numbers become numbers of the format: they must not be rounded before. */
export const needsNumbersAsStrings = ({ format }: ExportInto): boolean =>
  format.kind === 'arrow' || format.kind === 'parquet';

/** Atomic: writes all files or none. Throws FILE_QUOTA_EXCEEDED, or SQL_INVALID for values that the format cannot hold. */
export async function exportRows(stream: Readable, options: Options): Promise<StatementResult> {
  const { into, resultPath, rowsMax, signal } = options;
  const final = filesDirectory(resultPath);
  const directory = `${final}.incomplete`;
  const output = new OutputFiles({ ...into, directory, extension: extensionOf(into.format) });
  const lines = new RowLines(rowsMax);
  let writer: RowWriter | undefined;
  try {
    await mkdir(directory, { mode: 0o700 });
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
      const added = lines.add(chunk as Buffer);
      if (lines.header) writer ??= await RowWriter.open(into, lines.header, output);
      if (added) await writer?.add(added.rows);
    }
    const header = lines.finish();
    writer ??= await RowWriter.open(into, header, output);
    await writer.finish();
    if (signal.aborted) throw cancelledFailure('notApplied');
    await rename(directory, final);
    return {
      columns: uniquelyNamed(header.columns),
      rowCount: lines.rowCount,
      truncated: lines.isTruncated,
      rows: { kind: 'text', text: '' },
      files: { format: into.format.kind, directory: final, entries: output.entries },
    };
  } catch (error) {
    const reason = (await errorAtEnd(stream)) ?? error;
    stream.destroy();
    await writer?.close();
    await output.close();
    for (const path of [directory, final]) await rm(path, { recursive: true, force: true });
    throw reason;
  }
}

/** A server writes an error after the rows, as text, which then cannot be read as rows. */
const errorTextBytesMax = 64 * 1024;

/** The error with which the stream ends, if it ends soon. */
async function errorAtEnd(stream: Readable): Promise<unknown> {
  let bytes = 0;
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length;
      if (bytes > errorTextBytesMax) return undefined;
    }
    return undefined;
  } catch (error) {
    return error;
  }
}

/** File formats require unique names of columns: `a`, `a_1`. */
function uniquelyNamed<C extends { readonly name: string }>(columns: readonly C[]): C[] {
  const used = new Set<string>();
  return columns.map((column) => {
    let name = column.name;
    for (let i = 1; used.has(name.toLowerCase()); i++) name = `${column.name}_${i}`;
    used.add(name.toLowerCase());
    return { ...column, name };
  });
}

type Header = ReturnType<RowLines['finish']>;

/** Turns rows of a server into those of the files. */
class RowWriter {
  readonly #rewrite: ReturnType<typeof rowsRewriter>;
  readonly #files: RowFiles;
  readonly #names: readonly string[];

  private constructor(rewrite: ReturnType<typeof rowsRewriter>, files: RowFiles, names: readonly string[]) {
    this.#rewrite = rewrite;
    this.#files = files;
    this.#names = names;
  }

  static async open({ format, fileBytesMax }: ExportInto, header: Header, output: OutputFiles): Promise<RowWriter> {
    const max = fileBytesMax ?? Number.POSITIVE_INFINITY;
    const { types } = header;
    const named = uniquelyNamed(header.columns);
    const columns = named.map(({ name }, i) => ({ name, logical: logicalTypeOf(types[i] as string) }));
    const names = columns.map(({ name }) => name);
    if (format.kind === 'csv' || format.kind === 'ndjson') {
      const files = new TextFiles(textRows(format, columns), format.compression, output, max);
      return new RowWriter(rowsRewriter(types, format.kind === 'csv' ? 'columns' : 'none'), files, names);
    }
    // The libraries are loaded only for these exports.
    const { ColumnarFiles, notExact } = await import('./columnar_files.ts');
    const logical = columns.map(({ name, logical }, i) => {
      if (!logical) throw notExact(name, `it has the type ${types[i]}; convert it in the statement`);
      return { name, logical };
    });
    return new RowWriter(rowsRewriter(types, 'all'), new ColumnarFiles(format, logical, output, max), names);
  }

  async add(rows: Buffer): Promise<void> {
    const rewritten = this.#rewrite ? this.#rewrite(rows) : rows;
    await this.#files.add(await this.#textOf(rewritten));
  }

  finish = (): Promise<void> => this.#files.finish();
  close = (): Promise<void> => this.#files.close();

  /** Throws SQL_INVALID if a text is not UTF-8. */
  async #textOf(rows: Buffer): Promise<string> {
    try {
      return utf8.decode(rows);
    } catch {
      const values = JSON.parse(`[${rows.toString().slice(0, -2)}]`) as unknown[][];
      const column = this.#names.find((_, i) => values.some((row) => JSON.stringify(row[i]).includes('\uFFFD')));
      const { notExact } = await import('./columnar_files.ts');
      throw notExact(column ?? '', 'it has bytes that are no text in UTF-8');
    }
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
