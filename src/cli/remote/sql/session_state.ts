// The options of `sql`, and what an interactive session knows.
import type { CallOptions, Runtime } from '../call_options.ts';
import type { Connection } from '../connection.ts';
import type { StatementFormat } from './run_statement.ts';

export interface SqlOptions extends CallOptions {
  readonly command?: readonly string[];
  readonly file?: string;
  readonly catalog: string;
  readonly database?: string;
  readonly warehouse?: string;
  readonly format?: StatementFormat;
  readonly output?: string;
  readonly timing?: boolean;
}

/** What the shortcuts of a session can change. */
export interface Session {
  readonly connection: Connection;
  readonly runtime: Runtime;
  options: SqlOptions;
  isEnded: boolean;
}
