// A table as described by the metadata store, for the comparison with the catalog file of an engine.
import type { LogicalType } from './types.ts';

export interface ExpectedTable {
  readonly database: string;
  readonly table: string;
  readonly columns: readonly { readonly name: string; readonly type: LogicalType }[];
}
