// Requests to run a statement, their callers and their results. See queries.ts.
import type { ExportInto } from '../../engines/port/export.ts';
import type {
  PageReady,
  StatementAnalysis,
  StatementParameters,
  StatementResult,
} from '../../engines/port/statements.ts';
import type { WorkOptions } from '../../engines/port/work.ts';
import type { RefusedCaller } from '../../engines/retry_queue.ts';
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
  /** Rows are written to files and not returned. */
  readonly into?: ExportInto | undefined;
  /** The engine's execution profile is returned instead of rows. */
  readonly profile?: true | undefined;
  /** For statements assembled from a request: the statement must be of this kind and write this table only. */
  readonly only?: ExpectedStatement | undefined;
  /** For statements assembled from a request: the request without its parameters, as a task shows it. */
  readonly asked?: object | undefined;
  /**
   * For a statement that became a task while it ran: the step by which the engine remembers it. Null: it has none, because its commit was
   * already under way.
   */
  readonly step?: string | null | undefined;
  /** Pages were sent while it ran: it is not run again. */
  readonly streamed?: true | undefined;
}

export interface QueryRun {
  readonly queryId: string;
  readonly kind: StatementAnalysis['kind'];
  readonly result: StatementResult;
  readonly statistics: QueryStatistics;
  /** The tables and views that the statement read. */
  readonly sources: ResultSources;
}

/** A statement that runs. `statistics`: so far. */
export type StartedRun = Pick<QueryRun, 'queryId' | 'sources' | 'statistics'>;

/** Receives the pages of a select while later ones are computed. */
export interface PageReceiver {
  add(page: PageReady, run: StartedRun): void;
  /** Called before each run of the statement. Throws if pages of an earlier run were passed on. */
  restart(): void;
  /** Whether pages were passed on, so that the statement cannot be run again. */
  readonly isTaken: boolean;
}

/** The caller of a statement: its rights and its request. */
export interface Caller {
  readonly principal: Principal;
  readonly actor: Actor;
  readonly signal: AbortSignal;
  /** Identifies a refused caller to the warehouse when it returns; absent for tasks. */
  readonly caller?: RefusedCaller | undefined;
}

/**
 * `queryId`: the id of the statement, where the caller chooses it.
 * `step`: runs a writing statement at most once across all runs with the same step; null: a writing statement must not be run again.
 * `taskStep`: set if the statement may become a task while it runs.
 */
export type RunCaller = Caller &
  WorkOptions & {
    readonly queryId?: string;
    readonly step?: string | null;
    readonly taskId?: string;
    readonly taskStep?: TaskStep;
    readonly pages?: PageReceiver | undefined;
  };
