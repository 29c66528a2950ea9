// Rows that are inserted, the steps that make an insert happen once, and pages of rows that are read.
import type { ColumnDefinition } from '../../model/records.ts';
import type { CatalogRef } from './refs.ts';

export interface RowsBatch {
  /** The columns that the rows provide; the other columns of the table get their defaults. */
  readonly columns: readonly ColumnDefinition[];
  /** JSON text: an array of arrays, in the order of `columns`, already validated and normalized (query/rows/row_validation.ts). */
  readonly json: string;
  readonly rowCount: number;
  /**
   * Present if only some rows provide a column that has a default: the rows that do not (they hold null there). `column` is an
   * index into `columns`.
   */
  readonly omitted?: readonly { readonly column: number; readonly rows: readonly number[] }[];
}

/** A `RowsBatch` in a file of this server's spool, as written by v8.serialize, so that an engine on this machine can read it itself. */
export interface StoredRows {
  readonly file: string;
  readonly rowCount: number;
}

/** A unique key that makes an insert happen only once. */
export interface InsertStep {
  readonly step: string;
  readonly rowCount: number;
}

export interface StepsPage {
  readonly catalog: CatalogRef;
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface CopiedSteps {
  readonly catalog: CatalogRef;
  readonly steps: readonly InsertStep[];
}

export interface RowsPage {
  readonly columns: readonly string[];
  /** The position of the last row of the previous page. */
  readonly after?: string | undefined;
  readonly limit: number;
}
