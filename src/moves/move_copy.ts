// The copy of a catalog in the engine of another warehouse: made in rounds while the catalog is written, then completed, proved and switched
// while writes are refused. One attempt of the task of a move; a later one continues with what is equal.
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogMove } from '../catalog/moves/move_catalog.ts';
import type { Change } from '../engines/port/changes.ts';
import type { CatalogRef, TableRef } from '../engines/port/refs.ts';
import { PausedWrites } from '../holds/paused_writes.ts';
import type { WriteMoment, WritesOfServers } from '../holds/writes_of_servers.ts';
import type { Principal } from '../model/principal.ts';
import type { TableDefinition, TableSpec } from '../model/records.ts';
import { type ChecksumDifference, checksumDifference, type TableChecksum } from '../model/table_checksum.ts';
import { Failure } from '../standard/failure.ts';
import type { Store } from '../store/store.ts';
import type { TaskContext } from '../tasks/task.ts';
import {
  type MovePlan,
  type MoveProblem,
  type MoveRequest,
  type MoveResult,
  refusedViews,
  requireUnblocked,
  type TableToMove,
} from './move_plan.ts';
import { createViews, type MovedViews, namesCatalog } from './moved_views.ts';
import { copySteps } from './steps.ts';
import { type MoveSides, TableCopier } from './table_copier.ts';

interface CopyParts {
  readonly catalog: Catalog;
  readonly store: Store;
  readonly writes: WritesOfServers;
  readonly spool: string;
  readonly principal: Principal;
  readonly definitionOf: (spec: TableSpec) => TableDefinition;
}

interface CopyWork {
  readonly move: CatalogMove;
  readonly plan: MovePlan;
  readonly sides: MoveSides;
  /** The catalog in its warehouse. */
  readonly source: CatalogRef;
  readonly request: MoveRequest;
}

export interface CopyOutcome {
  readonly rounds: number;
  readonly pausedMs: () => number;
  readonly problems: readonly MoveProblem[];
}

/** Stored after each table, for the attempt after a crash. */
interface Progress {
  /** The ids of tables that were copied and proved. */
  readonly proved: readonly string[];
  /** Whether the copy may have the name of the catalog already. */
  readonly isNamed: boolean;
}

/** If a round took no longer than this part of the pause, the next is the last. */
const lastRoundPart = 0.5;
/** How many times writes are refused before the attempt is given up. */
const pausesMax = 3;

interface CopyTable {
  readonly signal: AbortSignal;
  /** Called with the number of rows that each part adds. */
  readonly copied: (rows: number) => void;
  /** A copy by files was not equal. */
  readonly asRows?: boolean;
}

/** A table that was copied, but is not proved yet. */
interface Copied {
  readonly table: TableToMove;
  /** Before it was copied. */
  readonly moment: WriteMoment;
  /** The checksum of the source, which is computed from that moment on. */
  readonly summed: Promise<TableChecksum>;
  /** Gives up the checksum. */
  readonly end: () => void;
}

export class MoveCopy {
  readonly #parts: CopyParts;
  readonly #work: CopyWork;
  readonly #run: Pick<TaskContext, 'signal' | 'progress'>;
  readonly #copier: TableCopier;
  readonly #staged: CatalogRef;
  readonly #named: CatalogRef;
  /** For each table that was proved equal: the moment before its copy began. */
  readonly #provedAt = new Map<string, WriteMoment>();
  /** The ids of tables that were proved, but may have been written by what a server left behind that ended. */
  readonly #doubted = new Set<string>();
  #progress: Progress;
  #rounds = 0;
  #rowsAll = 0;

  constructor(parts: CopyParts, work: CopyWork, run: Pick<TaskContext, 'signal' | 'progress'>) {
    this.#parts = parts;
    this.#work = work;
    this.#run = run;
    const { catalog } = parts;
    const { taskId } = work.move;
    const owner = { work: taskId, confirm: () => catalog.confirmMove(taskId) };
    this.#copier = new TableCopier(work.sides, { ...parts, owner });
    this.#staged = { id: work.move.targetId, name: work.move.stagedName };
    this.#named = { id: work.move.targetId, name: work.source.name };
    this.#progress = { proved: [], isNamed: false, ...(work.move.progress as Partial<Progress>) };
  }

