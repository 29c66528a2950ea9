// Which databases on a server belong to which catalog. A name proves nothing: other installations, and operators, can have databases of the same
// names on the same servers. The comment of a database has the id of its catalog; that of dropped tables has it in its name.
import { Failure } from '../../standard/failure.ts';
import type { ClickHouseServer, ServerCall } from './connection/server.ts';
import { hiddenDatabase } from './names.ts';
import { quoteLiteral } from './sql/identifiers.ts';

export interface StoredDatabase {
  readonly name: string;
  readonly comment: string;
}

/** Whether a database on a server belongs to the warehouse. */
export type OwnsDatabase = (database: StoredDatabase) => boolean;

export const isSameDatabase = (one: StoredDatabase, other: StoredDatabase): boolean =>
  one.name === other.name && one.comment === other.comment;

const commentPrefix = 'Tabularium catalog ';

export const databaseComment = (catalogId: string): string => `${commentPrefix}${catalogId}`;

/** The id of the catalog that a database was created for; undefined if nothing says so. */
export const catalogOf = ({ comment }: Pick<StoredDatabase, 'comment'>): string | undefined =>
  comment.startsWith(commentPrefix) ? comment.slice(commentPrefix.length) : undefined;

export function databasesOf(catalogIds: readonly string[]): OwnsDatabase {
  const comments = new Set(catalogIds.map(databaseComment));
  const ofDropped = new Set(catalogIds.map(hiddenDatabase));
  return ({ name, comment }) => comments.has(comment) || ofDropped.has(name);
}

/** A condition for the column `database` of a system table: it is of the catalog, under whatever name. */
export const isOfCatalogSql = (catalogId: string): string =>
  `database IN (SELECT name FROM system.databases WHERE comment = ${quoteLiteral(databaseComment(catalogId))})`;

/** All databases of a server. Those of servers that are older than the product needs have no comments. */
export async function readDatabases(
  server: ClickHouseServer,
  call: Pick<ServerCall, 'timeoutMs' | 'signal' | 'settings'>,
): Promise<StoredDatabase[]> {
  const sql = 'SELECT * FROM system.databases ORDER BY name';
  const rows = await server.rows<{ name: string; comment?: string }>({ ...call, sql });
  return rows.map(({ name, comment = '' }) => ({ name, comment }));
}

/** Why a catalog cannot have this database. */
export function databaseTaken(database: StoredDatabase): Failure {
  const why =
    catalogOf(database) === undefined
      ? 'does not say that it belongs to a catalog: remove it, use another name, or, if it is of this catalog, give it the comment that it needs (docs/clickhouse.md)'
      : 'is of another catalog, which may be about to be removed: retry later. If that catalog is of another installation, use another name; if it no longer exists, remove the database';
  return new Failure('CHANGE_IN_PROGRESS', `the servers have a database ${JSON.stringify(database.name)} that ${why}`);
}
