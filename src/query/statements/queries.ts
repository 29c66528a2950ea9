// Runs SQL: a statement becomes an authorized, bound plan, and the plan returns rows. Synchronous calls and tasks share one path:
// admission, analysis, authorization of every table of the plan, execution. Analyses are cached by text and namespace.
import type { Trail } from '../../access/audit/audit_log.ts';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Directory } from '../../access/authorization/directory.ts';
import { type IdempotencyKeys, keyedStep } from '../../access/idempotency_keys.ts';
import type { Quotas } from '../../access/limits/quotas.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import {
  type DescribedColumn,
  type EngineWarehouse,
  mayCallCallerFunction,
  type PageReady,
  StaleAnalysis,
  type Statement,
  type StatementAnalysis,
  type TableName,
} from '../../engines/engine.ts';
import { endedEngine } from '../../engines/engine_lost.ts';
import type { ViewReading } from '../../engines/views.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import { newId } from '../../model/ids.ts';
import type { Actor, Principal } from '../../model/principal.ts';
import type { CatalogSpec } from '../../model/records.ts';
import type { Observe } from '../../observe/observations.ts';
import type { Code } from '../../standard/codes.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import type { Segment } from '../../standard/paths.ts';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import { QueueCapacity } from '../queue_capacity.ts';
import type { ResultSources } from '../results/result_access.ts';
import type { QueryHistory } from './history.ts';
import type { NameVisibility } from './name_visibility.ts';
import { hiddenObject, requireAccess } from './plan_access.ts';
import { type ExpectedStatement, requireExpected, requireSelect } from './plan_constraints.ts';
import { QueryLifecycle } from './query_lifecycle.ts';
import type { Caller, QueryRequest, QueryRun, RunCaller, StartedRun } from './query_request.ts';
import { RetriedReads } from './retried_reads.ts';

export type { QueryStatistics } from './query_lifecycle.ts';
export type { Caller, QueryRequest, QueryRun } from './query_request.ts';

export interface QueriesOptions {
  readonly catalog: Catalog;
  readonly changes: Pick<ChangeFeed, 'follow'>;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly names: NameVisibility;
  readonly keys: Pick<IdempotencyKeys, 'retainStep'>;
  readonly caps: Pick<Quotas, 'startQuery' | 'waitForQuerySlot' | 'trackStatement' | 'requireResultQuota'>;
  readonly history: QueryHistory;
  readonly observe: Observe;
  /** Absolute. Results larger than one page are written here, to be removed by the caller. */
  readonly spoolDirectory: string;
  readonly pageBytesMax: number;
}

interface CachedAnalysis {
  readonly analysis: StatementAnalysis;
  /** Version of the catalog and of the rights at which `authorized` was filled. */
  version: string;
  /** Principals that may run the statement. */
  authorized: WeakSet<Principal>;
  /** The objects that the statement reads, as found when it was authorized. */
  sources: ResultSources;
}

/** Where a statement runs, and the warehouse of its catalog in the form in which access is decided. */
interface Namespace {
  readonly root: CatalogObject<CatalogSpec>;
  readonly database: CatalogObject | undefined;
  readonly target: Parameters<Authorizer['authorize']>[2];
}

/** A statement about to be executed. */
interface Run {
  readonly engine: EngineWarehouse;
  readonly warehouse: string;
  readonly statement: Statement;
  readonly analysis: StatementAnalysis;
  readonly queryId: string;
  readonly resultPath: string;
}

type Requester = Pick<Caller, 'principal' | 'signal'>;

/** Codes of an engine's errors about binding: their messages may reveal which objects exist. */
const bindingCodes: ReadonlySet<Code> = new Set<Code>([
  'SQL_INVALID',
  'SQL_NOT_SUPPORTED',
  'SQL_FORBIDDEN_FUNCTION',
  'PARAMETERS_INVALID',
  'CATALOG_DAMAGED',
]);
/** Syntax errors depend on the text alone and reveal nothing. */
const syntaxErrorPattern = /^(?:syntax error|unterminated|the text |a NUL |more than \d+ arrows)/;
/** Rendering a plan costs 1 to 2 ms, so plans are recorded only for statements slower than this. */
const planAfterMs = 250;
const cachedAnalysesMax = 2000;
const cachedNamespacesMax = 1000;
const toUse = { privilege: 'use', on: 'object' } as const;
const staleRetriesMax = 5;

