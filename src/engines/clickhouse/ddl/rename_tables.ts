// Gives tables other names on every server. A server that lacks the rows of one would be left without them under the new name, and is given the
// table first.
import type { Change } from '../../port/changes.ts';
import { lacksTableFailure } from '../cluster/missing_tables.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { namesOf } from '../names.ts';
import type { ChangeOn } from './change_on.ts';
import { distribute } from './distribute.ts';
import type { TablePlace } from './server_tables.ts';

/** Of the table with the rows of a server. */
export interface LocalRename {
  readonly from: TablePlace;
  readonly to: TablePlace;
}

export async function renameTable(
  on: ChangeOn,
  { table, newName, definition }: Extract<Change, { readonly kind: 'renameTable' }>,
): Promise<void> {
  const place = { ...table, catalog: table.catalog.name };
  const [from, to] = [namesOf(place), namesOf({ ...place, table: newName })];
  const { database } = from;
  await renameLocalTables(on, [{ from: { database, table: from.localTable }, to: { database, table: to.localTable } }]);
  await distribute(on, { ...table, table: newName }, definition);
  await on.onEach((tables) => tables.dropTable(database, from.table));
}

/** `newDatabase`: is created first. Throws WAREHOUSE_FAILED if a server lacks a table under both names. */
export async function renameLocalTables(
  on: ChangeOn,
  renames: readonly LocalRename[],
  newDatabase?: { readonly catalogId: string; readonly name: string },
): Promise<void> {
  const { lacking, isBegun } = await findLacking(on, renames);
  if (lacking.length > 0 && !isBegun) throw await lacksTable(on, lacking);
  await on.onEach(async (tables) => {
    if (newDatabase) await tables.createDatabaseOf(newDatabase.catalogId, newDatabase.name);
    for (const { from, to } of renames) await tables.renameTable(from, to);
  });
  // They get it under the new name, which all others have by now.
  if (lacking.length > 0) throw await lacksTable(on, lacking);
}

/** The servers that lack a table under both names, and whether an earlier attempt has renamed one. */
async function findLacking(on: ChangeOn, renames: readonly LocalRename[]) {
  const lacking: ClickHouseServer[] = [];
  let isBegun = false;
  await on.cluster.onEach(
    async (server) => {
      const tables = on.tablesOf(server);
      let hasAll = true;
      for (const { from, to } of renames) {
        if (await tables.hasTable(to.database, to.table)) isBegun = true;
        else if (!(await tables.hasTable(from.database, from.table))) hasAll = false;
      }
      if (!hasAll) lacking.push(server);
    },
    { isBegunWork: true },
  );
  return { lacking, isBegun };
}

/** Where servers cannot replicate, nothing can be given to them until the store says again what the name of the table is. */
async function lacksTable({ cluster }: ChangeOn, lacking: readonly ClickHouseServer[]) {
  if (cluster.isReplicated) await cluster.loseLacking(lacking);
  return lacksTableFailure();
}
