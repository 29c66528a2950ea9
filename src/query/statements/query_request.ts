// What is asked of queries.ts, by whom, and what comes of it.
import type { StatementAnalysis, StatementParameters, StatementResult, WorkOptions } from '../../engines/engine.ts';
import type { ExportInto } from '../../engines/export.ts';
import type { RefusedCaller } from '../../engines/returns.ts';
import type { Actor, Principal } from '../../model/principal.ts';
import type { ResultSources } from '../results/result_access.ts';
import type { TaskStep } from '../task_step.ts';
import type { ExpectedStatement } from './plan_constraints.ts';
import type { QueryStatistics } from './query_lifecycle.ts';

export interface QueryRequest {
  readonly sql: string;
  readonly parameters?: StatementParameters | undefined;
  readonly rowsMax?: number | undefined;
  readonly numbers: 'number' | 'string';
  readonly catalog: string;
  readonly database?: string | undefined;
  readonly warehouse?: string | undefined;
  /** The rows go to files, and nowhere else. */
  readonly into?: ExportInto | undefined;
  /** No rows come back, but the engine's profile of how it ran. */
  readonly profile?: true | undefined;
  /** It must turn out to be this, and to write this alone: for statements that were put together from parts. */
  readonly only?: ExpectedStatement | undefined;
  /** Where the statement was put together: what from, without its parameters. It is what a task shows. */
  readonly asked?: object | undefined;
  /** Of a statement that began before it became a task: how the engine knows it; null: not at all, its commit was under way already. */
  readonly step?: string | null | undefined;
}

export interface QueryRun {
  readonly queryId: string;
  readonly kind: StatementAnalysis['kind'];
  readonly result: StatementResult;
  readonly statistics: QueryStatistics;
  /** The tables and views that it read. */
  readonly sources: ResultSources;
}

/** Who runs a statement: with which rights, and in which request. */
export interface Caller {
  readonly principal: Principal;
  readonly actor: Actor;
  readonly signal: AbortSignal;
  /** By what a warehouse knows again whom it refused; a task has none. */
  readonly caller?: RefusedCaller | undefined;
}

/**
 * `step`: makes a writing statement happen once however often it is run with it; null: one that writes may not be run again.
 * `becoming`: where the statement may become a task while it runs.
 */
export type RunCaller = Caller &
  WorkOptions & { readonly step?: string | null; readonly taskId?: string; readonly becoming?: TaskStep };
