// Renames a table on every server. A server that lacks its rows would be left without them under the new name, and is given the table first.
import type { Change } from '../../port/changes.ts';
import { lacksTableFailure } from '../cluster/missing_tables.ts';
import type { ClickHouseServer, StoredNames } from '../connection/server.ts';
import { namesOf } from '../names.ts';
import type { ChangeOn } from './change_on.ts';
import { distribute } from './distribute.ts';

type Renaming = Extract<Change, { readonly kind: 'renameTable' }>;

interface Places {
  readonly from: StoredNames;
  readonly to: StoredNames;
}

export async function renameTable(on: ChangeOn, { table, newName, definition }: Renaming): Promise<void> {
  const place = { ...table, catalog: table.catalog.name };
  const [from, to] = [namesOf(place), namesOf({ ...place, table: newName })];
  const { database } = from;
  const { lacking, isBegun } = await findLocalTables(on, { from, to });
  if (lacking.length > 0 && !isBegun) throw await lacksTable(on, lacking);
  await on.onEach((tables) =>
    tables.renameTable({ database, table: from.localTable }, { database, table: to.localTable }),
  );
  // They get it under the new name, which all others have by now.
  if (lacking.length > 0) throw await lacksTable(on, lacking);
  await distribute(on, { ...table, table: newName }, definition);
  await on.onEach((tables) => tables.dropTable(database, from.table));
}

/** The servers that have the rows under neither name, and whether an earlier attempt has renamed them on others. */
async function findLocalTables(on: ChangeOn, { from, to }: Places) {
  const lacking: ClickHouseServer[] = [];
  let isBegun = false;
  await on.cluster.onEach(
    async (server) => {
      const tables = on.tablesOf(server);
      const hasNew = await tables.hasTable(to.database, to.localTable);
      if (hasNew) isBegun = true;
      else if (!(await tables.hasTable(from.database, from.localTable))) lacking.push(server);
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
