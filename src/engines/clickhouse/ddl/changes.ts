// Changes of catalogs, databases, tables and views. They are made on every server one by one, each step so that it does nothing when it is
// repeated: a change that a lost server interrupts is carried to its end by its repetition.
import type { CatalogRef, Change, ChangeCost, EngineWarehouse, TableRef } from '../../engine.ts';
import type { WarehouseContext } from '../context.ts';
import { alterTable, costOfAlteration } from './alter_table.ts';
import { type ChangeOn, changeHandlers } from './change_handlers.ts';
import { ServerTables } from './server_tables.ts';

export type ChangeMethods = Pick<EngineWarehouse, 'cost' | 'apply' | 'forget'>;

export const changesOf = (context: WarehouseContext): ChangeMethods => ({
  cost: async (change) => costOf(change),
  apply: (change, { step, undoes, signal }) =>
    context.run(signal, async (runSignal) => {
      const catalog = catalogOf(change);
      const found = await context.steps.find(catalog, [step]);
      if (found.get(step)?.isApplied) return undefined;
      // A call with that step that arrives from now on does nothing.
      if (undoes !== undefined) await context.steps.record(catalog, [{ step: undoes, state: 'undone' }]);
      await applyChange(context, change, step, runSignal);
      // Only here does nothing else show that the work was done.
      if (change.kind === 'truncateTable') await context.steps.record(catalog, [{ step, state: 'applied' }]);
      markChanged(context, change);
      return undefined;
    }),
  // Steps end by their age, which is longer than a call can be late.
  forget: async () => undefined,
});

function catalogOf(change: Change): CatalogRef {
  if ('catalog' in change) return change.catalog;
  if ('database' in change) return change.database.catalog;
  return 'table' in change ? change.table.catalog : change.view.catalog;
}

const costOf = (change: Change): ChangeCost => (change.kind === 'alterTable' ? costOfAlteration(change) : 'instant');

async function applyChange(
  context: WarehouseContext,
  change: Change,
  step: string,
  signal: AbortSignal,
): Promise<void> {
  const { cluster } = context;
  const on: ChangeOn = {
    cluster,
    step,
    signal,
    onEach: async (work) => {
      await cluster.onEach((server) => work(new ServerTables(server, signal)));
    },
    onEachCopy: async (work) => {
      const run = (server: ConstructorParameters<typeof ServerTables>[0]) => work(new ServerTables(server, signal));
      await (cluster.isReplicated ? cluster.onEachShard(run) : cluster.onEach(run));
    },
  };
  if (change.kind === 'alterTable') return await alterTable(on, change);
  await changeHandlers.apply(on, change);
}

function markChanged({ changed }: WarehouseContext, change: Change): void {
  if (!('table' in change) || change.kind === 'dropTable' || change.kind === 'hideTable') return;
  const { catalog, database, table }: TableRef = change.table;
  changed.add({ catalog: catalog.name, database, table: change.kind === 'renameTable' ? change.newName : table });
}
