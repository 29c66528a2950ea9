// Applies each kind of Change (see engine.ts) on one connection: atomically and idempotently, and with a recorded step if the state of the
// catalog does not show that the change was applied. The SQL comes from table_ddl.ts and alter_table_sql.ts; catalog_files.ts handles files.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { Change, ChangeCost, DroppedTableDefinition } from '../../port/changes.ts';
import type { CatalogRef, DatabaseRef, TableRef } from '../../port/refs.ts';
import type { Applied, AppliedView } from '../../port/views.ts';
import { inTransaction, isConflict, rememberStep, retryingConflicts, rowsOf } from '../instance/applied_steps.ts';
import { type Stage, stagesOf } from '../instance/progress.ts';
import { isConstraintError, violatedByAlteration } from '../query/constraint_violations.ts';
import { type DataAccess, planAlteration } from '../sql/alter_table_sql.ts';
import { qualifiedSchema, qualifiedTable, quoteIdentifier, sameName } from '../sql/identifiers.ts';
import { createTableText, createUniqueKeyTexts, dropIndexText, nameList } from '../sql/table_ddl.ts';
import type { AttachMessage } from '../storage/attachments.ts';
import {
  attachCatalog,
  createCatalog,
  detachCatalog,
  removeCatalog,
  retryingBusyFile,
} from '../storage/catalog_files.ts';
import {
  dropDatabase,
  dropHidden,
  dropIfEmpty,
  droppedTableName,
  hideDatabase,
  hideTables,
  restoreDatabase,
  restoreTables,
} from './dropped_tables.ts';
import { copyWeights, countRows } from './table_statistics.ts';
import { boundViews, createView, dropView, dropViewsOf, renameView, replaceView, restoreViews } from './views.ts';

export interface ApplyOptions {
  readonly dataDirectory: string;
  readonly step: string;
  readonly signal?: AbortSignal | undefined;
  readonly stage?: Stage | undefined;
  /** Called with each catalog that a change attaches. */
  readonly report?: ((message: AttachMessage) => void) | undefined;
}

interface HandlerOptions extends ApplyOptions {
  /** Reports the views that the change affected. */
  readonly reportViews: (views: readonly AppliedView[]) => void;
}

type ChangeOf<K extends Change['kind']> = Extract<Change, { readonly kind: K }>;
interface ChangeHandler<C> {
  readonly cost: (connection: DuckDBConnection, change: C) => ChangeCost | Promise<ChangeCost>;
  readonly apply: (connection: DuckDBConnection, change: C, options: HandlerOptions) => Promise<void>;
}

/** Rewriting fewer rows than this takes less time than creating a task for it. */
const rewriteRowsMin = 100_000;
/** Reading fewer rows than this, or adding a column of nulls to them, takes well under a second. */
const readRowsMin = 20_000_000;
const rowsMin: Record<DataAccess, number> = {
  none: Number.POSITIVE_INFINITY,
  reads: readRowsMin,
  writes: rewriteRowsMin,
};
/** Fewer small tables than this are moved between schemas at once, without a task. */
const movedTablesMin = 100;

const instant = (): ChangeCost => 'instant';

