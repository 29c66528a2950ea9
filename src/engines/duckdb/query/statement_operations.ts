// The operations of the engine process on single SQL statements: reads what they name, binds them, explains them and runs them.
import { basename, join } from 'node:path';
import { Digests } from '../../../files/digests.ts';
import { Failure } from '../../../standard/failure.ts';
import { type PageReady, StaleAnalysis, type StatementAnalysis, type StatementResult } from '../../port/statements.ts';
import { rowsFile } from '../../results/paged_file.ts';
import { bindStatement } from '../analysis/bound_statement.ts';
import type { WriteVersions } from '../analysis/data_versions.ts';
import type { DefinitionVersions } from '../analysis/definition_versions.ts';
import type { NamedObjectReader } from '../analysis/named_objects.ts';
import { ObjectCopies } from '../analysis/object_copies.ts';
import { readView } from '../analysis/view_reading.ts';
import { exportQuery } from '../export/export_query.ts';
import { commit, rememberStep, retryingConflicts } from '../instance/applied_steps.ts';
import { type Interruptible, preparedKey, type Session, type Sessions } from '../instance/connection_pool.ts';
import { LateSteps, type RunningWrite } from '../instance/late_steps.ts';
import type { Operations, WireOptions, WireStatement } from '../process/protocol.ts';
import { locateErrors } from '../process/wire_errors.ts';
import { explainStatement, linesAboveExplained, profileStatement, withPlan } from './explain.ts';
import { describedColumns, type KnownSelect, linesAbove, runSelect, runWrite } from './results.ts';

export type ReportPage = (page: PageReady) => void;

const knownSelectsMax = 5000;

type StatementOperation = 'namedObjects' | 'bind' | 'execute' | 'recordStep' | 'explain' | 'readView' | 'describe';
export type StatementOperations = {
  [K in StatementOperation]: (argument: Operations[K][0]) => Promise<Operations[K][1]>;
};

interface StatementsParts {
  readonly sessions: Sessions;
  readonly definitions: DefinitionVersions;
  readonly objects: NamedObjectReader;
  readonly versions: WriteVersions;
  /** The only directory that this process writes to. */
  readonly workDirectory: string;
  readonly unreviewed: ReadonlySet<string>;
}

export class Statements {
  readonly #parts: StatementsParts;
  readonly #copies = new ObjectCopies();
  readonly #knownSelects = new Map<string, KnownSelect>();
  readonly #digests = new Digests();
  readonly #lateSteps = new LateSteps();

  constructor(parts: StatementsParts) {
    this.#parts = parts;
  }

  operations(started: Interruptible, signal: AbortSignal, onPage?: ReportPage): StatementOperations {
    const { sessions, objects, unreviewed } = this.#parts;
    const inNamespace = <T>(statement: WireStatement, linesAbove: number, work: (session: Session) => Promise<T>) =>
      sessions.withNamespace(statement, undefined, started, (session) =>
        locateErrors(statement.sql, linesAbove, () => work(session)),
      );
    return {
      namedObjects: (statement) =>
        sessions.withNamespace(statement, undefined, started, ({ connection }) =>
          locateErrors('', 0, () => objects.read(connection, statement)),
        ),
      bind: (request) => this.#bind(request, started),
      execute: (request) => this.#execute(request, started, signal, request.options.reportsPages ? onPage : undefined),
      recordStep: async ({ resultPath, step }) => this.#lateSteps.recordStep(resultPath, step),
      explain: (statement) =>
        inNamespace(statement, linesAboveExplained, (session) => explainStatement(session, statement)),
      readView: (statement) => inNamespace(statement, 0, (session) => readView(session, statement, unreviewed)),
      describe: (statement) => inNamespace(statement, 0, (session) => describedColumns(session, statement)),
    };
  }

  /** Objects changed: what is known about selects may no longer be true. */
  forgetSelects(): void {
    this.#knownSelects.clear();
  }

