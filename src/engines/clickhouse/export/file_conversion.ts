// Converts the rows of a server, as it streams them, to files; runs in a thread (conversion_thread.ts).
import { Failure } from '../../../standard/failure.ts';
import { type ExportInto, extensionOf } from '../../port/export.ts';
import { RowLines } from '../query/row_lines.ts';
import { type RowsRewriter, rowsRewriter } from '../types/json_rows.ts';
import { logicalTypeOf } from '../types/type_mapping.ts';
import type { ConversionRequest, ConvertedFiles } from './conversion.ts';
import { OutputFiles } from './output_files.ts';
import type { RowFiles } from './row_files.ts';
import { TextFiles } from './text_files.ts';
import { textRows } from './text_rows.ts';

/** Of the text of a row, which is in memory several times while it is converted. */
const rowBytesMax = 64 * 1024 * 1024;

type Header = ReturnType<RowLines['finish']>;

export class FileConversion {
  readonly #into: ExportInto;
  readonly #output: OutputFiles;
  readonly #lines: RowLines;
  #writer: RowWriter | undefined;

  constructor({ into, directory, rowsMax }: ConversionRequest) {
    this.#into = into;
    this.#output = new OutputFiles({ ...into, directory, extension: extensionOf(into.format) });
    this.#lines = new RowLines(rowsMax);
  }

  /** Throws FILE_QUOTA_EXCEEDED, MEMORY_LIMIT_EXCEEDED for a row that is too long, or SQL_INVALID for values that the format cannot hold. */
  async add(chunk: Buffer): Promise<void> {
    const added = this.#lines.add(chunk);
    if (this.#lines.pendingBytes > rowBytesMax)
      throw new Failure('MEMORY_LIMIT_EXCEEDED', `a row of the export is longer than ${rowBytesMax} bytes`);
    for (const { rows } of added) await (await this.#writerOf(this.#lines.header)).add(rows);
  }

  /** Throws if the rows are incomplete. */
  async finish(): Promise<ConvertedFiles> {
    const header = this.#lines.finish();
    await (await this.#writerOf(header)).finish();
    return {
      columns: uniquelyNamed(header.columns),
      rowCount: this.#lines.rowCount,
      truncated: this.#lines.isTruncated,
      entries: this.#output.entries,
    };
  }

  /** Must be called after errors. */
  async close(): Promise<void> {
    await this.#writer?.close();
    await this.#output.close();
  }

  async #writerOf(header: Header | undefined): Promise<RowWriter> {
    if (!header) throw new Error('rows precede the names of their columns');
    this.#writer ??= await RowWriter.open(this.#into, header, this.#output);
    return this.#writer;
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

/** Turns rows of a server into those of the files. */
class RowWriter {
  readonly #rewrite: RowsRewriter;
  readonly #files: RowFiles;
  readonly #names: readonly string[];

  private constructor(rewrite: RowsRewriter, files: RowFiles, names: readonly string[]) {
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
      return new RowWriter(
        rowsRewriter(types, { jsonTexts: format.kind === 'csv' ? 'columns' : 'none' }),
        files,
        names,
      );
    }
    // The libraries are loaded only for these exports.
    const { ColumnarFiles, notExact } = await import('./columnar_files.ts');
    const logical = columns.map(({ name, logical }, i) => {
      if (!logical) throw notExact(name, `it has the type ${types[i]}; convert it in the statement`);
      return { name, logical };
    });
    return new RowWriter(
      rowsRewriter(types, { jsonTexts: 'all' }),
      new ColumnarFiles(format, logical, output, max),
      names,
    );
  }

  async add(rows: Buffer): Promise<void> {
    await this.#files.add(await this.#textOf(this.#rewrite(rows).rows));
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
