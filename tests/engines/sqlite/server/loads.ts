// Loads a file that the server streams, in one transaction with its step: rows are converted to the types of the columns, by name, from
// other columns or by expressions; rows that do not fit are rejected up to a limit.
import type { SQLOutputValue, StatementSync } from 'node:sqlite';
import type { FileLoad, FileLoadResult, LoadColumn } from '../../../../src/engines/port/load.ts';
import { foldName } from '../../../../src/model/names.ts';
import type { ColumnDefinition, TableDefinition } from '../../../../src/model/records.ts';
import { formatType } from '../../../../src/model/types.ts';
import { Fault } from '../../../../src/model/values/value_validation.ts';
import { Failure, invalidParameter } from '../../../../src/standard/failure.ts';
import type { Call } from './calls.ts';
import { createTable } from './changes.ts';
import {
  appliedStep,
  type Connection,
  fileName,
  findTable,
  RolledBack,
  recordStep,
  requireTable,
  type Writer,
} from './database.ts';
import { type FileContent, type FileRow, readFileRows } from './file_rows.ts';
import { dataInvalid, type RejectedRow, rejectedFailure } from './load_errors.ts';
import { type CompiledExpressions, compileExpressions } from './load_expressions.ts';
import { quoted } from './sql_text.ts';
import { constraintText } from './tables.ts';
import { encode, fromJson, fromText } from './values.ts';

/** The part of a load that crosses the connection; its file follows as a stream. */
export interface LoadCall extends Omit<FileLoad, 'file' | 'rejectsPath'> {
  readonly file: FileContent;
}

const rowsPerTurn = 1000;
const nothingElse = 'only the columns that the table and the file have in common are loaded';

export async function load(writer: Writer, work: LoadCall, call: Call): Promise<FileLoadResult> {
  try {
    return await writer.transaction(
      () => call.requireNotCancelled(),
      async (on) => {
        const applied = appliedStep(on, work.table.catalog, work.step);
        if (applied) return { rowsLoaded: applied.rowCount ?? 0, rowsRejected: 0, repeated: true };
        prepareTable(on, work);
        const result = await new Loading(on, work, call).run();
        if (work.dryRun) throw new RolledBack(result);
        recordStep(on, work.table.catalog, work.step, result.rowsLoaded);
        return result;
      },
    );
  } catch (error) {
    if (error instanceof RolledBack) return error.result as FileLoadResult;
    throw error;
  }
}

function prepareTable(on: Connection, { table, definition, isNewTable = false, mode }: LoadCall): void {
  if (mode === 'upsert' && definition.primaryKey.length === 0)
    throw invalidParameter('/mode', 'primaryKey', 'needs a table with a primary key');
  if (isNewTable && findTable(on, table)) throw new Failure('CHANGE_IN_PROGRESS', 'the table exists already');
  if (isNewTable) createTable(on, table, definition);
  if (mode === 'replace') on.db.exec(`DELETE FROM ${fileName(requireTable(on, table).id)}`);
}

/** Where the values of a column of the table come from. */
interface Source {
  readonly column: ColumnDefinition;
  /** The folded name of a column of the file. */
  readonly file?: string;
  /** The index of an expression. */
  readonly expression?: number;
}

class Loading {
  readonly #on: Connection;
  readonly #work: LoadCall;
  readonly #call: Call;
  readonly #table: string;
  readonly #rejected: RejectedRow[] = [];
  #sources: readonly Source[] = [];
  #expressions: CompiledExpressions | undefined;
  #insert: StatementSync | undefined;
  #rowsLoaded = 0;

  constructor(on: Connection, work: LoadCall, call: Call) {
    this.#on = on;
    this.#work = work;
    this.#call = call;
    this.#table = fileName(requireTable(on, work.table).id);
  }

