// SQL in → authorised bound plan → rows out. One path for a call that waits and for a task that does not: admit, analyse,
// authorise every table of the plan, execute. What is slow to find out is remembered by text and namespace.
import type { Trail } from '../../access/audit/audit_log.ts';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Directory } from '../../access/authorization/directory.ts';
import { type IdempotencyKeys, keyedStep } from '../../access/idempotency_keys.ts';
import type { Quotas } from '../../access/limits/quotas.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { mayCallCallerFunction } from '../../engines/caller_functions.ts';
import {
  type DescribedColumn,
  type EngineWarehouse,
  StaleAnalysis,
  type Statement,
  type StatementAnalysis,
  type TableName,
} from '../../engines/engine.ts';
import { endedEngine } from '../../engines/engine_lost.ts';
import type { ViewReading } from '../../engines/views.ts';
import type { Warehouses } from '../../engines/warehouses.ts';
import { newId } from '../../model/ids.ts';
import type { Actor, Principal } from '../../model/principal.ts';
import type { CatalogSpec } from '../../model/records.ts';
import type { Observe } from '../../observe/observations.ts';
import type { Code } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import type { Segment } from '../../standard/paths.ts';
import { QueuePlaces } from '../queue_places.ts';
import type { ResultSources } from '../results/result_access.ts';
import type { QueryHistory } from './history.ts';
import type { NameVisibility } from './name_visibility.ts';
import { hiddenObject, requireAccess } from './plan_access.ts';
import { type ExpectedStatement, requireExpected, requireReading } from './plan_constraints.ts';
import { QueryLifecycle } from './query_lifecycle.ts';
import type { Caller, QueryRequest, QueryRun, RunCaller } from './query_request.ts';
import { LostReads } from './retried_reads.ts';

export type { QueryStatistics } from './query_lifecycle.ts';
export type { Caller, QueryRequest, QueryRun } from './query_request.ts';

export interface QueriesOptions {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly names: NameVisibility;
  readonly keys: Pick<IdempotencyKeys, 'retainStep'>;
  readonly caps: Pick<Quotas, 'startQuery' | 'waitForQuerySlot' | 'trackStatement'>;
  readonly history: QueryHistory;
  readonly observe: Observe;
  /** Absolute; results that do not fit one page are left here, to be taken away by who asked. */
  readonly spoolDirectory: string;
  readonly pageBytesMax: number;
}

interface Known {
  readonly analysis: StatementAnalysis;
  /** Of the catalog and the rights, when `authorised` was begun. */
  version: string;
  /** Who may run it. */
  authorised: WeakSet<Principal>;
  /** What it reads, as found when it was authorised. */
  sources: ResultSources;
}

/** A statement on its way to the engine. */
interface Run {
  readonly engine: EngineWarehouse;
  readonly warehouse: string;
  readonly statement: Statement;
  readonly analysis: StatementAnalysis;
  readonly queryId: string;
  readonly resultPath: string;
}

type PrincipalTurn = Pick<Caller, 'principal' | 'signal'>;

/** What an engine says of a statement that it has bound, or could not: it may tell what exists. */
const ofBinding: ReadonlySet<Code> = new Set<Code>([
  'SQL_INVALID',
  'SQL_NOT_SUPPORTED',
  'SQL_FORBIDDEN_FUNCTION',
  'PARAMETERS_INVALID',
  'CATALOG_DAMAGED',
]);
/** Faults of the text alone, which tell of nothing that exists. */
const aboutSyntax = /^(?:syntax error|unterminated|the text |a NUL |more than \d+ arrows)/;
/** To make a plan costs a millisecond or two: of statements that take no longer than this, it is made when somebody asks. */
const planAfterMs = 250;
const knownMax = 2000;
const staleRetriesMax = 5;

export class Queries {
  readonly places: QueuePlaces;
  readonly #options: QueriesOptions;
  readonly #known = new Map<string, Known>();
  readonly #lost = new LostReads();
  #generation = 0;

  constructor(options: QueriesOptions) {
    this.places = new QueuePlaces(options);
    this.#options = options;
    options.catalog.onChange(() => {
      this.#generation++;
    });
  }

