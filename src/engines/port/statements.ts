// Statements: their text, what they would do, how they are run, and their results.
import type { TableStructure } from '../../model/records.ts';
import type { LogicalType } from '../../model/types.ts';
import type { RecentBytes } from '../results/recent_blocks.ts';
import type { ExportedFiles, ExportInto } from './export.ts';
import type { CatalogRef, TableName, TableRef } from './refs.ts';
import type { WorkOptions } from './work.ts';

/** Positional, or named without the `$`. Values as returned by `parseJson`: JSON.rawJSON marks a number that a double cannot represent. */
export type StatementParameters = readonly unknown[] | Readonly<Record<string, unknown>>;

/** The SQL functions that return the caller. Only a statement whose text may call one of them is bound per caller. */
export const callerFunctions = ['current_role', 'current_user', 'session_user', 'user'] as const;

const callerFunctionPattern = new RegExp(String.raw`\b(?:${callerFunctions.join('|')})\b`, 'i');

/** True as well for a column, an alias or a string with such a name: only the engine's binder distinguishes them from calls. */
export const mayCallCallerFunction = (sql: string): boolean => callerFunctionPattern.test(sql);

export interface Statement {
  readonly sql: string;
  readonly parameters?: StatementParameters | undefined;
  /** Default namespace; without a database, unqualified table names do not resolve. */
  readonly catalog: CatalogRef;
  readonly database?: string | undefined;
  /** The value of `current_user`. Absent if the text calls none of `callerFunctions`, and in a view definition, which has no caller yet. */
  readonly caller?: string | undefined;
}

/** What a statement would do, derived from the engine's bound plan without running it. */
export interface StatementAnalysis {
  readonly kind: 'select' | 'insert' | 'update' | 'delete' | 'merge';
  /** Every table that the plan reads, including the tables under its views. Names as stored in the engine. */
  readonly reads: readonly TableName[];
  readonly writes: readonly TableName[];
  /** Every view that the plan expands, including views nested in other views. */
  readonly views: readonly TableName[];
  /** Opaque to callers: the version of the definitions that the statement was bound to. */
  readonly token: string;
}

/**
 * Thrown by `execute` if tables changed since the analysis identified by `token`, so that the statement might read or write other
 * tables than were authorized. Nothing was done; the caller analyzes and authorizes again.
 */
export class StaleAnalysis extends Error {
  override name = 'StaleAnalysis';
}

/** A fragment of SQL in a request, and its place in the request (a JSON pointer). */
export interface SqlFragment {
  readonly text: string;
  readonly pointer: string;
}

/** A change of rows that the engine turns into one statement. Columns are columns of the table, by their exact names. */
export type TableWrite =
  | {
      readonly kind: 'update';
      readonly table: TableRef;
      readonly set: readonly { readonly column: string; readonly value: SqlFragment }[];
      readonly where: SqlFragment;
    }
  | { readonly kind: 'delete'; readonly table: TableRef; readonly where: SqlFragment }
  | {
      readonly kind: 'insert';
      readonly table: TableRef;
      readonly columns?: readonly string[] | undefined;
      readonly query: SqlFragment;
    };

export interface BuiltStatement {
  readonly sql: string;
  /** The line of the statement at which each fragment begins. */
  readonly parts: readonly { readonly pointer: string; readonly line: number }[];
}

export interface ParsedCreateTable {
  /** As written: `c.d.t`, `d.t` or `t`; parts that are not written are absent. */
  readonly catalog?: string;
  readonly database?: string;
  readonly table: string;
  readonly ifNotExists: boolean;
  readonly definition: TableStructure;
}

export interface ExecuteOptions extends WorkOptions {
  /** The analysis by which the statement was authorized: StaleAnalysis is thrown if definitions changed since. */
  readonly analysis: StatementAnalysis;
  /** The result is truncated after this many rows (the statement itself is not changed). */
  readonly rowsMax?: number | undefined;
  /** `string`: 64-bit and wider integers and decimals as JSON strings (rest-standard B7). */
  readonly numbers: 'number' | 'string';
  readonly timeoutMs: number;
  /**
   * Absolute path without extension in the spool of this server, to which the adapter writes: a result larger than one page is written to
   * `<resultPath>.rows`.
   */
  readonly resultPath: string;
  readonly pageBytesMax: number;
  /**
   * For a statement that writes: a unique key. A second run with the same step does nothing and returns `repeated`. Read when the
   * statement is sent to the engine.
   */
  readonly step?: string | undefined;
  /** Whose statement it is: exports of different principals share an adapter's threads fairly. */
  readonly principalId?: string | undefined;
  /** The rows of a select are written only to files in `<resultPath>.files/`; `rows` is empty then. */
  readonly into?: ExportInto | undefined;
  /** Runs a select to its end with the engine's profiler: its rows are discarded, and `profile` contains the timings. */
  readonly profile?: boolean | undefined;
  /** Called for each page of a select but the last one. After an error, pages reported before it are void. */
  readonly onPage?: ((page: PageReady) => void) | undefined;
  /** If the statement takes at least this long, the result includes its plan. */
  readonly planAfterMs?: number | undefined;
}

/** A page of a result of which later pages are still computed. */
export interface PageReady {
  readonly columns: readonly ResultColumn[];
  /** The file with the rows, which is complete up to `end`, or has at least those before what is in `recent`. */
  readonly path: string;
  /** The rows that are in memory of this process; absent: all are in the file. */
  readonly recent?: RecentBytes;
  /** Where the page ends. It begins where the previous one ends. */
  readonly end: number;
  /** The number of the row after the page: how many rows this page and those before it have. */
  readonly endRow: number;
}

export interface ResultColumn {
  readonly name: string;
  readonly type: string;
}

/** `logical`: the logical type that can represent every value of the column; absent if there is none. */
export interface DescribedColumn extends ResultColumn {
  readonly logical?: LogicalType;
}

export interface StatementResult {
  readonly columns: readonly ResultColumn[];
  /** Rows returned by a select, or rows changed by DML. */
  readonly rowCount: number;
  /**
   * The rows as JSON arrays joined by `,\n`, ready for the wire. One page: the text itself. More: a file, and the byte offset and the row
   * at which each page begins (the last entries are the length of the file and the number of rows). Pages end with `,\n` in the file,
   * except the last.
   */
  readonly rows:
    | { readonly kind: 'text'; readonly text: string }
    | {
        readonly kind: 'file';
        readonly path: string;
        readonly offsets: readonly number[];
        readonly firstRows: readonly number[];
      };
  readonly truncated: boolean;
  readonly repeated?: boolean;
  /** The rows come from the RETURNING clause of a statement that writes. */
  readonly returned?: boolean;
  /** Present if an export was requested. */
  readonly files?: ExportedFiles;
  /** The engine's profile as JSON; present if requested. */
  readonly profile?: object;
  /** In the format of `explain`. */
  readonly plan?: string;
}