export class Queries {
  readonly queueCapacity: QueueCapacity;
  readonly #options: QueriesOptions;
  readonly #analyses = new Map<string, CachedAnalysis>();
  /** Cleared by every change of an object. */
  readonly #namespaces = new Map<string, Namespace>();
  readonly #retriedReads = new RetriedReads();
  #generation = 0;

  constructor(options: QueriesOptions) {
    this.queueCapacity = new QueueCapacity(options);
    this.#options = options;
    const clear = () => {
      this.#generation++;
      this.#namespaces.clear();
    };
    options.changes.follow({
      changed: (change) => {
        if (change.kind === 'object') clear();
      },
      reload: clear,
    });
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
    const { statement, warehouse } = await this.#resolve(request, caller.principal);
    if (caller.taskId === undefined) await warehouses.requireQueueCapacity(warehouse, caller);
    const { queryId = newId() } = caller;
    const controller = new AbortController();
    const abort = () => controller.abort();
    caller.signal.addEventListener('abort', abort, { once: true });
    if (caller.signal.aborted) abort();
    const submitted = toSubmitted(request, caller, queryId, warehouse);
    let sources: ResultSources = [];
    const lifecycle = new QueryLifecycle(this.#options, submitted, abort);
    try {
      const admission = { ...toAdmissionRequest(caller), signal: controller.signal };
      const started = (bytes: number) => ({ queryId, sources, statistics: lifecycle.soFar(bytes) });
      const isKeyed = (caller.step ?? caller.actor.guard) !== undefined;
      warehouses.quarantine.require(warehouse, caller.principal.id, statement, isKeyed);
      const result = await warehouses.admit(warehouse, admission, async (engine, queuedMs, spec) => {
        lifecycle.begin(queuedMs);
        const work = () =>
          this.#withAuthorizedAnalysis(
            engine,
            statement,
            warehouse,
            admission,
            request.only,
            async (analysis, readSources) => {
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
                into: request.into,
                profile: request.profile,
                onPage: this.#receiverOf(caller, controller, started),
                planAfterMs,
                get step() {
                  return step();
                },
              });
              return execution.finally(end);
            },
          );
        return this.#retriedReads.run({
          warehouse,
          isRead: () => (lifecycle.kind === undefined || lifecycle.kind === 'select') && !caller.pages?.isTaken,
          awaitRevival: () => warehouses.use(warehouse),
          work,
          signal: controller.signal,
        });
      });
      const statistics = lifecycle.succeeded(result);
      this.#endAudit(lifecycle.kind, queryId, caller.actor, '0');
      return { queryId, kind: lifecycle.kind ?? 'select', result, statistics, sources };
    } catch (caught) {
      const run = { statement, warehouse, principal: caller.principal };
      const error = this.#quarantineIfCrashed(toStopReason(caught, controller.signal), run, lifecycle.kind);
      const code = error instanceof Failure ? error.code : 'INTERNAL_ERROR';
      this.#endAudit(lifecycle.kind, queryId, caller.actor, code);
      // The request that submitted the task was not refused, so nothing else audits this refusal.
      if (code === 'FORBIDDEN' && caller.taskId !== undefined)
        this.#options.trail.enqueue(caller.actor, { outcome: code, objectId: caller.taskId });
      throw lifecycle.failed(error);
    } finally {
      caller.signal.removeEventListener('abort', abort);
    }
  }

  /** A running statement belongs to a task from now on; null: it does not after all. */
  assignTask(queryId: string, taskId: string | null): void {
    this.#options.history.assignTask(queryId, taskId);
  }

  /** Passes pages on to the caller, and stops a statement whose result would exceed the quota of its principal. */
  #receiverOf({ principal, pages }: RunCaller, controller: AbortController, runAt: (bytes: number) => StartedRun) {
    const { caps } = this.#options;
    return (page: PageReady): void => {
      caps.requireResultQuota(principal.id, page.end).catch((reason) => controller.abort(reason));
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
  readView(request: QueryRequest & { readonly database: string }, caller: Caller): Promise<ViewReading> {
    return this.#inspect(request, caller, (engine, statement, { kind }) => {
      if (kind !== 'select') throw new Failure('SQL_NOT_SUPPORTED', 'only SELECT is allowed in a view');
      // The readers of a view differ from its creator, so functions about the caller are refused in views.
      return engine.readView({ ...statement, caller: undefined, database: statement.database ?? request.database });
    });
  }

  async #inspect<T>(
    request: QueryRequest,
    caller: Caller,
    work: (engine: EngineWarehouse, statement: Statement, analysis: StatementAnalysis) => Promise<T>,
  ): Promise<T> {
    const { statement, warehouse } = await this.#resolve(request, caller.principal);
    const { warehouses } = this.#options;
    const { principal } = caller;
    await warehouses.requireQueueCapacity(warehouse, caller);
    warehouses.quarantine.require(warehouse, principal.id, statement);
    const end = this.#options.caps.startQuery(principal.id);
    try {
      return await warehouses.admit(warehouse, caller, (engine) =>
        this.#retriedReads.run({
          warehouse,
          isRead: () => true,
          awaitRevival: () => warehouses.use(warehouse),
          work: () =>
            this.#withAuthorizedAnalysis(engine, statement, warehouse, caller, undefined, (analysis) =>
              work(engine, statement, analysis),
            ),
          signal: caller.signal,
        }),
      );
    } catch (error) {
      throw this.#quarantineIfCrashed(error, { statement, warehouse, principal }, 'select');
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

  #endAudit(kind: StatementAnalysis['kind'] | undefined, queryId: string, actor: Actor, outcome: Code | '0'): void {
    if (kind === undefined || kind === 'select') return;
    actor.audited = true;
    if (outcome === '0') actor.changed = true;
    this.#options.trail.enqueue(actor, { outcome, details: { queryId, kind } });
  }

  async #resolve(request: QueryRequest, principal: Principal): Promise<{ statement: Statement; warehouse: string }> {
    const key = JSON.stringify([request.catalog, request.database]);
    const { root, database, target } = this.#namespaces.get(key) ?? (await this.#namespaceOf(request, key));
    const { warehouse } = root.spec;
    if (request.warehouse !== undefined && request.warehouse !== warehouse) {
      const message = `catalog "${root.name}" belongs to warehouse "${warehouse}"; run the statement there`;
      throw invalidParameter('/warehouse', 'warehouse', message, message);
    }
    const decision = this.#options.authorizer.authorize(principal, toUse, target);
    if (decision instanceof Promise) await decision;
    const { sql, parameters } = request;
    return {
      statement: {
        sql,
        parameters,
        catalog: { id: root.id, name: root.name },
        database: database?.name,
        caller: mayCallCallerFunction(sql) ? principal.name : undefined,
      },
      warehouse,
    };
  }

  async #namespaceOf(request: QueryRequest, key: string): Promise<Namespace> {
    const generation = this.#generation;
    const path: Segment[] = [{ category: 'catalogs', name: request.catalog }];
    if (request.database !== undefined) path.push({ category: 'databases', name: request.database });
    const [root, database] = (await this.#options.catalog.require(path)) as [
      CatalogObject<CatalogSpec>,
      CatalogObject | undefined,
    ];
    const category = 'warehouses';
    const target = { category, path: [{ category, name: root.spec.warehouse }] };
    const namespace = { root, database, target };
    if (this.#namespaces.size >= cachedNamespacesMax) this.#namespaces.clear();
    if (generation === this.#generation) this.#namespaces.set(key, namespace);
    return namespace;
  }

  /** Analyzes, authorizes and runs the statement; repeats all three if the catalog changed in between. */
  async #withAuthorizedAnalysis<T>(
    engine: EngineWarehouse,
    statement: Statement,
    warehouse: string,
    requester: Requester,
    expected: ExpectedStatement | undefined,
    work: (analysis: StatementAnalysis, sources: ResultSources) => Promise<T>,
  ): Promise<T> {
    const { principal } = requester;
    const key = JSON.stringify([
      warehouse,
      statement.catalog.id,
      statement.catalog.name,
      statement.database,
      statement.sql,
      statement.caller,
      expected?.isNew,
    ]);
    for (let attempt = 0, skipCache = false; ; attempt++) {
      try {
        let cached = skipCache ? undefined : this.#analyses.get(key);
        const wasCached = cached !== undefined;
        if (!cached) {
          cached = {
            analysis: await this.#analyze(engine, statement, requester),
            version: '',
            authorized: new WeakSet(),
            sources: [],
          };
          this.#cacheAnalysis(key, cached);
        }
        const version = `${this.#generation} ${this.#options.directory.rightsVersion}`;
        if (cached.version !== version) {
          cached.version = version;
          cached.authorized = new WeakSet();
        }
        requireExpected(expected, cached.analysis);
        const { reads, writes, views } = cached.analysis;
        this.#options.catalog.requireNoOpenChange([...reads, ...writes, ...views].map(toNamePath));
        if (!cached.authorized.has(principal)) {
          const { authorized } = cached;
          const names = () => engine.tableNamesIn(statement.sql);
          try {
            cached.sources = await requireAccess(this.#options, cached.analysis, {
              principal,
              statement,
              names,
              expected,
            });
          } catch (error) {
            if (error instanceof Failure && error.code === 'SQL_INVALID')
              await this.#requireNotRenamed(statement, await names());
            // The refusal may rest on a stale analysis, of a view that has since been redefined. A new analysis also takes as long as one
            // of a missing object, which is never cached.
            if (!wasCached) throw error;
            skipCache = true;
            continue;
          }
          authorized.add(principal);
        }
        await this.#requireReplicas(cached.analysis, warehouse);
        return await this.#naming(cached.analysis, warehouse, work(cached.analysis, cached.sources));
      } catch (error) {
        if (!(error instanceof StaleAnalysis)) throw error;
        if (attempt >= staleRetriesMax)
          throw new Failure('WAREHOUSE_BUSY', 'the tables of the statement are being changed; retry later');
        this.#analyses.delete(key);
      }
    }
  }

  #cacheAnalysis(key: string, cached: CachedAnalysis): void {
    if (key.length > 20_000) return; // long texts are seldom repeated and would fill the memory
    if (this.#analyses.size >= cachedAnalysesMax) this.#analyses.delete(this.#analyses.keys().next().value as string);
    this.#analyses.set(key, cached);
  }

  /** Engine messages about names are returned only to callers who may see those objects; other callers get one uniform refusal. */
  async #analyze(engine: EngineWarehouse, statement: Statement, requester: Requester): Promise<StatementAnalysis> {
    try {
      return await engine.analyze(statement, requester);
    } catch (error) {
      if (!(error instanceof Failure) || !bindingCodes.has(error.code) || syntaxErrorPattern.test(error.message))
        throw error;
      const names = () => engine.tableNamesIn(statement.sql);
      // A name may be missing only because a change of the object was interrupted.
      this.#options.catalog.requireNoOpenChange(await names(), true);
      if (!(await this.#options.names.areVisibleTo(requester.principal, statement, names))) throw hiddenObject();
      await this.#requireNotRenamed(statement, await names());
      throw error;
    }
  }

  /** A name may also be missing because of a rename that is under way, or that finished after the namespace was resolved. */
  async #requireNotRenamed({ catalog, database }: Statement, names: readonly (readonly string[])[]): Promise<void> {
    const namespace = [catalog.name, ...(database === undefined ? [] : [database])];
    await this.#options.catalog.requireNotBeingRenamed([namespace, ...names]);
    await this.#options.catalog.require(
      namespace.map((name, n) => ({ category: n === 0 ? 'catalogs' : 'databases', name })),
    );
  }

  /** Where a read is the first to notice that a replica is lost, its refusal names the tables and tablets as later ones do. */
  async #naming<T>(analysis: StatementAnalysis, warehouse: string, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (error instanceof Failure && error.code === 'REPLICAS_UNAVAILABLE' && analysis.kind === 'select')
        await this.#requireReplicas(analysis, warehouse);
      throw error;
    }
  }

  async #requireReplicas(analysis: StatementAnalysis, warehouse: string): Promise<void> {
    const { warehouses } = this.#options;
    const tables = [...analysis.reads, ...analysis.writes].map(
      ({ catalog, database, table }) => `${catalog}.${database}.${table}`,
    );
    if (tables.length > 0) return warehouses.requireReplicas(warehouse, tables);
    if ((await warehouses.availableBackends(warehouse)) === 0)
      throw new Failure('NOT_ENOUGH_BACKENDS', 'the statement needs 1 backend and 0 are available', {
        needed: 1,
        available: 0,
      });
  }
}

const toNamePath = ({ catalog, database, table }: TableName): readonly string[] => [catalog, database, table];

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
