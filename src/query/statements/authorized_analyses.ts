// Analyses of statements, authorized for their callers: a statement is analyzed by its engine, every table of its plan is authorized, and it
// runs only while both still hold. Analyses are cached by text and namespace.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Directory } from '../../access/authorization/directory.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { EngineWarehouse } from '../../engines/port/engine.ts';
import type { TableName } from '../../engines/port/refs.ts';
import { StaleAnalysis, type Statement, type StatementAnalysis } from '../../engines/port/statements.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import type { Principal } from '../../model/principal.ts';
import type { Code } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import type { ResultSources } from '../results/result_access.ts';
import type { NameVisibility } from './name_visibility.ts';
import type { PlacedStatement } from './namespaces.ts';
import { hiddenObject, requireAccess } from './plan_access.ts';
import { type ExpectedStatement, requireExpected } from './plan_constraints.ts';
import type { Caller } from './query_request.ts';

interface AnalysesOptions {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly names: NameVisibility;
  /** Counts the changes of objects. */
  readonly generation: () => number;
}

type Requester = Pick<Caller, 'principal' | 'signal'>;

interface StatementToAuthorize extends PlacedStatement {
  /** Of the warehouse. */
  readonly engine: EngineWarehouse;
  readonly requester: Requester;
  readonly expected?: ExpectedStatement | undefined;
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

/** Codes of an engine's errors about binding: their messages may reveal which objects exist. */
const bindingCodes: ReadonlySet<Code> = new Set<Code>([
  'SQL_INVALID',
  'SQL_NOT_SUPPORTED',
  'SQL_FORBIDDEN_FUNCTION',
  'PARAMETERS_INVALID',
  'CATALOG_DAMAGED',
]);
/** Syntax errors depend on the text alone and reveal nothing. */
const syntaxErrorPattern =
  /^(?:syntax error|unterminated|the text |a NUL |more than \d+ arrows|the statement has more than \d+ )/;
const cachedAnalysesMax = 2000;
const staleRetriesMax = 5;

export class AuthorizedAnalyses {
  readonly #options: AnalysesOptions;
  readonly #analyses = new Map<string, CachedAnalysis>();

  constructor(options: AnalysesOptions) {
    this.#options = options;
  }

  /** Analyzes, authorizes and runs the statement; repeats all three if the catalog changed in between. */
  async run<T>(
    { engine, statement, warehouse, requester, expected }: StatementToAuthorize,
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
        const version = `${this.#options.generation()} ${this.#options.directory.rightsVersion}`;
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
      let found: ReturnType<EngineWarehouse['tableNamesIn']> | undefined;
      // Once: a long text holds the thread for as long as it is read.
      const names = () => {
        found ??= engine.tableNamesIn(statement.sql);
        return found;
      };
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