  /** Runs in a process without files, one statement at a time. */
  #bind({ statement, objects }: Operations['bind'][0], started: Interruptible): Promise<StatementAnalysis> {
    const { sessions, unreviewed } = this.#parts;
    return sessions.with(undefined, started, (session) =>
      locateErrors(statement.sql, 0, async () => {
        await this.#copies.create(session.connection, objects, () => session.leave());
        await session.use(statement);
        return bindStatement(session, statement, objects, unreviewed);
      }),
    );
  }

  #execute(
    { statement, options, writes, inserts }: Operations['execute'][0],
    started: Interruptible,
    signal: AbortSignal,
    onPage: ReportPage | undefined,
  ): Promise<StatementResult> {
    const { sessions, versions, workDirectory } = this.#parts;
    const { data, removals } = versions;
    const [written] = writes;
    const key = written ? undefined : preparedKey(statement);
    const requireCurrent = () => {
      this.#requireDefinitions(options);
      if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
    };
    requireCurrent();
    const run = async (session: Session, runningWrite: RunningWrite) => {
      requireCurrent();
      if (options.into) {
        return locateErrors(statement.sql, linesAbove, () =>
          exportQuery(session, statement, options, { workDirectory, digests: this.#digests, requireCurrent }),
        );
      }
      if (!written) return this.#select(session, statement, options, onPage);
      const once = { catalog: written.catalog, runningWrite, requireCurrent };
      const attempt = () => write(session, statement, options, once);
      const runWriting = () => data.trackWrites(options.tables, attempt);
      const runRemoving = () =>
        inserts ? removals.trackFailedWrites(writes, runWriting) : removals.trackWrites(writes, runWriting);
      return locateErrors(statement.sql, 0, () => retryingConflicts(runRemoving, signal));
    };
    const runInSession = (runningWrite: RunningWrite) =>
      sessions.withNamespace(statement, key, started, (session) =>
        withPlan(session, statement, options.planAfterMs, () => run(session, runningWrite)),
      );
    return this.#lateSteps.during(options.resultPath, runInSession);
  }

  async #select(
    session: Session,
    statement: WireStatement,
    options: WireOptions,
    onPage: ReportPage | undefined,
  ): Promise<StatementResult> {
    const { definitions, versions, workDirectory } = this.#parts;
    if (this.#knownSelects.size > knownSelectsMax) this.#knownSelects.clear();
    if (options.profile) {
      const profile = await locateErrors(statement.sql, linesAboveExplained, () =>
        profileStatement(session, statement),
      );
      this.#requireDefinitions(options);
      return profile;
    }
    return locateErrors(statement.sql, linesAbove, () =>
      runSelect(session, statement, options, {
        engineFile: join(workDirectory, basename(rowsFile(options.resultPath))),
        known: this.#knownSelects,
        epoch: () => versions.data.latestOf(options.tables),
        requireCurrent: () => this.#requireDefinitions(options),
        unchanged: definitions.watch(),
        onPage,
      }),
    );
  }

  /** Throws StaleAnalysis if a definition has changed since the statement was authorized: a name may have another meaning. */
  #requireDefinitions({ token, tables }: WireOptions): void {
    if (this.#parts.definitions.changedSince(Number(token), tables)) throw new StaleAnalysis();
  }
}

/** How a statement is applied only once: its step is recorded in `catalog`, to which it writes. */
interface Once {
  readonly catalog: string;
  readonly runningWrite: RunningWrite;
  /** Throws if the statement must not run any more. */
  readonly requireCurrent: () => void;
}

/** Runs a statement that writes in a transaction of its own. */
async function write(
  session: Session,
  statement: WireStatement,
  options: WireOptions,
  { catalog, runningWrite, requireCurrent }: Once,
): Promise<StatementResult> {
  const { connection } = session;
  runningWrite.attempt();
  await connection.run('BEGIN TRANSACTION');
  try {
    requireCurrent();
    const result = await runWrite(session, statement, options, catalog);
    requireCurrent();
    const step = runningWrite.committing();
    if (step !== undefined) await rememberStep(connection, catalog, step, result.rowCount);
    await commit(connection);
    return result;
  } catch (error) {
    // An interrupted ROLLBACK leaves the transaction open; `Sessions.with` then ends it.
    await connection.run('ROLLBACK').catch(() => undefined);
    throw error;
  }
}
