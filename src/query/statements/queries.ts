// Runs SQL: a statement becomes an authorized, bound plan, and the plan returns rows. Synchronous calls and tasks share one path:
// admission, analysis, authorization of every table of the plan, execution; in another warehouse if the catalog is moved there meanwhile.
import type { Trail } from '../../access/audit/audit_log.ts';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Directory } from '../../access/authorization/directory.ts';
import { type IdempotencyKeys, keyedStep } from '../../access/idempotency_keys.ts';
import type { Quotas } from '../../access/limits/quotas.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { endedEngine } from '../../engines/engine_lost.ts';
import type { EngineWarehouse } from '../../engines/port/engine.ts';
import type { DescribedColumn, PageReady, Statement, StatementAnalysis } from '../../engines/port/statements.ts';
import type { ViewReading } from '../../engines/port/views.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import { newId } from '../../model/ids.ts';
import type { Actor, Principal } from '../../model/principal.ts';
import type { CatalogSpec } from '../../model/records.ts';
import type { Observe } from '../../observe/observations.ts';
import type { Code } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import { QueueCapacity } from '../queue_capacity.ts';
import type { ResultSources } from '../results/result_access.ts';
import type { ResultQuota } from '../results/result_quota.ts';
import { isWritten } from '../written_steps.ts';
import { AuthorizedAnalyses } from './authorized_analyses.ts';
import type { QueryHistory } from './history.ts';
import type { NameVisibility } from './name_visibility.ts';
import { Namespaces, type PlacedStatement } from './namespaces.ts';
import { requireSelect } from './plan_constraints.ts';
import { QueryLifecycle } from './query_lifecycle.ts';
import type { Caller, QueryRequest, QueryRun, RunCaller, StartedRun } from './query_request.ts';
import { RetriedReads } from './retried_reads.ts';

export type { QueryStatistics } from './query_lifecycle.ts';
export type { Caller, QueryRequest, QueryRun } from './query_request.ts';

export interface QueriesOptions {
  readonly catalog: Catalog;
  readonly changes: Pick<ChangeFeed, 'follow' | 'poll'>;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly names: NameVisibility;
  readonly keys: Pick<IdempotencyKeys, 'retainStep' | 'catalogOfStep'>;
  readonly caps: Pick<Quotas, 'startQuery' | 'waitForQuerySlot' | 'trackStatement'>;
  readonly quota: Pick<ResultQuota, 'ofGrowing'>;
  readonly history: QueryHistory;
  readonly observe: Observe;
  /** Absolute. Results larger than one page are written here, to be removed by the caller. */
  readonly spoolDirectory: string;
  readonly pageBytesMax: number;
}

/** Work on a statement that can be done again in another warehouse. */
interface MovableWork<T> {
  readonly work: (place: PlacedStatement) => Promise<T>;
  /** Called after the work failed. A write that reached the engine is not done again, because it may have been applied. */
  readonly isRead: () => boolean;
  readonly placeAgain: () => Promise<PlacedStatement>;
}

type Admitted = Parameters<Warehouses['admit']>[1] & Pick<Caller, 'principal'>;
type AdmittedWork<T> = (...admitted: Parameters<Parameters<Warehouses['admit']>[2]>) => Promise<T>;

/** A statement about to be executed. */
interface Run {
  readonly engine: EngineWarehouse;
  readonly warehouse: string;
  readonly statement: Statement;
  readonly analysis: StatementAnalysis;
  readonly queryId: string;
  readonly resultPath: string;
}

/** What a statement fails with if its catalog is no longer in the warehouse. */
const movedCodes: ReadonlySet<Code> = new Set<Code>(['SQL_INVALID', 'CHANGE_IN_PROGRESS']);
/** More moves than one while a statement waits are no accident. */
const movesMax = 3;
/** Rendering a plan costs 1 to 2 ms, so plans are recorded only for statements slower than this. */
const planAfterMs = 250;

export class Queries {
  readonly queueCapacity: QueueCapacity;
  readonly #options: QueriesOptions;
  readonly #namespaces: Namespaces;
  readonly #analyses: AuthorizedAnalyses;
  readonly #retriedReads = new RetriedReads();

  constructor(options: QueriesOptions) {
    this.queueCapacity = new QueueCapacity(options);
    this.#options = options;
    this.#namespaces = new Namespaces(options);
    this.#analyses = new AuthorizedAnalyses({ ...options, generation: () => this.#namespaces.generation });
  }

