// A statement of a caller in the form in which the servers run it: analysis/ makes it, and query/ runs it.
import type { TableName, TableRef } from '../../port/refs.ts';
import type { Statement, StatementAnalysis } from '../../port/statements.ts';
import type { ReportProgress } from '../../port/work.ts';
import type { WarehouseContext } from '../context.ts';

/** A column of a query. `type`: of the servers, such as `Nullable(Int32)`. */
export interface BoundColumn {
  readonly name: string;
  readonly type: string;
}

/** What a statement writes. Texts are those of the servers: names are stored names, parameters are `{name:Type}`. */
export type BoundWrite =
  | {
      readonly kind: 'insert';
      readonly table: TableRef;
      /** In the order of `query`. */
      readonly columns: readonly string[];
      /** A SELECT, or VALUES as a SELECT of them. */
      readonly query: string;
    }
  | {
      readonly kind: 'update';
      readonly table: TableRef;
      readonly set: readonly { readonly column: string; readonly value: string }[];
      readonly where: string;
    }
  | { readonly kind: 'delete'; readonly table: TableRef; readonly where: string };

/** A statement that writes, as it runs. */
export interface WriteRun<W extends BoundWrite> {
  readonly write: W;
  /** What its texts read; for UPDATE and DELETE, with the table itself. */
  readonly reads: readonly TableName[];
  readonly parameters: Readonly<Record<string, string>>;
  /** As `signal`, only while nothing is changed yet: what servers have changed of the rows they cannot undo. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Of the query of INSERT; for UPDATE and DELETE, of the parts with the rows. */
  readonly progress: ReportProgress | undefined;
  /** The step by which the rows are changed once; called before the first of them is. */
  readonly takeStep: () => string | undefined;
  /** Of the step that it had from the beginning; absent: nobody has begun its step before. */
  readonly attempt: string | undefined;
  readonly toFailure: BoundStatement['toFailure'];
}

export interface BoundStatement {
  readonly analysis: StatementAnalysis;
  /** The text of a SELECT; of a statement that writes, see `write`. */
  readonly sql: string;
  /** Values of the parameters in the texts. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly write?: BoundWrite;
  /** The failure of an error of a server: with the line and column in the text of the caller where the server names a position. */
  readonly toFailure: (error: unknown) => unknown;
}

/**
 * Binds a statement: names and functions are checked, and the analysis is that of the definitions as of now. Throws SQL_INVALID,
 * SQL_NOT_SUPPORTED, SQL_FORBIDDEN_FUNCTION or PARAMETERS_INVALID.
 */
export type BindStatement = (
  context: WarehouseContext,
  statement: Statement,
  options: { readonly signal: AbortSignal; readonly timeoutMs: number },
) => Promise<BoundStatement>;

/** A statement, bound to what its analysis found. */
export interface RememberedStatement {
  readonly bound: BoundStatement;
  /**
   * Asks whether that is still so, while the statement runs on this backend. Throws StaleAnalysis or LocalReadRefused if it is not: nothing that
   * the statement read may be passed on then. Undefined if it was found just now.
   */
  readonly confirm: ((backend: string) => Promise<void>) | undefined;
  /** If it reads a local table: binds it to the Distributed table, for a server on which the local one cannot be read instead. */
  readonly distributed?: () => Promise<RememberedStatement>;
}

/** The local table of a server cannot be read in place of the Distributed table that was analyzed. */
export class LocalReadRefused extends Error {
  override name = 'LocalReadRefused';
}
