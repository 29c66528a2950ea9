// What the checksums of a table (model/table_checksum.ts) are computed of.
import type { ColumnDefinition } from '../../model/records.ts';
import type { TableRef } from '../port/refs.ts';

/** The table, and the columns whose checksums are wanted. */
export interface TableToSum extends TableRef {
  readonly columns: readonly ColumnDefinition[];
}
