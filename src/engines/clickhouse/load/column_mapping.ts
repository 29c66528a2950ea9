// Maps the columns of a file to the columns of a table (engines/data_files/column_mapping.ts).
import type { TableDefinition } from '../../../model/records.ts';
import { type SourcedColumn, sourcedColumns } from '../../data_files/column_mapping.ts';
import type { LoadColumn } from '../../port/load.ts';
import type { FileColumn, FileShape } from './file_shape.ts';

export type MappedColumn = SourcedColumn<FileColumn>;

/** Throws DATA_INVALID or INVALID_PARAMETER if file and table do not match. */
export const mapColumns = (
  { file: { format }, columns }: FileShape,
  definition: Pick<TableDefinition, 'columns'>,
  requested: readonly LoadColumn[] | undefined,
): MappedColumn[] =>
  sourcedColumns(
    { format, columns, missing: (name): FileColumn => ({ name, type: { kind: 'STRING' } }) },
    definition,
    requested,
  );
