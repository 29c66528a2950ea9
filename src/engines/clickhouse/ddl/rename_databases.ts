// Gives databases of a catalog other names on every server. A database of another catalog that has such a name is not touched: it refuses the change.
import { withOutcome } from '../../../standard/failure.ts';
import { localTableOf } from '../names.ts';
import { databaseComment, databaseTaken, type StoredDatabase } from '../owned_databases.ts';
import type { ChangeOn } from './change_on.ts';

export interface DatabaseRename {
  readonly catalogId: string;
  /** The beginning of the names, or with `isWhole` the name of a single database. */
  readonly from: string;
  readonly to: string;
  readonly isWhole?: boolean;
}

/** Throws CHANGE_IN_PROGRESS. Does nothing with what has its new name already. */
export async function renameDatabases(on: ChangeOn, rename: DatabaseRename): Promise<void> {
  await requireFree(on, rename);
  await on.onEach(async (tables) => {
    for (const { from, to } of renamesOf(await tables.databases(), rename)) await tables.renameDatabase(from, to);
  });
  // Distributed tables name the database that they read from, so that they are made anew when all servers have the new one.
  await on.onEach(async (tables) => {
    for (const { name } of renamed(await tables.databases(), rename))
      await tables.redistribute(on.cluster.name, name, localTableOf);
  });
}

const isNamed = (name: string, beginning: string, { isWhole = false }: DatabaseRename): boolean =>
  isWhole ? name === beginning : name.startsWith(beginning);

/** Those of the catalog that have their new names. */
function renamed(databases: readonly StoredDatabase[], rename: DatabaseRename): readonly StoredDatabase[] {
  const comment = databaseComment(rename.catalogId);
  return databases.filter((each) => each.comment === comment && isNamed(each.name, rename.to, rename));
}

function renamesOf(databases: readonly StoredDatabase[], rename: DatabaseRename) {
  const { catalogId, from, to } = rename;
  const comment = databaseComment(catalogId);
  return databases
    .filter((each) => each.comment === comment && isNamed(each.name, from, rename))
    .map(({ name }) => ({ from: name, to: `${to}${name.slice(from.length)}` }));
}

/** Before a server does anything: one of them alone may have what is in the way. */
async function requireFree(on: ChangeOn, rename: DatabaseRename): Promise<void> {
  const comment = databaseComment(rename.catalogId);
  let isBegun = false;
  let taken: StoredDatabase | undefined;
  await on.cluster.onEach(
    async (server) => {
      const databases = await on.tablesOf(server).databases();
      const wanted = new Set(renamesOf(databases, rename).map(({ to }) => to));
      taken ??= databases.find(({ name, comment: other }) => wanted.has(name) && other !== comment);
      isBegun ||= renamed(databases, rename).length > 0;
    },
    { isBegunWork: true },
  );
  if (taken) throw withOutcome(databaseTaken(taken), isBegun ? 'unknown' : 'notApplied');
}
