// The type of a migration, and the column types that differ between dialects.
import type { ColumnDataType, ColumnDefinitionBuilder, Kysely, RawBuilder } from 'kysely';
import type { Schema } from '../schema.ts';

export interface ColumnTypes {
  /** Text that compares and sorts by code points. */
  readonly name: ColumnDataType | RawBuilder<unknown>;
  /** At least 53 bits. */
  readonly integer: ColumnDataType;
  readonly double: ColumnDataType;
  /** Makes an integer primary key be assigned by the database, always higher than ever before. */
  readonly increasing: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder;
}

export interface Migration {
  readonly name: string;
  up(db: Kysely<Schema>, types: ColumnTypes): Promise<void>;
}