  /** `step`: makes a writing statement happen once however often it is run with it. A task's waits for room, others are refused. */
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
    const { statement, warehouse } = await this.#place(request, caller.principal);
    if (caller.taskId === undefined) await warehouses.requirePlace(warehouse, caller);
    const queryId = newId();
    const controller = new AbortController();
    const abort = () => controller.abort();
    caller.signal.addEventListener('abort', abort, { once: true });
    if (caller.signal.aborted) abort();
    const { sql, catalog, database = null } = request;
    const submitted = {
      queryId,
      sql,
      warehouse,
      catalog,
      database,
      submittedBy: caller.principal.name,
      owner: caller.principal.id,
      taskId: caller.taskId ?? null,
    };
    let sources: ResultSources = [];
    const course = new QueryLifecycle(this.#options, submitted, abort);
    try {
      const turn = { principal: caller.principal, signal: controller.signal, caller: caller.caller };
      const isKeyed = (caller.step ?? caller.actor.guard) !== undefined;
      warehouses.quarantine.require(warehouse, caller.principal.id, statement, isKeyed);
      const result = await warehouses.admit(warehouse, turn, async (engine, queuedMs, spec) => {
        course.begin(queuedMs);
        const work = () =>
          this.#authorised(engine, statement, warehouse, turn, request.only, async (analysis, read) => {
            sources = read;
            course.analysed(analysis.kind);
            if (request.into || request.profile) requireReading(analysis);
            await this.#announce(analysis, queryId, caller.actor, request.only?.objectId);
            const resultPath = `${spoolDirectory}/${queryId}`;
            const step = await this.#stepOf({ engine, warehouse, statement, analysis, queryId, resultPath }, caller);
            const end = caps.trackStatement(caller.principal.id, warehouse, (why) => controller.abort(why));
            const executing = engine.execute(statement, {
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
              planAfterMs,
              get step() {
                return step();
              },
            });
            return executing.finally(end);
          });
        return this.#lost.run({
          warehouse,
          isRead: () => course.kind === undefined || course.kind === 'select',
          revived: () => warehouses.use(warehouse),
          work,
          signal: controller.signal,
        });
      });
      const statistics = course.succeeded(result);
      this.#conclude(course.kind, queryId, caller.actor, '0');
      return { queryId, kind: course.kind ?? 'select', result, statistics, sources };
    } catch (thrown) {
      const run = { statement, warehouse, principal: caller.principal };
      const error = this.#blamed(whyStopped(thrown, controller.signal), run, course.kind);
      const code = error instanceof Failure ? error.code : 'INTERNAL_ERROR';
      this.#conclude(course.kind, queryId, caller.actor, code);
      // The request that asked for the task was not refused: nobody else tells of it.
      if (code === 'FORBIDDEN' && caller.taskId !== undefined)
        this.#options.trail.enqueue(caller.actor, { outcome: code, objectId: caller.taskId });
      throw course.failed(error);
    } finally {
      caller.signal.removeEventListener('abort', abort);
    }
  }

  /** The engine's plan as text, for a statement that the caller may run. Runs nothing. */
  explain(request: QueryRequest, caller: Caller): Promise<string> {
    return this.#look(request, caller, (engine, statement) => engine.explain(statement));
  }

  /** The columns of a query that the caller may run. Runs nothing. Throws SQL_NOT_SUPPORTED for what is no query. */
  describe(request: QueryRequest, caller: Caller): Promise<readonly DescribedColumn[]> {
    return this.#look(request, caller, (engine, statement, { kind }) => {
      if (kind !== 'select')
        throw new Failure('SQL_NOT_SUPPORTED', 'a query is taken here, not a statement that writes');
      return engine.describe(statement);
    });
  }

  /** What a view of the query, in the database of the request, would be. The caller may run the query. */
  readView(request: QueryRequest & { readonly database: string }, caller: Caller): Promise<ViewReading> {
    return this.#look(request, caller, (engine, statement, { kind }) => {
      if (kind !== 'select') throw new Failure('SQL_NOT_SUPPORTED', 'a view is made of a query, which writes nothing');
      // Whoever reads it later is another: in a view the functions about the caller are refused.
      return engine.readView({ ...statement, caller: undefined, database: statement.database ?? request.database });
    });
  }

  async #look<T>(
    request: QueryRequest,
    caller: Caller,
    work: (engine: EngineWarehouse, statement: Statement, analysis: StatementAnalysis) => Promise<T>,
  ): Promise<T> {
    const { statement, warehouse } = await this.#place(request, caller.principal);
    const { warehouses } = this.#options;
    const { principal } = caller;
    warehouses.quarantine.require(warehouse, principal.id, statement);
    const end = this.#options.caps.startQuery(principal.id);
    try {
      return await warehouses.admit(warehouse, caller, (engine) =>
        this.#lost.run({
          warehouse,
          isRead: () => true,
          revived: () => warehouses.use(warehouse),
          work: () =>
            this.#authorised(engine, statement, warehouse, caller, undefined, (analysis) =>
              work(engine, statement, analysis),
            ),
          signal: caller.signal,
        }),
      );
    } catch (error) {
      throw this.#blamed(error, { statement, warehouse, principal }, 'select');
    } finally {
      end();
    }
  }

  /** Of a statement that ended its engine, later runs are refused; a read that crashed it is answered so at once. */
  #blamed(
    error: unknown,
    { statement, warehouse, principal }: { statement: Statement; warehouse: string; principal: Principal },
    kind: StatementAnalysis['kind'] | undefined,
  ): unknown {
    if (!endedEngine(error)) return error;
    const isRead = kind === undefined || kind === 'select';
    const refusal = this.#options.warehouses.quarantine.add(warehouse, principal.id, statement, isRead);
    return isRead && (error as Failure).code === 'WAREHOUSE_FAILED' ? refusal : error;
  }

  /** What an engine is about to change is told before: the store's transactions do not reach it. */
  async #announce(analysis: StatementAnalysis, queryId: string, actor: Actor, objectId?: string): Promise<void> {
    if (analysis.kind === 'select') return;
    const tables = analysis.writes.map(({ catalog, database, table }) => `${catalog}.${database}.${table}`);
    const details = { queryId, kind: analysis.kind, tables };
    await this.#options.trail.begin(actor, { objectId, details });
  }

  /** By what the engine knows a statement that writes again, where it is a task's or a keyed request's; asked for as it is handed over. */
  async #stepOf(
    run: Run,
    { actor: { guard }, step: ofTask, taskId, becoming }: RunCaller,
  ): Promise<() => string | undefined> {
    if (run.analysis.kind === 'select') return () => undefined;
    if (ofTask === null) {
      const message = 'the server stopped while the statement ran; whether it was applied is not known';
      throw new Failure('TASK_INTERRUPTED', message, {}, { outcome: 'unknown' });
    }
    const { keys } = this.#options;
    const place = { warehouse: run.warehouse, catalogId: await this.#writtenBy(run) };
    if (guard && ofTask === undefined) {
      const step = keyedStep(guard);
      await keys.retainStep(step, place, { guard, queryId: run.queryId });
      return () => step;
    }
    const keep = (step: string) => keys.retainStep(step, { ...place, taskId: taskId ?? step });
    const remember = (given: string) => run.engine.remember(run.resultPath, given);
    const step = ofTask ?? becoming?.begin({ keep, remember });
    if (step !== undefined) await keep(step);
    return () => step ?? becoming?.handOver();
  }

  /** The id of the catalog that a statement writes to, which is not always the one that it was sent to. */
  async #writtenBy({ analysis: { writes }, statement: { catalog } }: Run): Promise<string> {
    const name = writes[0]?.catalog;
    if (name === undefined || name === catalog.name) return catalog.id;
    return (await this.#options.catalog.require([{ category: 'catalogs', name }]))[0]?.id ?? catalog.id;
  }

  #conclude(kind: StatementAnalysis['kind'] | undefined, queryId: string, actor: Actor, outcome: Code | '0'): void {
    if (kind === undefined || kind === 'select') return;
    actor.audited = true;
    if (outcome === '0') actor.changed = true;
    this.#options.trail.enqueue(actor, { outcome, details: { queryId, kind } });
  }

  async #place(request: QueryRequest, principal: Principal): Promise<{ statement: Statement; warehouse: string }> {
    const namespace: Segment[] = [{ category: 'catalogs', name: request.catalog }];
    if (request.database !== undefined) namespace.push({ category: 'databases', name: request.database });
    const [root, database] = (await this.#options.catalog.require(namespace)) as [
      CatalogObject<CatalogSpec>,
      CatalogObject?,
    ];
    const { warehouse } = root.spec;
    if (request.warehouse !== undefined && request.warehouse !== warehouse) {
      const message = `the catalog "${root.name}" is in the warehouse "${warehouse}", which alone can read it`;
      throw new Failure('INVALID_PARAMETER', message, {
        violations: [{ pointer: '/warehouse', rule: 'warehouse', message }],
      });
    }
    const path = [{ category: 'warehouses', name: warehouse }];
    await this.#options.authorizer.require(principal, 'use', { category: 'warehouses', path });
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

  /** Analyses, authorises, runs; again where a change of the catalog came in between. */
  async #authorised<T>(
    engine: EngineWarehouse,
    statement: Statement,
    warehouse: string,
    turn: PrincipalTurn,
    only: ExpectedStatement | undefined,
    work: (analysis: StatementAnalysis, sources: ResultSources) => Promise<T>,
  ): Promise<T> {
    const { principal } = turn;
    const key = JSON.stringify([
      warehouse,
      statement.catalog.id,
      statement.catalog.name,
      statement.database,
      statement.sql,
      statement.caller,
      only?.isNew,
    ]);
    for (let attempt = 0, anew = false; ; attempt++) {
      try {
        let known = anew ? undefined : this.#known.get(key);
        const isKnown = known !== undefined;
        if (!known) {
          known = {
            analysis: await this.#analysed(engine, statement, turn),
            version: '',
            authorised: new WeakSet(),
            sources: [],
          };
          this.#remember(key, known);
        }
        const version = `${this.#generation} ${this.#options.directory.rightsVersion}`;
        if (known.version !== version) {
          known.version = version;
          known.authorised = new WeakSet();
        }
        requireExpected(only, known.analysis);
        const { reads, writes, views } = known.analysis;
        this.#options.catalog.requireNoOpenChange([...reads, ...writes, ...views].map(partsOf));
        if (!known.authorised.has(principal)) {
          const { authorised } = known;
          const names = () => engine.tableNamesIn(statement.sql);
          try {
            known.sources = await requireAccess(this.#options, known.analysis, { principal, statement, names, only });
          } catch (error) {
            if (error instanceof Failure && error.code === 'SQL_INVALID')
              await this.#requireUnmoved(statement, names());
            // Perhaps it was allowed for a view that was of other tables then. Looked at anew, it also takes as long as what is not
            // there, of which nothing is remembered.
            if (!isKnown) throw error;
            anew = true;
            continue;
          }
          authorised.add(principal);
        }
        await this.#requireReplicas(known.analysis, warehouse);
        return await work(known.analysis, known.sources);
      } catch (error) {
        if (!(error instanceof StaleAnalysis)) throw error;
        if (attempt >= staleRetriesMax)
          throw new Failure('WAREHOUSE_BUSY', 'the tables of the statement are being changed; try again');
        this.#known.delete(key);
      }
    }
  }

  #remember(key: string, known: Known): void {
    if (key.length > 20_000) return; // long texts are seldom sent twice, and would fill the memory
    if (this.#known.size >= knownMax) this.#known.delete(this.#known.keys().next().value as string);
    this.#known.set(key, known);
  }

  /** What the engine says of names is told to who may see what it could be about; to others it is one answer. */
  async #analysed(engine: EngineWarehouse, statement: Statement, turn: PrincipalTurn): Promise<StatementAnalysis> {
    try {
      return await engine.analyze(statement, turn);
    } catch (error) {
      if (!(error instanceof Failure) || !ofBinding.has(error.code) || aboutSyntax.test(error.message)) throw error;
      const names = () => engine.tableNamesIn(statement.sql);
      // What it names may only be missing because a change of it was interrupted.
      this.#options.catalog.requireNoOpenChange(names(), true);
      if (!(await this.#options.names.areKnownTo(turn.principal, statement, names))) throw hiddenObject();
      await this.#requireUnmoved(statement, names());
      throw error;
    }
  }

  /** A name may also be missing because of a rename, under way or done since the namespace was found. */
  async #requireUnmoved({ catalog, database }: Statement, names: readonly (readonly string[])[]): Promise<void> {
    const namespace = [catalog.name, ...(database === undefined ? [] : [database])];
    await this.#options.catalog.requireNotBeingRenamed([namespace, ...names]);
    await this.#options.catalog.require(
      namespace.map((name, n) => ({ category: n === 0 ? 'catalogs' : 'databases', name })),
    );
  }

  async #requireReplicas(analysis: StatementAnalysis, warehouse: string): Promise<void> {
    if ((await this.#options.warehouses.availableBackends(warehouse)) > 0) return;
    const tables = [...analysis.reads, ...analysis.writes].map((one) => `${one.catalog}.${one.database}.${one.table}`);
    if (tables.length === 0) {
      throw new Failure('NOT_ENOUGH_BACKENDS', 'the statement needs 1 backend and 0 are available', {
        needed: 1,
        available: 0,
      });
    }
    const named = [...new Set(tables)];
    throw new Failure('REPLICAS_UNAVAILABLE', `no replica is available of ${named.join(', ')}`, { tables: named });
  }
}

const partsOf = ({ catalog, database, table }: TableName): readonly string[] => [catalog, database, table];

/** What was cancelled because it took too much did not end because its caller wanted it to. */
function whyStopped(error: unknown, { reason }: AbortSignal): unknown {
  return error instanceof Failure && error.code === 'STATEMENT_CANCELLED' && reason instanceof Failure ? reason : error;
}
