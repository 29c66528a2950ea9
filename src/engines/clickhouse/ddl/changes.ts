// Changes of catalogs, databases, tables and views. They are made on every server one by one, each step so that it does nothing when it is
// repeated: a change that a lost server interrupts is carried to its end by its repetition.
import { withOutcome } from '../../../standard/failure.ts';
import { type Change, type ChangeCost, catalogOf } from '../../port/changes.ts';
import type { EngineWarehouse } from '../../port/engine.ts';
import type { TableRef } from '../../port/refs.ts';
import type { Applied, AppliedView } from '../../port/views.ts';
import { lacksTableFailure } from '../cluster/missing_tables.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { namesOf, storedDatabase } from '../names.ts';
import { isAbsent } from '../replication/server_errors.ts';
import type { PendingSearch } from '../steps/applied_steps.ts';
import { Claims } from '../steps/claim.ts';
import { completeBefore, refuseLeft } from '../steps/left_writes.ts';
import { alterTable, costOfAlteration } from './alter_table.ts';
import { changeHandlers, givesNames, takesNames } from './change_handlers.ts';
import type { ChangeOn } from './change_on.ts';
import { ServerTables } from './server_tables.ts';

export type ChangeMethods = Pick<EngineWarehouse, 'cost' | 'apply' | 'forget'>;

export const changesOf = (context: WarehouseContext): ChangeMethods => ({
  cost: async (change) => costOf(change),
  apply: (change, { step, undoes, work = undoes ?? step, confirm = async () => undefined, signal }) =>
    context.run(signal, async (runSignal) => {
      const catalog = catalogOf(change);
      const found = await context.steps.find(catalog, [step]);
      if (found.get(step)?.isApplied) return undefined;
      // A call with that step that arrives from now on does nothing.
      if (undoes !== undefined) await context.steps.record(catalog, [{ step: undoes, state: 'undone' }]);
      const place = placeChangedBy(change);
      if (place) await completeBefore(context, catalog, { place });
      const newPlace = placeOfNewTable(change);
      if (newPlace) await refuseLeft(context, catalog, { place: newPlace });
      const claims = isFenced(change) ? new Claims(work, confirm) : undefined;
      let applied: Applied | undefined;
      try {
        // On all servers that an earlier attempt may have called.
        await claims?.takeOn(context.cluster.availableServers());
        applied = await applyChange(context, change, { step, claims, signal: runSignal });
      } finally {
        await claims?.drop();
      }
      // Only here does nothing else show that the work was done.
      if (change.kind === 'truncateTable') await context.steps.record(catalog, [{ step, state: 'applied' }]);
      markChanged(context, change);
      return applied;
    }),
  // Steps end by their age, which is longer than a call can be late.
  forget: async () => undefined,
});

/** Of the rows that the change moves, removes or gives another form, unless it drops them. */
function placeChangedBy(change: Change): PendingSearch['place'] {
  switch (change.kind) {
    case 'alterTable':
    case 'renameTable':
    case 'hideTable':
    case 'truncateTable':
      return placeOf(change.table);
    case 'renameDatabase':
    case 'hideDatabase':
      return { database: storedDatabase(change.database.catalog.name, change.database.database) };
    case 'renameCatalog':
    case 'hideCatalog':
      return {};
    default:
      return undefined;
  }
}

/** Of a table that gets a name. What an interrupted write has begun there was meant for another table, which is gone. */
function placeOfNewTable(change: Change): PendingSearch['place'] {
  if (change.kind === 'createTable') return placeOf(change.table);
  return change.kind === 'renameTable' ? placeOf({ ...change.table, table: change.newName }) : undefined;
}

function placeOf({ catalog, database, table }: TableRef) {
  const { localTable, ...names } = namesOf({ catalog: catalog.name, database, table });
  return { database: names.database, localTable };
}

/** If it arrived late, it could be of harm to what has the name by then, or be taken for it. An empty database is not. */
const isFenced = ({ kind }: Change): boolean => kind !== 'createCatalog' && kind !== 'createDatabase';

const costOf = (change: Change): ChangeCost => (change.kind === 'alterTable' ? costOfAlteration(change) : 'instant');

interface ChangeStep {
  readonly step: string;
  readonly claims: Claims | undefined;
  readonly signal: AbortSignal;
}

async function applyChange(
  context: WarehouseContext,
  change: Change,
  { step, claims, signal }: ChangeStep,
): Promise<Applied | undefined> {
  const { cluster } = context;
  let views: readonly AppliedView[] = [];
  let isBegun = false;
  const tablesOf = (server: ClickHouseServer) => new ServerTables(server, signal);
  const run = (work: (tables: ServerTables) => Promise<void>) => async (server: ClickHouseServer) => {
    await work(tablesOf(claims ? await claims.of(server) : server));
    isBegun = true;
  };
  const { disabledReplicas } = cluster;
  const gives = givesNames.has(change.kind);
  if (gives) disabledReplicas.requireFollowed();
  // First on servers that may be given rows although they are disabled: until the others follow, they are not, because they lack the name.
  const onDisabled = async (work: (tables: ServerTables) => Promise<void>) => {
    if (takesNames.has(change.kind)) await disabledReplicas.follow(run(work), { gives });
  };
  const on: ChangeOn = {
    context,
    cluster,
    step,
    signal,
    tablesOf,
    reportViews: (applied) => {
      views = applied;
    },
    onEach: async (work) => {
      await onDisabled(work);
      await cluster.onEach(run(work), { isBegunWork: true });
    },
    onEachCopy: async (work) => {
      await (cluster.isReplicated ? cluster.onEachShard(run(work)) : cluster.onEach(run(work), { isBegunWork: true }));
    },
  };
  try {
    if (change.kind === 'alterTable') await alterTable(on, change);
    else await changeHandlers.apply(on, change);
  } catch (error) {
    // A server has lost what the change has just made there, because another process took it out of service meanwhile.
    const failure = isAbsent(error) ? lacksTableFailure() : error;
    // Another server may have done what one that was lost has not.
    throw isBegun ? withOutcome(failure, 'unknown') : failure;
  }
  return views.length === 0 ? undefined : { views };
}

function markChanged({ changed }: WarehouseContext, change: Change): void {
  if (!('table' in change) || change.kind === 'dropTable' || change.kind === 'hideTable') return;
  const { catalog, database, table }: TableRef = change.table;
  changed.add({ catalog: catalog.name, database, table: change.kind === 'renameTable' ? change.newName : table });
}