const changeHandlers: { readonly [K in Change['kind']]: ChangeHandler<ChangeOf<K>> } = {
  createCatalog: {
    cost: instant,
    apply: async (connection, { catalog }, { dataDirectory, report }) => {
      const identity = await createCatalog(connection, dataDirectory, catalog);
      report?.({ kind: 'attached', catalog, identity });
    },
  },
  dropCatalog: {
    cost: instant,
    apply: (connection, { catalog }, { dataDirectory }) => removeCatalog(connection, dataDirectory, catalog),
  },
  renameCatalog: {
    cost: instant,
    apply: async (connection, { catalog, newName }, { dataDirectory, signal, report }) => {
      const renamed: CatalogRef = { id: catalog.id, name: newName };
      // It detaches the old name first. A query that still uses that keeps the file open until it ends; attaching waits for that.
      const attach = () => attachCatalog(connection, dataDirectory, renamed);
      const identity = await retryingBusyFile(attach, signal);
      report?.({ kind: 'attached', catalog: renamed, identity });
    },
  },
  hideCatalog: {
    cost: instant,
    apply: (connection, { catalog }, { dataDirectory }) => detachCatalog(connection, dataDirectory, catalog),
  },
  restoreCatalog: {
    cost: instant,
    apply: async (connection, { catalog, views = [] }, { dataDirectory, reportViews, report }) => {
      const identity = await attachCatalog(connection, dataDirectory, catalog);
      report?.({ kind: 'attached', catalog, identity });
      await dropViewsOf(connection, { catalog });
      reportViews(await restoreViews(connection, catalog, views));
    },
  },
  createDatabase: {
    cost: instant,
    apply: async (connection, { database }) => {
      await connection.run(`CREATE SCHEMA IF NOT EXISTS ${qualifiedSchema(database)}`);
    },
  },
  dropDatabase: {
    cost: instant,
    apply: (connection, { database, hidden = [] }) =>
      ignoringMissing(async () => {
        await inTransaction(connection, async () => {
          await dropHidden(connection, database.catalog, hidden);
          await dropDatabase(connection, database);
        });
      }),
  },
  hideDatabase: {
    cost: instant,
    apply: (connection, change) =>
      inTransaction(connection, async () => {
        await dropViewsOf(connection, change.database);
        await hideDatabase(connection, change);
      }),
  },
  restoreDatabase: {
    cost: async (connection, { database, from, tables }) =>
      costOfRestore(connection, { ...database, database: from }, tables, !sameName(database.database, from)),
    apply: async (connection, change, { stage, reportViews }) => {
      await inTransaction(connection, () => restoreDatabase(connection, change, stage));
      reportViews(await restoreViews(connection, change.database.catalog, change.views ?? []));
    },
  },
  renameDatabase: { cost: costOfRenamedDatabase, apply: renameDatabase },
  createTable: { cost: instant, apply: createTable },
  dropTable: {
    cost: instant,
    apply: (connection, { table }) =>
      ignoringMissing(() => connection.run(`DROP TABLE IF EXISTS ${qualifiedTable(table)}`)),
  },
  hideTable: {
    cost: instant,
    apply: (connection, { table, id }) =>
      inTransaction(connection, () => hideTables(connection, table, [{ id, name: table.table }])),
  },
  restoreTable: {
    cost: async (connection, { table, from, id, definition }) =>
      costOfRestore(
        connection,
        { ...table, database: from },
        [{ id, name: table.table, definition }],
        !sameName(table.database, from),
      ),
    apply: (connection, { table, from, id, definition }, { stage }) => {
      const restored = [{ id, name: table.table, definition }];
      return inTransaction(connection, () => restoreTables(connection, table, from, restored, stage));
    },
  },
  purge: {
    cost: instant,
    apply: (connection, { catalog, hidden, databases }) =>
      inTransaction(connection, async () => {
        await dropHidden(connection, catalog, hidden);
        for (const database of databases) await dropIfEmpty(connection, { catalog, database });
      }),
  },
  renameTable: {
    // A table with an index cannot be renamed: a unique key is dropped before renaming and created again after it.
    cost: (connection, { table, definition }) =>
      costOfRows(connection, table, definition.uniqueKey.length > 0 ? 'writes' : 'none'),
    apply: renameTable,
  },
  truncateTable: {
    cost: instant,
    apply: (connection, { table }, { step }) =>
      runStepOnce(connection, table.catalog, step, async () => {
        await connection.run(`TRUNCATE ${qualifiedTable(table)}`);
      }),
  },
  alterTable: {
    cost: (connection, change) => costOfRows(connection, change.table, planAlteration(change).work),
    apply: alterTable,
  },
  createView: { cost: instant, apply: createView },
  replaceView: {
    cost: instant,
    apply: async (connection, change, { reportViews }) => reportViews(await replaceView(connection, change)),
  },
  renameView: { cost: instant, apply: renameView },
  dropView: { cost: instant, apply: (connection, { view }) => ignoringMissing(() => dropView(connection, view)) },
};

export async function costOf(connection: DuckDBConnection, change: Change): Promise<ChangeCost> {
  return handlerOf(change).cost(connection, change);
}

