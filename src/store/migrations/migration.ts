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
  /**
   * `expand`: it only adds tables, indexes, and columns that are null or have a default, and servers of the version before can use the store
   * after it. A number: it removes what servers below that version use (the contraction that follows an expansion in a later release).
   * Absent: only servers of its own version can use the store after it.
   */
  readonly servers?: 'expand' | number;
  up(db: Kysely<Schema>, types: ColumnTypes): Promise<void>;
}
