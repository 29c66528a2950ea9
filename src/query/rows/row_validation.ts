// Validates JSON rows against the columns of a table. Every value is checked before an engine sees it, and violations are reported by row
// and column. The accepted values of each type are in model/values/value_validation.ts.
import type { RowsBatch } from '../../engines/port/rows.ts';
import type { ColumnDefinition } from '../../model/records.ts';
import { escapePointer } from '../../model/values/json_pointer.ts';
import { Fault, type ValueReader, valueReader } from '../../model/values/value_validation.ts';
import { Failure, type Violation, violationsMax } from '../../standard/failure.ts';

export interface RowReader {
  /**
   * @param rows objects by column name or arrays in the order of the columns, as parseJson gives them.
   * @throws Failure ROWS_INVALID with violations by index.
   */
  read(rows: readonly unknown[]): RowsBatch;
}

/** Compiles a reader for the columns of a table, to be used for every batch. */
export function rowReader(columns: readonly ColumnDefinition[]): RowReader {
  const cells = columns.map(compile);
  const names = new Set(columns.map((column) => column.name));
  return { read: (rows) => new Batch(columns, cells, names).read(rows) };
}

interface Cell {
  readonly name: string;
  readonly read: ValueReader;
  readonly nullable: boolean;
  readonly hasDefault: boolean;
  /** The column name exists on Object.prototype, such as `toString`: only own fields count. */
  readonly inherited: boolean;
}

function compile(column: ColumnDefinition): Cell {
  return {
    name: column.name,
    read: valueReader(column.type),
    nullable: column.nullable,
    hasDefault: column.defaultValue !== undefined,
    inherited: column.name in Object.prototype,
  };
}

class Batch {
  readonly #columns: readonly ColumnDefinition[];
  readonly #cells: readonly Cell[];
  readonly #names: ReadonlySet<string>;
  readonly #violations: Violation[] = [];
  #violationCount = 0;
  /** Indexes of the rows that omit a column, by column. */
  readonly #omitted: (number[] | undefined)[];

  constructor(columns: readonly ColumnDefinition[], cells: readonly Cell[], names: ReadonlySet<string>) {
    this.#columns = columns;
    this.#cells = cells;
    this.#names = names;
    this.#omitted = new Array(cells.length);
  }

  read(rows: readonly unknown[]): RowsBatch {
    const out: unknown[][] = new Array(rows.length);
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i];
      if (Array.isArray(row)) out[i] = this.#array(row, i);
      else if (typeof row === 'object' && row !== null && !JSON.isRawJSON(row)) {
        out[i] = this.#object(row as Record<string, unknown>, i);
      } else this.#violate(`/rows/${i}`, 'type', 'must be an object or an array');
    }
    if (this.#violationCount > 0) throw this.#failure();
    return this.#batch(out);
  }

  #array(row: readonly unknown[], index: number): unknown[] {
    const cells = this.#cells;
    if (row.length !== cells.length) {
      const message = `the row has ${row.length} values, the table has ${cells.length} columns`;
      this.#violate(`/rows/${index}`, 'length', message);
      return [];
    }
    const out: unknown[] = new Array(cells.length);
    for (let c = 0; c < cells.length; c++) {
      const cell = cells[c]!;
      const value = row[c];
      out[c] = value === null ? this.#null(cell, index, c) : this.#value(cell, value, index, c);
    }
    return out;
  }

  #object(row: Record<string, unknown>, index: number): unknown[] {
    const cells = this.#cells;
    const out: unknown[] = new Array(cells.length);
    let fieldCount = 0;
    for (let c = 0; c < cells.length; c++) {
      const cell = cells[c]!;
      const value = cell.inherited && !Object.hasOwn(row, cell.name) ? undefined : row[cell.name];
      if (value === undefined) {
        out[c] = this.#missing(cell, index, c);
        continue;
      }
      fieldCount++;
      out[c] = value === null ? this.#null(cell, index, cell.name) : this.#value(cell, value, index, cell.name);
    }
    const fields = Object.keys(row);
    if (fields.length !== fieldCount) {
      for (const name of fields) {
        if (this.#names.has(name)) continue;
        this.#violate(`/rows/${index}/${escapePointer(name)}`, 'unknownField', 'is not a column of the table');
      }
    }
    return out;
  }

  #value(cell: Cell, value: unknown, index: number, segment: string | number): unknown {
    const read = cell.read(value);
    if (typeof read === 'object' && read instanceof Fault) {
      const message = typeof segment === 'number' ? `column "${cell.name}": ${read.message}` : read.message;
      this.#violate(`/rows/${index}/${escapePointer(String(segment))}${read.pointer}`, read.rule, message);
    }
    return read;
  }

  #null(cell: Cell, index: number, segment: string | number): null {
    if (!cell.nullable) {
      const pointer = `/rows/${index}/${escapePointer(String(segment))}`;
      this.#violate(pointer, 'notNull', `column "${cell.name}" is not nullable`);
    }
    return null;
  }

  #missing(cell: Cell, index: number, column: number): null {
    if (!cell.nullable && !cell.hasDefault) {
      const message = `column "${cell.name}" is not nullable and has no default`;
      this.#violate(`/rows/${index}/${escapePointer(cell.name)}`, 'required', message);
    }
    const omitted = this.#omitted[column];
    if (omitted === undefined) this.#omitted[column] = [index];
    else omitted.push(index);
    return null;
  }

  #violate(pointer: string, rule: string, message: string): void {
    if (this.#violationCount++ < violationsMax) this.#violations.push({ pointer, rule, message });
  }

  #failure(): Failure {
    const count = this.#violationCount;
    return new Failure('ROWS_INVALID', 'the rows do not match the table; nothing was inserted', {
      violations: this.#violations,
      ...(count > violationsMax ? { violationCount: count } : {}),
    });
  }

  #batch(out: readonly unknown[][]): RowsBatch {
    const rowCount = out.length;
    // A column omitted by every row is dropped from the batch, so that the engine applies its default. At least one column must remain to
    // carry the rows.
    const included = this.#columns.flatMap((_, c) =>
      this.#omitted[c]?.length === rowCount && rowCount > 0 ? [] : [c],
    );
    if (included.length === 0) included.push(0);
    const isComplete = included.length === this.#columns.length;
    const omitted = included.flatMap((c, column) => {
      const rows = this.#omitted[c];
      return rows !== undefined && this.#cells[c]!.hasDefault ? [{ column, rows }] : [];
    });
    return {
      columns: isComplete ? this.#columns : included.map((c) => this.#columns[c]!),
      json: JSON.stringify(isComplete ? out : out.map((row) => included.map((c) => row[c]))),
      rowCount,
      ...(omitted.length > 0 ? { omitted } : {}),
    };
  }
}