/** Idempotent. Throws Failure CONSTRAINT_VIOLATED, WAREHOUSE_BUSY, STATEMENT_CANCELLED, or DuckDB's own error. */
export async function applyChange(
  connection: DuckDBConnection,
  change: Change,
  options: ApplyOptions,
): Promise<Applied | undefined> {
  const { signal } = options;
  const interrupt = (): void => connection.interrupt();
  if (signal?.aborted) throw cancelled();
  signal?.addEventListener('abort', interrupt);
  try {
    let views: readonly AppliedView[] = [];
    const reportViews = (applied: readonly AppliedView[]) => {
      views = applied;
    };
    await retryingConflicts(() => handlerOf(change).apply(connection, change, { ...options, reportViews }), signal);
    return views.length === 0 ? undefined : { views };
  } catch (error) {
    if (signal?.aborted && !(error instanceof Failure)) throw cancelled();
    if (isConflict(error)) {
      throw new Failure(
        'WAREHOUSE_BUSY',
        'other statements keep changing the object; retry later',
        {},
        { cause: error },
      );
    }
    throw error;
  } finally {
    signal?.removeEventListener('abort', interrupt);
  }
}

const cancelled = (): Failure => new Failure('STATEMENT_CANCELLED', 'the change was cancelled; nothing was changed');

/** `changeHandlers` pairs kinds and handlers, but the type checker loses the pairing in a lookup by a union type. */
function handlerOf(change: Change): ChangeHandler<Change> {
  return changeHandlers[change.kind] as ChangeHandler<Change>;
}

async function createTable(connection: DuckDBConnection, change: ChangeOf<'createTable'>): Promise<void> {
  const { table, definition } = change;
  const createKey = createUniqueKeyTexts(table, definition);
  if (createKey.length === 0) {
    // A single statement is a single commit, which determines how many tables can be created per second.
    await connection.run(createTableText(table, definition, { ifNotExists: true }));
    return;
  }
  try {
    await runAll(connection, [createTableText(table, definition, { ifNotExists: false }), ...createKey]);
  } catch (error) {
    if (!(error instanceof Error && /already exists/.test(error.message))) throw error;
  }
}

async function renameTable(
  connection: DuckDBConnection,
  { table, newName, definition }: ChangeOf<'renameTable'>,
  { step }: ApplyOptions,
): Promise<void> {
  const renamed: TableRef = { ...table, table: newName };
  const rename = (from: TableRef, to: string): string =>
    `ALTER TABLE ${qualifiedTable(from)} RENAME TO ${quoteIdentifier(to)}`;
  await runStepOnce(connection, table.catalog, step, async () => {
    for (const index of await indexesOf(connection, table)) await connection.run(dropIndexText(table, index));
    if (sameName(newName, table.table)) {
      const temporary: TableRef = { ...table, table: `__tabularium_${step}` };
      await connection.run(rename(table, temporary.table));
      await connection.run(rename(temporary, newName));
    } else {
      await connection.run(rename(table, newName));
    }
    for (const text of createUniqueKeyTexts(renamed, definition)) await connection.run(text);
  });
}

async function alterTable(
  connection: DuckDBConnection,
  change: ChangeOf<'alterTable'>,
  { step, signal, stage, reportViews }: HandlerOptions,
): Promise<void> {
  const plan = planAlteration(change);
  let views: readonly AppliedView[] | undefined;
  try {
    await runStepOnce(connection, change.table.catalog, step, async () => {
      const indexes = plan.touchesIndex ? await indexesOf(connection, change.table) : [];
      const texts = plan.statements(indexes);
      const next = stagesOf(
        stage,
        texts.map((text) => Number(scansRows(text, plan.rewrite))),
      );
      for (const text of texts) {
        if (signal?.aborted) throw cancelled();
        next();
        await connection.run(text);
      }
      views = await boundViews(connection, change.views ?? []);
    });
    // If the step was applied before, the views changed then.
    reportViews(views ?? (await boundViews(connection, change.views ?? [])));
  } catch (error) {
    if (!isConstraintError(error)) throw error;
    const violation = await violatedByAlteration(connection, change);
    throw (
      violation ??
      new Failure('CONSTRAINT_VIOLATED', 'the data does not satisfy the changed definition', {}, { cause: error })
    );
  }
}