  /** `resultOf`: the result of the task, which the switch stores. */
  async run(resultOf: (outcome: CopyOutcome) => MoveResult): Promise<MoveResult> {
    const { writes } = this.#parts;
    const { request } = this.#work;
    await writes.watch(this.#run.signal);
    await this.#prepare();
    await this.#keepEqual();
    await this.#tryViews();
    for (let pauses = 0; pauses < pausesMax; pauses++) {
      await this.#copyRounds();
      const paused = new PausedWrites(writes, request.pauseSeconds * 1000, this.#run.signal);
      try {
        return await this.#finish(paused, resultOf);
      } catch (error) {
        // After a switch whose outcome is unknown the writes stay refused: the task decides that by the store.
        if (!paused.isOver) throw error;
        await paused.end();
        await this.#unname();
      } finally {
        await paused.end();
      }
    }
    const message = `the catalog was written so much that ${pausesMax} pauses of ${request.pauseSeconds} s were too short`;
    throw new Failure('MOVE_PAUSE_EXCEEDED', message);
  }

  /** Creates the catalog, its databases and its tables in the target, as an earlier attempt may have done. */
  async #prepare(): Promise<void> {
    const { plan, move } = this.#work;
    const { signal } = this.#run;
    const apply = (change: Change, step: string) => this.#applyToTarget(change, `${move.taskId}/${step}`, signal);
    await apply({ kind: 'createCatalog', catalog: this.#staged }, 'catalog');
    await this.#unname();
    for (const database of plan.databases)
      await apply({ kind: 'createDatabase', database: { catalog: this.#staged, database } }, `database/${database}`);
    for (const table of plan.tables) {
      const definition = this.#parts.definitionOf(table.target);
      await apply({ kind: 'createTable', table: this.#refTo(table), definition }, `table/${table.id}`);
    }
  }

  /** Throws TASK_INTERRUPTED, and changes nothing, if the move has switched or another process has it: this one may have been frozen. */
  async #applyToTarget(change: Change, step: string, signal: AbortSignal): Promise<void> {
    const { move, sides } = this.#work;
    const confirm = () => this.#parts.catalog.confirmMove(move.taskId);
    await confirm();
    await sides.target.engine.apply(change, { step, work: move.taskId, confirm, signal });
  }

  /** Gives the copy its hidden name again, if an earlier pause or attempt may have given it that of the catalog. */
  async #unname(): Promise<void> {
    if (!this.#progress.isNamed) return;
    const change = { kind: 'renameCatalog', catalog: this.#named, newName: this.#staged.name } as const;
    await this.#applyToTarget(change, `${this.#work.move.taskId}/unname/${Date.now()}`, this.#run.signal);
    await this.#save({ isNamed: false });
  }

  async #save(progress: Partial<Progress>): Promise<void> {
    this.#progress = { ...this.#progress, ...progress };
    await this.#parts.catalog.saveMoveProgress(this.#work.move.taskId, this.#progress);
  }

  /** Of what an earlier attempt has copied, keeps the tables that are still equal. */
  async #keepEqual(): Promise<void> {
    const proved = new Set(this.#progress.proved);
    for (const table of this.#work.plan.tables) {
      if (!proved.has(table.id)) continue;
      const moment = this.#parts.writes.moment();
      if ((await this.#difference(table)) === undefined) this.#provedAt.set(table.id, moment);
    }
  }

  /** Finds views that the target refuses before everything is copied. Those that name the catalog are tried at the end. */
  async #tryViews(): Promise<void> {
    const { plan, sides, source, request } = this.#work;
    const { engine, adapter } = sides.target;
    if (!adapter.capabilities.views || plan.views.length === 0) return;
    const independent: (typeof plan.views)[number][] = [];
    for (const view of plan.views) if (!(await namesCatalog(engine, view.sql, source.name))) independent.push(view);
    if (independent.length < plan.views.length) return;
    const apply = (change: Change, step: string) => this.#applyToTarget(change, step, this.#run.signal);
    const tried = await createViews(engine, apply, this.#staged, independent);
    requireUnblocked(refusedViews(tried, request));
    await this.#dropViews();
  }

  /** Their texts have the hidden name. */
  async #dropViews(): Promise<void> {
    const { plan, move } = this.#work;
    for (const { id, database, name } of plan.views) {
      const view = { catalog: this.#staged, database, view: name };
      await this.#applyToTarget({ kind: 'dropView', view }, `${move.taskId}/untry/${id}`, this.#run.signal);
    }
  }

  /** Copies all tables, then those that were written meanwhile, until that takes less than a part of the pause. */
  async #copyRounds(): Promise<void> {
    const { request } = this.#work;
    for (const first = this.#rounds; this.#rounds - first < request.roundsMax; ) {
      await this.#parts.writes.refresh(this.#run.signal);
      const tables = this.#changed();
      if (tables.length === 0) return;
      this.#rounds++;
      const began = performance.now();
      await this.#copyTables(tables, this.#run.signal, `round ${this.#rounds}`);
      if (performance.now() - began < lastRoundPart * request.pauseSeconds * 1000 && this.#rounds > 1) return;
    }
  }

  /** The tables that are not proved, or were written since. */
  #changed(): TableToMove[] {
    return this.#work.plan.tables.filter((table) => this.#writtenSince(table, this.#provedAt.get(table.id)) !== 'no');
  }

  #writtenSince({ id, database, name }: TableToMove, moment: WriteMoment | undefined): 'yes' | 'no' | 'unknown' {
    if (moment === undefined) return 'yes';
    const written = this.#parts.writes.written({ database, table: name }, moment);
    return written === 'no' && this.#doubted.has(id) ? 'unknown' : written;
  }

  /** The largest first: a table is proved while the next one is copied. */
  async #copyTables(tables: readonly TableToMove[], signal: AbortSignal, what: string): Promise<void> {
    let rowsDone = 0;
    const sized = await Promise.all(
      tables.map(async (table) => {
        const { rowCount } = await this.#work.sides.source.engine.tableStatistics(this.#refFrom(table));
        return { table, rowCount };
      }),
    );
    this.#rowsAll = sized.reduce((sum, { rowCount }) => sum + rowCount, 0);
    const failed = new AbortController();
    const options = (table: TableToMove) => ({
      signal: AbortSignal.any([signal, failed.signal]),
      copied: (rows: number) => {
        rowsDone += rows;
        // A round of no rows is done when it begins.
        const fraction = this.#rowsAll === 0 ? 1 : Math.min(1, rowsDone / this.#rowsAll);
        this.#run.progress(fraction, `${what}: ${table.database}.${table.name}`);
      },
    });
    const unequal: TableToMove[] = [];
    let proving: Promise<void> = Promise.resolve();
    try {
      for (const { table } of sized.sort((a, b) => b.rowCount - a.rowCount)) {
        options(table).copied(0);
        const copy = await this.#copyTable(table, options(table));
        await proving;
        proving = this.#prove(copy, options(table)).then((difference) => void (difference && unequal.push(table)));
        proving.catch(() => undefined);
      }
      await proving;
    } catch (error) {
      failed.abort();
      throw error;
    } finally {
      // It reads both copies.
      await proving.catch(() => undefined);
    }
    for (const table of unequal) {
      const copy = await this.#copyTable(table, { ...options(table), asRows: true });
      const difference = await this.#prove(copy, options(table));
      if (difference) throw verificationFailed(table, difference);
    }
  }

  /** @returns what proves the copy; undefined if it was equal already. */
  async #copyTable(table: TableToMove, { signal, copied, asRows = false }: CopyTable): Promise<Copied | undefined> {
    const { writes, definitionOf } = this.#parts;
    const moment = writes.moment();
    // A server that ended may have written to it before, which it could not report any more.
    if (this.#writtenSince(table, this.#provedAt.get(table.id)) === 'unknown') {
      const isEqual = (await this.#difference(table, signal)) === undefined;
      this.#doubted.delete(table.id);
      if (isEqual) {
        this.#provedAt.set(table.id, moment);
        return undefined;
      }
    }
    const definition = definitionOf(table.target);
    const { engine } = this.#work.sides.source;
    const ended = new AbortController();
    // While it is copied: if it is written meanwhile, the copy counts as little as the checksum.
    const summed = engine.checksumTable(
      { ...this.#refFrom(table), columns: definition.columns },
      { signal: AbortSignal.any([signal, ended.signal]) },
    );
    summed.catch(() => undefined);
    try {
      const tables = { from: this.#refFrom(table), to: this.#refTo(table), definition };
      await this.#copier.copy(tables, { signal, copied, asRows });
      return { table, moment, summed, end: () => ended.abort() };
    } catch (error) {
      ended.abort();
      await summed.catch(() => undefined);
      throw toDataInvalid(table, error);
    }
  }

  /** @returns how the copy differs although nobody has written to the table. If somebody has, a later round copies it again. */
  async #prove(copy: Copied | undefined, { signal }: CopyTable): Promise<ChecksumDifference | undefined> {
    if (!copy) return undefined;
    const { writes } = this.#parts;
    const { table, moment, summed, end } = copy;
    if (this.#writtenSince(table, moment) !== 'no') {
      end();
      await summed.catch(() => undefined);
      return undefined;
    }
    const difference = await this.#difference(table, signal, summed);
    if (difference === undefined) {
      this.#provedAt.set(table.id, moment);
      await this.#save({ proved: [...this.#provedAt.keys()] });
      return undefined;
    }
    await writes.refresh(signal);
    return this.#writtenSince(table, moment) === 'no' ? difference : undefined;
  }

  /** `summed`: the checksum of the source, if it is being computed already. */
  async #difference(
    table: TableToMove,
    signal = this.#run.signal,
    summed?: Promise<TableChecksum>,
  ): Promise<ChecksumDifference | undefined> {
    const { source, target } = this.#work.sides;
    const { columns } = this.#parts.definitionOf(table.target);
    const [a, b]: readonly TableChecksum[] = await Promise.all([
      summed ?? source.engine.checksumTable({ ...this.#refFrom(table), columns }, { signal }),
      target.engine.checksumTable({ ...this.#refTo(table), columns }, { signal }),
    ]);
    return a && b ? checksumDifference(columns, a, b) : { column: null };
  }

  /** While writes are refused: copies the rest, gives the copy the name of the catalog, creates the views and switches. */
  async #finish(paused: PausedWrites, resultOf: (outcome: CopyOutcome) => MoveResult): Promise<MoveResult> {
    const { move, sides, plan, request } = this.#work;
    const { signal } = paused;
    this.#run.progress(1, 'waiting for running writes');
    await paused.drained();
    const settled = await sides.source.engine.settleWrites?.(this.#work.source, { signal });
    // Which tables they wrote to is not known: those that are equal are not copied again.
    if (settled) for (const { id } of plan.tables) this.#doubted.add(id);
    for (let tables = this.#changed(); tables.length > 0; tables = this.#changed())
      await this.#copyTables(tables, signal, 'last round');
    this.#run.progress(1, 'switching');
    await copySteps(sides, this.#work.source, this.#staged, signal);
    await this.#save({ isNamed: true });
    const naming = { kind: 'renameCatalog', catalog: this.#staged, newName: this.#named.name } as const;
    await this.#applyToTarget(naming, `${move.taskId}/name/${Date.now()}`, signal);
    const views = await this.#createViews(signal);
    const refused = refusedViews(views, request);
    requireUnblocked(refused);
    if (!paused.suspendEnd()) throw new Failure('MOVE_PAUSE_EXCEEDED', 'the time without writes is over');
    const result = resultOf({ rounds: this.#rounds, pausedMs: () => paused.elapsedMs, problems: refused });
    const changedTables = plan.tables.filter(({ spec, target }) => JSON.stringify(spec) !== JSON.stringify(target));
    await this.#parts.catalog.switchMove(move, {
      to: request.warehouse,
      heldBy: this.#parts.writes.heldBy,
      progress: result,
      purgeAt: Date.parse(result.retainedUntil ?? ''),
      viewColumns: views.columns,
      droppedViews: views.refused.map(({ view }) => view.id),
      tables: new Map(changedTables.map(({ id, target }) => [id, target])),
    });
    return result;
  }

  async #createViews(signal: AbortSignal): Promise<MovedViews> {
    const { sides, plan } = this.#work;
    const reason = 'the engine does not support views';
    if (!sides.target.adapter.capabilities.views)
      return { columns: new Map(), refused: plan.views.map((view) => ({ view, reason })) };
    const apply = (change: Change, step: string) => this.#applyToTarget(change, step, signal);
    return createViews(sides.target.engine, apply, this.#named, plan.views);
  }

  #refFrom({ database, name }: TableToMove): TableRef {
    return { catalog: this.#work.source, database, table: name };
  }

  #refTo({ database, name }: TableToMove): TableRef {
    return { catalog: this.#staged, database, table: name };
  }
}

/** A value that the target cannot hold, such as a date beyond its range. The violations would show rows to whoever may not read them. */
function toDataInvalid({ database, name }: TableToMove, error: unknown): unknown {
  if (!(error instanceof Failure) || (error.code !== 'ROWS_INVALID' && error.code !== 'DATA_INVALID')) return error;
  const table = `${JSON.stringify(database)}.${JSON.stringify(name)}`;
  const message = `the table ${table} has values that the target cannot hold`;
  return new Failure('DATA_INVALID', message, { database, table: name }, { cause: error });
}

function verificationFailed({ database, name }: TableToMove, { column }: ChecksumDifference): Failure {
  const what = column === null ? 'numbers of rows' : `checksums of the column ${JSON.stringify(column)}`;
  const message = `the table ${JSON.stringify(database)}.${JSON.stringify(name)} and its copy have different ${what}`;
  return new Failure('MOVE_VERIFICATION_FAILED', message, { database, table: name, column });
}
