// Creates the table with the rows of a server. What has its name there already is kept if the same change has made it, in an earlier attempt.
// Otherwise nobody uses it, because the name belongs to this change: a creation that arrived after its change was undone has left it.
import { asideDatabase } from '../replication/missed_changes.ts';
import type { MarkedTable, ServerTables, TablePlace } from './server_tables.ts';
import { createLocalSql, type LocalTable, markOf } from './table_sql.ts';

export async function createLocalTable(tables: ServerTables, local: LocalTable): Promise<void> {
  const { database, localTable: table } = local.names;
  const sql = createLocalSql(local);
  await tables.run(sql);
  const place = { database, table };
  const left = await tables.markedTable(place);
  if (!left) return;
  // What an earlier version has created has no mark, which it gets, so that it is defined alike on all servers.
  if (!local.isReplicated && left.comment === '') return tables.commentTable(place, markOf(local).mark);
  if (isOf(local, left)) return;
  if (left.hasRows) await moveAside(tables, place, left.uuid);
  else await tables.dropTable(database, table);
  await tables.run(sql);
}

function isOf(local: LocalTable, { engineFull, comment }: MarkedTable): boolean {
  const { begin, mark } = markOf(local);
  const text = local.isReplicated ? engineFull : comment;
  return !text.startsWith(begin) || text.startsWith(mark);
}

/** Nothing proves that its rows were dropped, which a server may have missed. */
async function moveAside(tables: ServerTables, place: TablePlace, uuid: string): Promise<void> {
  await tables.createDatabase(asideDatabase);
  await tables.renameTable(place, { database: asideDatabase, table: uuid });
}