/** Whether a statement of an alteration reads or writes rows, and so takes long. In a rewrite, ALTER only renames the table. */
const scansRows = (text: string, isRewrite: boolean): boolean =>
  /^(?:INSERT|CREATE UNIQUE INDEX)/.test(text) || (!isRewrite && text.startsWith('ALTER'));

async function costOfRenamedDatabase(
  connection: DuckDBConnection,
  { database, newName, tables }: ChangeOf<'renameDatabase'>,
): Promise<ChangeCost> {
  if (sameName(database.database, newName)) return 'instant';
  if (tables.length >= movedTablesMin) return 'rewrite';
  let rows = 0;
  for (const table of tables) rows += await countRows(connection, { ...database, table: table.name });
  return rows >= rewriteRowsMin ? 'rewrite' : 'instant';
}

/** DuckDB can neither rename a schema nor move a table between schemas, so a new schema is filled and the old one dropped. */
async function renameDatabase(
  connection: DuckDBConnection,
  { database, newName, tables }: ChangeOf<'renameDatabase'>,
  { step, signal, stage }: ApplyOptions,
): Promise<void> {
  // DuckDB ignores the case of names, so only the metadata store's spelling changes.
  if (sameName(database.database, newName)) return;
  const renamed: DatabaseRef = { ...database, database: newName };
  await runStepOnce(connection, database.catalog, step, async () => {
    // The schema exists already only if it is DuckDB's own `main`: the catalog has excluded all others.
    await connection.run(`CREATE SCHEMA IF NOT EXISTS ${qualifiedSchema(renamed)}`);
    const copied = tables.map(({ name, definition }) => ({ table: { ...database, table: name }, definition }));
    const next = stagesOf(stage, await copyWeights(connection, copied));
    for (const { name, definition } of tables) {
      if (signal?.aborted) throw cancelled();
      const target: TableRef = { ...renamed, table: name };
      const columns = nameList(definition.columns.map((c) => c.name));
      await connection.run(createTableText(target, definition, { ifNotExists: false }));
      next();
      await connection.run(
        `INSERT INTO ${qualifiedTable(target)} (${columns}) SELECT ${columns} FROM ${qualifiedTable({ ...database, table: name })}`,
      );
      next();
      for (const text of createUniqueKeyTexts(target, definition)) await connection.run(text);
    }
    await dropDatabase(connection, database);
  });
}

/** Runs `work` and records the step in one transaction; does nothing if the step is recorded already. */
async function runStepOnce(
  connection: DuckDBConnection,
  catalog: CatalogRef,
  step: string,
  work: () => Promise<void>,
): Promise<void> {
  await inTransaction(connection, async () => {
    if (await rememberStep(connection, catalog.name, step)) await work();
  });
}

async function runAll(connection: DuckDBConnection, statements: readonly string[]): Promise<void> {
  await inTransaction(connection, async () => {
    for (const statement of statements) await connection.run(statement);
  });
}

/** A restored table is rewritten if it is restored into another database, or if its unique key has to be created again. */
async function costOfRestore(
  connection: DuckDBConnection,
  from: DatabaseRef,
  tables: readonly DroppedTableDefinition[],
  moves: boolean,
): Promise<ChangeCost> {
  if (moves && tables.length >= movedTablesMin) return 'rewrite';
  let rows = 0;
  for (const { id, definition } of tables) {
    if (moves || definition.uniqueKey.length > 0) rows += await countRows(connection, droppedTableName(from, id));
  }
  return rows >= rewriteRowsMin ? 'rewrite' : 'instant';
}

async function costOfRows(connection: DuckDBConnection, table: TableRef, work: DataAccess): Promise<ChangeCost> {
  if (work === 'none') return 'instant';
  return (await countRows(connection, table)) >= rowsMin[work] ? 'rewrite' : 'instant';
}

async function indexesOf(connection: DuckDBConnection, table: TableRef): Promise<string[]> {
  const rows = await rowsOf(
    connection,
    'SELECT index_name FROM duckdb_indexes() WHERE lower(database_name) = lower($1) AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3)',
    [table.catalog.name, table.database, table.table],
  );
  return rows.map(([name]) => String(name));
}

/** Ignores that an object to drop, or its parent, does not exist any more. */
async function ignoringMissing(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Error && /^(?:Binder|Catalog) Error: .*does not exist/s.test(error.message))) throw error;
  }
}
