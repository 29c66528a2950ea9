// The nouns of the warehouse as they are kept in the store and handed between rooms. What of them a caller sees, and how it
// is validated, is each category's file in resources/. Names are exact; ids never change and are never reused.
import type { LogicalType } from './types.ts';

export type Properties = Readonly<Record<string, string>>;

export interface CatalogSpec {
  readonly comment?: string;
  readonly properties?: Properties;
  /** The warehouse that keeps and computes this catalog's data: a warehouse's name. */
  readonly warehouse: string;
}

export interface DatabaseSpec {
  readonly comment?: string;
  readonly properties?: Properties;
}

/** A column as the engine realises it. */
export interface ColumnDefinition {
  readonly name: string;
  readonly type: LogicalType;
  readonly nullable: boolean;
  /** A SQL literal or expression text without column references, bound by the engine; absent: no default. */
  readonly defaultValue?: string;
}

export interface ColumnSpec extends ColumnDefinition {
  readonly comment?: string;
  /** Set once the column was changed after the table was made; until then its history is the table's. */
  readonly history?: {
    readonly createdAt: string;
    readonly createdBy: string;
    readonly updatedAt: string;
    readonly updatedBy: string;
    readonly version: number;
  };
}

/** What the engine must know of a table. */
export interface TableDefinition {
  readonly columns: readonly ColumnDefinition[];
  readonly primaryKey: readonly string[];
  /** The columns of one unique key besides the primary key; empty: none. */
  readonly uniqueKey: readonly string[];
}

export interface TableSpec extends TableDefinition {
  readonly columns: readonly ColumnSpec[];
  readonly comment?: string;
  readonly properties?: Properties;
  readonly orderBy: readonly string[];
  readonly partitionBy: readonly string[];
  readonly distribution: { readonly by: readonly string[]; readonly buckets: number };
  readonly replicationNum: number;
}

/** As the engine bound it; the type in its canonical form. */
export interface ViewColumn {
  readonly name: string;
  readonly type: string;
}

export interface ViewSpec {
  readonly comment?: string;
  readonly properties?: Properties;
  /** One query, as it was given. Names that are not whole are looked for in the view's database. */
  readonly sql: string;
  readonly columns: readonly ViewColumn[];
}

export interface TableStatistics {
  readonly rowCount: number;
  readonly dataBytes: number;
  /** RFC 3339; when the engine was last asked. */
  readonly asOf: string;
}

export interface WarehouseSpec {
  readonly engine: string;
  readonly comment?: string;
  readonly properties?: Properties;
  /** What the operator asked for; whether the processes are up is the supervisor's to say. */
  readonly suspended: boolean;
  readonly threads: number;
  readonly memoryLimitBytes: number;
  readonly spillLimitBytes: number;
  /** 0: never. */
  readonly autoSuspendSeconds: number;
  readonly autoResume: boolean;
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly statementTimeoutSeconds: number;
}

export interface BackendSpec {
  readonly disabled: boolean;
  readonly location: string;
  readonly comment?: string;
}
