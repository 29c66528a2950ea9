// The rows of a request body before the table's columns are known. Implementations decide where the rows are parsed.
import { createHash } from 'node:crypto';
import type { RowsBatch, StoredRows } from '../../engines/port/rows.ts';
import type { ColumnDefinition } from '../../model/records.ts';
import { canonicalTexts } from '../../standard/json/canonical_json.ts';
import { type RowReader, rowReader } from './row_validation.ts';

export interface RowSource {
  /**
   * May be called again for the same columns, which have the same `version`. For other columns it may throw CHANGE_IN_PROGRESS.
   * @throws Failure ROWS_INVALID with violations by index.
   */
  read(columns: readonly ColumnDefinition[], version: string): Promise<RowsBatch | StoredRows>;
  /** SHA-256 of the canonical text of the rows. */
  digest(): Promise<string>;
}

export function isRowSource(value: unknown): value is RowSource {
  return typeof value === 'object' && value !== null && 'digest' in value && typeof value.digest === 'function';
}

export function digestOfRows(rows: readonly unknown[]): string {
  const hash = createHash('sha256');
  for (const text of canonicalTexts(rows)) hash.update(text);
  return hash.digest('hex');
}

const readersMax = 500;

/** Caches one compiled reader per version of a table. */
export class RowReaders {
  readonly #readers = new Map<string, RowReader>();

  readerOf(columns: readonly ColumnDefinition[], version: string): RowReader {
    let reader = this.#readers.get(version);
    if (!reader) {
      reader = rowReader(columns);
      if (this.#readers.size >= readersMax) this.#readers.delete(this.#readers.keys().next().value as string);
      this.#readers.set(version, reader);
    }
    return reader;
  }
}

const readers = new RowReaders();

/** Rows that were parsed on this thread. */
export class ParsedRows implements RowSource {
  readonly #rows: readonly unknown[];

  constructor(rows: readonly unknown[]) {
    this.#rows = rows;
  }

  async read(columns: readonly ColumnDefinition[], version: string): Promise<RowsBatch> {
    return readers.readerOf(columns, version).read(this.#rows);
  }

  async digest(): Promise<string> {
    return digestOfRows(this.#rows);
  }
}
