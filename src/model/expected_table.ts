// A table as the metadata store describes it, for the comparison with what an engine has.
import type { LogicalType } from './types.ts';

export interface ExpectedTable {
  readonly database: string;
  readonly table: string;
  readonly columns: readonly { readonly name: string; readonly type: LogicalType }[];
}