  async run(): Promise<FileLoadResult> {
    const { file, definition, errorsMax } = this.#work;
    const { columns, rows } = await readFileRows(this.#call.input(), file, definition);
    if (columns) this.#setColumns(columns);
    let row = 0;
    for await (const read of rows) {
      row++;
      if (!this.#insert) this.#setColumns([...read.values.keys()]);
      const rejected = this.#load(read, row);
      if (rejected && this.#rejected.push(rejected) > errorsMax) throw rejectedFailure(rejected);
      if (row % rowsPerTurn === 0) await this.#call.turn();
    }
    this.#call.requireNotCancelled();
    for (const rejected of this.#rejected) await this.#call.send(`[${JSON.stringify(rejected)}]\n`);
    return { rowsLoaded: this.#rowsLoaded, rowsRejected: this.#rejected.length, repeated: false };
  }

  /** `columns`: those of the file, or of the first object. */
  #setColumns(columns: readonly string[]): void {
    const { definition, columns: mapped, mode, file } = this.#work;
    const known = new Map(definition.columns.map((column) => [foldName(column.name), column]));
    const inFile = columns.map(foldName);
    if (mapped) this.#sources = this.#mappedSources(mapped, columns, known);
    else if (file.format === 'csv') {
      this.#sources = columns.map((name) => {
        const column = known.get(foldName(name));
        if (!column)
          throw dataInvalid(`the table has no column ${JSON.stringify(name)}: ${nothingElse}`, { column: name });
        return { column, file: foldName(name) };
      });
    } else {
      const other = inFile.find((name) => !known.has(name));
      if (other !== undefined) throw dataInvalid(`the table has no column ${JSON.stringify(other)}`, { column: other });
      this.#sources = definition.columns.map((column) => ({ column, file: foldName(column.name) }));
    }
    const names = this.#sources.map(({ column }) => quoted(column.name));
    const marks = names.map(() => '?').join(', ');
    const upsert = mode === 'upsert' ? upsertClause(names, definition) : '';
    const into = `INSERT INTO ${this.#table} (${names.join(', ')}) VALUES (${marks})`;
    this.#insert = this.#on.db.prepare(`${into}${upsert}`);
  }

  #mappedSources(
    mapped: readonly LoadColumn[],
    columns: readonly string[],
    known: ReadonlyMap<string, ColumnDefinition>,
  ): Source[] {
    const expressions = mapped.flatMap(({ expression }, i) =>
      expression === undefined ? [] : [{ expression, pointer: `/columns/${i}/expression` }],
    );
    this.#expressions = compileExpressions(this.#on, expressions, columns);
    let next = 0;
    return mapped.map(({ name, source = name, expression }, i) => {
      const column = known.get(foldName(name));
      if (!column) throw invalidParameter(`/columns/${i}/name`, 'column', 'is not a column of the table');
      if (expression !== undefined) return { column, expression: next++ };
      if (!columns.some((inFile) => foldName(inFile) === foldName(source)))
        throw invalidParameter(`/columns/${i}/source`, 'column', 'is not a column of the file');
      return { column, file: foldName(source) };
    });
  }

  /** Returns why the row is rejected, or undefined. */
  #load({ values, text, fault }: FileRow, row: number): RejectedRow | undefined {
    if (fault) return { row, ...fault, text };
    const computed = this.#expressions?.run(values) ?? [];
    if (computed instanceof Fault) return { row, column: null, reason: computed.message, text };
    const stored: SQLOutputValue[] = [];
    for (const { column, file, expression } of this.#sources) {
      const value = expression === undefined ? values.get(file ?? '') : computed[expression];
      const read = this.#read(column, value ?? null);
      if (read instanceof Fault) return { row, column: column.name, reason: read.message, text };
      stored.push(encode(column.type, read));
    }
    try {
      this.#insert?.run(...stored);
      this.#rowsLoaded++;
      return undefined;
    } catch (error) {
      throw new Failure('CONSTRAINT_VIOLATED', `row ${row}: ${constraintText(error)}; nothing was loaded`, { row });
    }
  }

  #read(column: ColumnDefinition, value: unknown): unknown {
    if (value === null) return column.nullable ? null : new Fault('notNull', 'the column is not nullable');
    const { csv, format } = this.#work.file;
    if (format !== 'csv' || typeof value !== 'string') {
      const isText = typeof value === 'string' || column.type.kind === 'JSON';
      return isText || !isTextType(column) ? fromJson(column.type, value) : fromText(column.type, String(value));
    }
    const { dateFormat, timestampFormat, decimalSeparator } = csv;
    if (column.type.kind === 'DATE' && dateFormat !== undefined) return fromFormat(column, value, dateFormat);
    if (/^(?:DATETIME|TIMESTAMPTZ)$/.test(column.type.kind) && timestampFormat !== undefined)
      return fromFormat(column, value, timestampFormat);
    const isNumber = decimalSeparator === ',' && /^(?:DECIMAL|FLOAT|DOUBLE)$/.test(column.type.kind);
    return fromText(column.type, isNumber ? value.replace(',', '.') : value);
  }
}

const isTextType = ({ type }: ColumnDefinition): boolean => /^(?:STRING|CHAR|VARCHAR)$/.test(type.kind);

function upsertClause(names: readonly string[], { primaryKey }: TableDefinition): string {
  const key = primaryKey.map(quoted);
  const others = names.filter((name) => !key.includes(name));
  const set = others.map((name) => `${name} = excluded.${name}`).join(', ');
  return ` ON CONFLICT (${key.join(', ')}) DO ${set === '' ? 'NOTHING' : `UPDATE SET ${set}`}`;
}

const directives: Readonly<Record<string, string>> = {
  Y: '(?<Y>\\d{4})',
  m: '(?<m>\\d{1,2})',
  d: '(?<d>\\d{1,2})',
  H: '(?<H>\\d{1,2})',
  M: '(?<M>\\d{1,2})',
  S: '(?<S>\\d{1,2})',
  f: '(?<f>\\d{1,6})',
};

/** A date or time in a format of strptime. */
function fromFormat({ type }: ColumnDefinition, text: string, format: string): unknown {
  const escaped = format.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const pattern = escaped.replaceAll(/%(\w)/g, (_, directive: string) => {
    const known = directives[directive];
    if (known === undefined) throw invalidParameter('/csv', 'format', `%${directive} is not supported by the engine`);
    return known;
  });
  const parts = new RegExp(`^${pattern}$`).exec(text)?.groups;
  if (!parts) return new Fault('format', `must be ${formatType(type)} in the format ${format}`);
  const two = (name: string) => (parts[name] ?? '').padStart(2, '0');
  const date = `${parts.Y}-${two('m')}-${two('d')}`;
  if (type.kind === 'DATE') return fromText(type, date);
  const fraction = parts.f === undefined ? '' : `.${parts.f}`;
  const zone = type.kind === 'TIMESTAMPTZ' ? 'Z' : '';
  return fromText(type, `${date}T${two('H')}:${two('M')}:${two('S')}${fraction}${zone}`);
}