  /**
   * `step`: runs a writing statement at most once across all runs with the same step. A task waits for a free slot of its principal;
   * other callers are refused.
   */
  async run(request: QueryRequest, caller: RunCaller): Promise<QueryRun> {
    const { caps } = this.#options;
    const { id } = caller.principal;
    const end = caller.taskId === undefined ? caps.startQuery(id) : await caps.waitForQuerySlot(id, caller.signal);
    try {
      return await this.#run(request, caller);
    } finally {
      end();
    }
  }

  async #run(request: QueryRequest, caller: RunCaller): Promise<QueryRun> {
    const { spoolDirectory, pageBytesMax, warehouses, caps } = this.#options;
    let place = await this.#namespaces.place(request, caller.principal);
    if (caller.taskId === undefined) await warehouses.requireQueueCapacity(place.warehouse, caller);
    const { queryId = newId() } = caller;
    const controller = new AbortController();
    const abort = () => controller.abort();
    caller.signal.addEventListener('abort', abort, { once: true });
    if (caller.signal.aborted) abort();
    const submitted = toSubmitted(request, caller, queryId, place.warehouse);
    let sources: ResultSources = [];
    const lifecycle = new QueryLifecycle(this.#options, submitted, abort);
    const isRead = () => (lifecycle.kind === undefined || lifecycle.kind === 'select') && !caller.pages?.isTaken;
    const started = (bytes: number) => ({ queryId, sources, statistics: lifecycle.soFar(bytes) });
    const admission = { ...toAdmissionRequest(caller), signal: controller.signal };
    const isKeyed = (caller.step ?? caller.actor.guard) !== undefined;
    const runAt = ({ statement, warehouse }: PlacedStatement) => {
      warehouses.quarantine.require(warehouse, caller.principal.id, statement, isKeyed);
      return this.#admit(warehouse, admission, async (engine, queuedMs, spec) => {
        lifecycle.begin(queuedMs);
        const authorized = { engine, statement, warehouse, requester: admission, expected: request.only };
        const work = () =>
          this.#analyses.run(authorized, async (analysis, readSources) => {
            sources = readSources;
            lifecycle.analysed(analysis.kind);
            if (request.into || request.profile) requireSelect(analysis);
            await this.#beginAudit(analysis, queryId, caller.actor, request.only?.objectId);
            const resultPath = `${spoolDirectory}/${queryId}`;
            const step = await this.#stepFor({ engine, warehouse, statement, analysis, queryId, resultPath }, caller);
            const end = caps.trackStatement(caller.principal.id, warehouse, (reason) => controller.abort(reason));
            caller.pages?.restart();
            const execution = engine.execute(statement, {
              analysis,
              rowsMax: request.rowsMax,
              numbers: request.numbers,
              timeoutMs: spec.statementTimeoutSeconds * 1000,
              signal: controller.signal,
              progress: caller.progress,
              resultPath,
              pageBytesMax,
              principalId: caller.principal.id,
              into: request.into,
              profile: request.profile,
              onPage: this.#receiverOf(caller, controller, started),
              planAfterMs,
              get step() {
                return step();
              },
            });
            return execution.finally(end);
          });
        const awaitRevival = () => warehouses.use(warehouse);
        return this.#retriedReads.run({ warehouse, isRead, awaitRevival, work, signal: controller.signal });
      });
    };
    try {
      const result = await this.#followingMoves(place, {
        work: runAt,
        isRead,
        placeAgain: async () => {
          place = await this.#namespaces.place(request, caller.principal);
          lifecycle.moved(place.warehouse);
          return place;
        },
      });
      const statistics = lifecycle.succeeded(result);
      this.#endAudit(lifecycle.kind, queryId, caller.actor, '0');
      return { queryId, kind: lifecycle.kind ?? 'select', result, statistics, sources };
    } catch (caught) {
      const run = { ...place, principal: caller.principal };
      const error = this.#quarantineIfCrashed(toStopReason(caught, controller.signal), run, lifecycle.kind);
      this.#auditFailure(error, lifecycle.kind, queryId, caller);
      throw lifecycle.failed(error);
    } finally {
      caller.signal.removeEventListener('abort', abort);
    }
  }

  /** As the warehouse does; what its principal may use is checked again if that can have changed since the statement was placed. */
  #admit<T>(warehouse: string, request: Admitted, work: AdmittedWork<T>): Promise<T> {
    const { authorizer, warehouses } = this.#options;
    const { generation } = authorizer;
    return warehouses.admit(warehouse, request, async (...admitted) => {
      if (authorizer.generation !== generation) await authorizer.requireUse(request.principal, warehouse);
      return work(...admitted);
    });
  }

  /** Runs a statement where its catalog is: again if that was moved to another warehouse while the statement waited for its own. */
  async #followingMoves<T>(placed: PlacedStatement, { work, isRead, placeAgain }: MovableWork<T>): Promise<T> {
    let place = placed;
    for (let moves = 0; ; moves++) {
      try {
        return await work(place);
      } catch (error) {
        const mayBeLate = error instanceof Failure && movedCodes.has(error.code) && isRead() && moves < movesMax;
        if (!mayBeLate || !(await this.#namespaces.hasMoved(place))) throw error;
        place = await placeAgain();
      }
    }
  }

  /** A running statement belongs to a task from now on; null: it does not after all. */
  assignTask(queryId: string, taskId: string | null): void {
    this.#options.history.assignTask(queryId, taskId);
  }

  /** Passes pages on to the caller, and stops a statement whose result would exceed the quota of its principal. */
  #receiverOf({ principal, pages }: RunCaller, controller: AbortController, runAt: (bytes: number) => StartedRun) {
    const requireQuota = this.#options.quota.ofGrowing(principal.id);
    return (page: PageReady): void => {
      requireQuota(page.end).catch((reason) => controller.abort(reason));
      pages?.add(page, runAt(page.end));
    };
  }

  /** Returns the engine's plan as text, for a statement that the caller may run. Runs nothing. */
  explain(request: QueryRequest, caller: Caller): Promise<string> {
    return this.#inspect(request, caller, (engine, statement) => engine.explain(statement));
  }

  /** Returns the columns of a query that the caller may run. Runs nothing. Throws SQL_NOT_SUPPORTED if the statement is not a query. */
  describe(request: QueryRequest, caller: Caller): Promise<readonly DescribedColumn[]> {
    return this.#inspect(request, caller, (engine, statement, { kind }) => {
      if (kind !== 'select') throw new Failure('SQL_NOT_SUPPORTED', 'only SELECT is allowed here');
      return engine.describe(statement);
    });
  }

  /** Returns the definition of a view of the query in the database of the request. The caller must be allowed to run the query. */
  async readView(request: QueryRequest & { readonly database: string }, caller: Caller): Promise<ViewReading> {
    try {
      return await this.#inspect(request, caller, (engine, statement, { kind }) => {
        if (kind !== 'select') throw new Failure('SQL_NOT_SUPPORTED', 'only SELECT is allowed in a view');
        // The readers of a view differ from its creator, so functions about the caller are refused in views.
        return engine.readView({ ...statement, caller: undefined, database: statement.database ?? request.database });
      });
    } catch (error) {
      // An analysis may need values for parameters, and the definition of a view cannot have any.
      if (!(error instanceof Failure) || error.code !== 'PARAMETERS_INVALID') throw error;
      throw new Failure('SQL_NOT_SUPPORTED', 'a view cannot have parameters; write the values into its query');
    }
  }

  async #inspect<T>(
    request: QueryRequest,
    caller: Caller,
    work: (engine: EngineWarehouse, statement: Statement, analysis: StatementAnalysis) => Promise<T>,
  ): Promise<T> {
    const { warehouses } = this.#options;
    const { principal } = caller;
    let place = await this.#namespaces.place(request, principal);
    await warehouses.requireQueueCapacity(place.warehouse, caller);
    const end = this.#options.caps.startQuery(principal.id);
    const isRead = () => true;
    const inspectAt = ({ statement, warehouse }: PlacedStatement) => {
      warehouses.quarantine.require(warehouse, principal.id, statement);
      return this.#admit(warehouse, caller, (engine) =>
        this.#retriedReads.run({
          warehouse,
          isRead,
          awaitRevival: () => warehouses.use(warehouse),
          work: () =>
            this.#analyses.run({ engine, statement, warehouse, requester: caller }, (analysis) =>
              work(engine, statement, analysis),
            ),
          signal: caller.signal,
        }),
      );
    };
    const placeAgain = async () => {
      place = await this.#namespaces.place(request, principal);
      return place;
    };
    try {
      return await this.#followingMoves(place, { work: inspectAt, isRead, placeAgain });
    } catch (error) {
      throw this.#quarantineIfCrashed(error, { ...place, principal }, 'select');
    } finally {
      end();
    }
  }

  /**
   * Quarantines a statement that crashed its engine: later runs are refused, and a read that crashed it is answered with that refusal at
   * once.
   */
  #quarantineIfCrashed(
    error: unknown,
    { statement, warehouse, principal }: { statement: Statement; warehouse: string; principal: Principal },
    kind: StatementAnalysis['kind'] | undefined,
  ): unknown {
    if (!endedEngine(error)) return error;
    const isRead = kind === undefined || kind === 'select';
    const refusal = this.#options.warehouses.quarantine.add(warehouse, principal.id, statement, isRead);
    return isRead && (error as Failure).code === 'WAREHOUSE_FAILED' ? refusal : error;
  }

  /** Whether what an earlier run with this step wrote counts: then it is written whole now. */
  async hasWritten(step: string): Promise<boolean> {
    const { keys, catalog, warehouses } = this.#options;
    const catalogId = await keys.catalogOfStep(step);
    const root = catalogId === undefined ? undefined : await catalog.byId(catalogId);
    if (root?.category !== 'catalogs') return false;
    const { id, name, spec } = root as CatalogObject<CatalogSpec>;
    return isWritten(warehouses, { warehouse: spec.warehouse, catalog: { id, name } }, step);
  }

  /** Writes the audit record before the engine changes anything, because the transactions of the store do not cover the engine. */
  async #beginAudit(analysis: StatementAnalysis, queryId: string, actor: Actor, objectId?: string): Promise<void> {
    if (analysis.kind === 'select') return;
    const tables = analysis.writes.map(({ catalog, database, table }) => `${catalog}.${database}.${table}`);
    const details = { queryId, kind: analysis.kind, tables };
    await this.#options.trail.begin(actor, { objectId, details });
  }

  /**
   * Returns the step of a writing statement that belongs to a task or to a keyed request, as a function that is called when the engine
   * takes the statement.
   */
  async #stepFor(
    run: Run,
    { actor: { guard }, step: taskStepName, taskId, taskStep }: RunCaller,
  ): Promise<() => string | undefined> {
    if (run.analysis.kind === 'select') return () => undefined;
    if (taskStepName === null) {
      const message = 'the server stopped while the statement ran; whether it was applied is unknown';
      throw new Failure('TASK_INTERRUPTED', message, {}, { outcome: 'unknown' });
    }
    const { keys } = this.#options;
    const location = { warehouse: run.warehouse, catalogId: await this.#writtenCatalogId(run) };
    if (guard && taskStepName === undefined) {
      const step = keyedStep(guard);
      await keys.retainStep(step, location, { guard, queryId: run.queryId });
      return () => step;
    }
    const retain = (step: string) => keys.retainStep(step, { ...location, taskId: taskId ?? step });
    const recordStep = (assigned: string) => run.engine.recordStep(run.resultPath, assigned);
    const step = taskStepName ?? taskStep?.begin({ retain, recordStep });
    if (step !== undefined) await retain(step);
    return () => step ?? taskStep?.handOver();
  }

  /** The id of the catalog that the statement writes to, which can differ from the catalog that it was sent to. */
  async #writtenCatalogId({ analysis: { writes }, statement: { catalog } }: Run): Promise<string> {
    const name = writes[0]?.catalog;
    if (name === undefined || name === catalog.name) return catalog.id;
    return (await this.#options.catalog.require([{ category: 'catalogs', name }]))[0]?.id ?? catalog.id;
  }

  #auditFailure(
    error: unknown,
    kind: StatementAnalysis['kind'] | undefined,
    queryId: string,
    { actor, taskId }: RunCaller,
  ): void {
    const code = error instanceof Failure ? error.code : 'INTERNAL_ERROR';
    this.#endAudit(kind, queryId, actor, code);
    // The request that submitted the task was not refused, so nothing else audits this refusal.
    if (code === 'FORBIDDEN' && taskId !== undefined)
      this.#options.trail.enqueue(actor, { outcome: code, objectId: taskId });
  }

  #endAudit(kind: StatementAnalysis['kind'] | undefined, queryId: string, actor: Actor, outcome: Code | '0'): void {
    if (kind === undefined || kind === 'select') return;
    actor.audited = true;
    if (outcome === '0') actor.changed = true;
    this.#options.trail.enqueue(actor, { outcome, details: { queryId, kind } });
  }
}

/** A statement cancelled for exceeding a limit reports that limit, not a cancellation by its caller. */
function toStopReason(error: unknown, { reason }: AbortSignal): unknown {
  return error instanceof Failure && error.code === 'STATEMENT_CANCELLED' && reason instanceof Failure ? reason : error;
}

function toSubmitted(request: QueryRequest, caller: RunCaller, queryId: string, warehouse: string) {
  const { sql, catalog, database = null } = request;
  const { name: submittedBy, id: owner } = caller.principal;
  return { queryId, sql, warehouse, catalog, database, submittedBy, owner, taskId: caller.taskId ?? null };
}

const toAdmissionRequest = ({ principal, caller, taskId }: RunCaller) => ({
  principal,
  caller,
  isTask: taskId !== undefined,
});
