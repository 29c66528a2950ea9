// Turns between those who write rows of a table and those who write the table itself again. An embedded engine may let a row be
// committed into a table whose copy was made already, and drop it with the old table without a word (DuckDB does); so who
// copies has the table alone.
import { Failure } from '../../../standard/failure.ts';
import type { Change, EngineWarehouse, TableName } from '../../engine.ts';

/** How long rows wait for a table that is being changed, and a change for statements that write rows. */
const turnWaitMs = 15_000;

const keyOf = (...names: readonly string[]) => JSON.stringify(names.map((name) => name.toLowerCase()));

export class TableLocks {
  readonly #writers = new Map<string, number>();
  readonly #changed = new Set<string>();
  readonly #waiting = new Set<() => void>();

  /** Throws WAREHOUSE_BUSY where the tables are not free in time. */
  writing<T>(tables: readonly TableName[], signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (tables.length === 0) return work();
    const keys = tables.flatMap(({ catalog, database, table }) => [
      keyOf(catalog, database),
      keyOf(catalog, database, table),
    ]);
    return this.#writingKeys(keys, signal, work);
  }

  async #writingKeys<T>(keys: readonly string[], signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const isFree = () => !keys.some((key) => this.#changed.has(key));
    const busy = 'the table is being changed, which takes long';
    const late = () => new Failure('WAREHOUSE_BUSY', busy);
    await this.#when(isFree, signal, late, () => {
      for (const key of keys) this.#writers.set(key, (this.#writers.get(key) ?? 0) + 1);
    });
    try {
      return await work();
    } finally {
      for (const key of keys) {
        const left = (this.#writers.get(key) ?? 0) - 1;
        if (left > 0) this.#writers.set(key, left);
        else this.#writers.delete(key);
      }
      this.#wake();
    }
  }

  /** Throws CHANGE_IN_PROGRESS where statements do not end in time. Changes that copy nothing need no turn. */
  async changing<T>(change: Change, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const key = keyOfCopied(change);
    if (key === undefined) return work();
    const late = () => new Failure('CHANGE_IN_PROGRESS', 'statements are still writing rows of what is to be changed');
    const isFree = () => !this.#changed.has(key);
    // From here on no new writer begins; those that write end.
    await this.#when(isFree, signal, late, () => void this.#changed.add(key));
    try {
      const isUnwritten = () => !this.#writers.has(key);
      await this.#when(isUnwritten, signal, late, () => {});
      return await work();
    } finally {
      this.#changed.delete(key);
      this.#wake();
    }
  }

  /** `take` is called in the same instant in which it is so: whoever looks next finds it taken. */
  async #when(isSo: () => boolean, signal: AbortSignal, late: () => Failure, take: () => void): Promise<void> {
    const deadline = performance.now() + turnWaitMs;
    while (!isSo()) {
      if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the statement was cancelled while it waited');
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) throw late();
      await this.#woken(leftMs, signal);
    }
    take();
  }

  #woken(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      signal.addEventListener('abort', wake, { once: true });
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}

/** What a change may write again as a whole. */
function keyOfCopied(change: Change): string | undefined {
  if (change.kind === 'renameDatabase') return keyOf(change.database.catalog.name, change.database.database);
  if (change.kind === 'alterTable' || change.kind === 'renameTable') {
    const { catalog, database, table } = change.table;
    return keyOf(catalog.name, database, table);
  }
  return undefined;
}

/** The engine, with its writers and its changes of tables taking turns. A call that rejects has ended in the engine too. */
export function withTableLocks(engine: EngineWarehouse): EngineWarehouse {
  const turns = new TableLocks();
  return {
    get running() {
      return engine.running;
    },
    start: () => engine.start(),
    stop: () => engine.stop(),
    configure: (spec) => engine.configure(spec),
    status: () => engine.status(),
    cost: (change) => engine.cost(change),
    forget: (catalog, steps) => engine.forget(catalog, steps),
    analyze: (statement, turn) => engine.analyze(statement, turn),
    tableNamesIn: (sql) => engine.tableNamesIn(sql),
    describe: (statement) => engine.describe(statement),
    readView: (statement) => engine.readView(statement),
    parseCreateView: (sql) => engine.parseCreateView(sql),
    explain: (statement) => engine.explain(statement),
    writtenStatement: (write) => engine.writtenStatement(write),
    parseCreateTable: (sql) => engine.parseCreateTable(sql),
    checkDefault: (expression, type) => engine.checkDefault(expression, type),
    optimize: (table, options) => engine.optimize(table, options),
    compareTables: (catalog, expected, options) => engine.compareTables(catalog, expected, options),
    readWholeTable: (table, options) => engine.readWholeTable(table, options),
    checkFile: (catalog, expected, options) => engine.checkFile(catalog, expected, options),
    attach: (catalog) => engine.attach(catalog),
    rowNumbering: (table, definition) => engine.rowNumbering(table, definition),
    tableStatistics: (table) => engine.tableStatistics(table),
    takeChangedTables: () => engine.takeChangedTables(),
    apply: (change, options) => turns.changing(change, options.signal, () => engine.apply(change, options)),
    execute: (statement, options) =>
      turns.writing(options.analysis.writes, options.signal, () => engine.execute(statement, options)),
    remember: (resultPath, step) => engine.remember(resultPath, step),
    inferTable: (work, turn) => engine.inferTable(work, turn),
    loadedBefore: (catalog, step) => engine.loadedBefore(catalog, step),
    load: (work, options) => {
      const { catalog, database, table } = work.table;
      return turns.writing([{ catalog: catalog.name, database, table }], options.signal, () =>
        engine.load(work, options),
      );
    },
    snapshot: (catalog, options) => engine.snapshot(catalog, options),
    restorePart: (part, options) => {
      const { catalog, database, table } = part.table;
      return turns.writing([{ catalog: catalog.name, database, table }], options.signal, () =>
        engine.restorePart(part, options),
      );
    },
    insertRows: (table, batch, options) => {
      const written = { catalog: table.catalog.name, database: table.database, table: table.table };
      return turns.writing([written], options.signal, () => engine.insertRows(table, batch, options));
    },
  };
}
