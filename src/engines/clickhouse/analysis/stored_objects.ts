// Looks up tables and views on the servers: whether they exist, and the definitions of views, which are those that the servers run. The tables
// under a view are found by its definition, recursively.
import { createHash } from 'node:crypto';
import { Failure } from '../../../standard/failure.ts';
import type { TableName } from '../../port/refs.ts';
import { isUndefinedTable } from '../cluster/missing_tables.ts';
import type { ClickHouseServer, NamesOf, StoredNames } from '../connection/server.ts';
import { foldedName, quoteLiteral } from '../sql/identifiers.ts';
import { analysisTimeoutMs, statementLimits } from '../sql/statement_limits.ts';

/** Between the names of callers and those on the servers. */
export interface NameCodec {
  readonly stored: NamesOf;
  /** Undefined for what callers cannot name, such as the local tables of a server. */
  readonly named: (stored: Pick<StoredNames, 'database' | 'table'>) => TableName | undefined;
}

export interface StoredObject {
  readonly name: TableName;
  readonly stored: StoredNames;
  /** The query of a view. */
  readonly viewQuery: string | undefined;
  /** Of its whole definition, the same on every server. */
  readonly definition: string;
}

interface TableRow {
  readonly database: string;
  readonly name: string;
  readonly engine: string;
  readonly create_table_query: string;
  readonly as_select: string;
  readonly comment: string;
}

/** The statement that would create an object, on one line. */
export const createQueryOf = ({ definition }: StoredObject): string => (JSON.parse(definition) as DefinitionParts)[1];

export const engineOf = ({ definition }: StoredObject): string => (JSON.parse(definition) as DefinitionParts)[0];

/** The engine, the statement that would create it, and the comment. */
type DefinitionParts = readonly [string, string, string];

export const keyOf = ({ catalog, database, table }: TableName): string =>
  JSON.stringify([catalog, database, table].map(foldedName));

/**
 * Reads what the server has of these names now; names that it does not have are missing in the result. By `keyOf`. Throws 503 if it lacks one
 * that is defined.
 */
export async function readObjects(
  server: ClickHouseServer,
  names: readonly TableName[],
  codec: NameCodec,
): Promise<Map<string, StoredObject>> {
  const found = new Map<string, StoredObject>();
  const distinct = new Map(names.map((name) => [keyOf(name), name]));
  if (distinct.size === 0) return found;
  if (distinct.size > statementLimits.namedTables)
    throw new Failure('SQL_INVALID', `the statement names more than ${statementLimits.namedTables} tables`, {
      line: 1,
      column: 1,
    });
  const add = (rows: readonly TableRow[]) => {
    for (const row of rows) {
      const name = codec.named({ database: row.database, table: row.name });
      if (!name || !distinct.has(keyOf(name))) continue;
      const { engine, create_table_query: definition, comment } = row;
      found.set(keyOf(name), {
        name,
        stored: codec.stored(name),
        viewQuery: engine === 'View' ? row.as_select : undefined,
        definition: JSON.stringify([engine, definition, comment] satisfies DefinitionParts),
      });
    }
  };
  const all = [...distinct.values()];
  // A condition on pairs of names would be checked for every table of the server.
  add(await rowsWhere(server, all, codec, (name) => name));
  const missing = all.filter((name) => !found.has(keyOf(name)));
  // In another spelling: names are compared without regard to case.
  const addMissing = async () => add(await rowsWhere(server, missing, codec, (name) => `lowerUTF8(${name})`));
  if (missing.length > 0) await addMissing();
  // With one that does not exist, it does not matter whether others do.
  const absent = missing.find((name) => !found.has(keyOf(name)));
  if (absent && !(await isUndefinedTable(server, codec.stored(absent)))) await addMissing();
  return found;
}

/** The tables with one of the databases and one of the names: those asked for, and perhaps others. `compared`: what is compared of both. */
async function rowsWhere(
  server: ClickHouseServer,
  names: readonly TableName[],
  { stored }: NameCodec,
  compared: (sql: string) => string,
): Promise<TableRow[]> {
  const listed = (part: 'database' | 'table') =>
    [...new Set(names.map((name) => stored(name)[part]))].map((text) => compared(quoteLiteral(text))).join(', ');
  return server.rows<TableRow>({
    sql:
      'SELECT database, name, engine, create_table_query, as_select, comment FROM system.tables ' +
      `WHERE ${compared('database')} IN (${listed('database')}) AND ${compared('name')} IN (${listed('table')})`,
    timeoutMs: analysisTimeoutMs,
  });
}

/** Identifies the definitions that a statement was bound to. */
export function tokenOf(objects: Iterable<StoredObject>): string {
  const parts = [...objects].map(({ stored, definition }) => [stored.database, stored.table, definition]);
  const sorted = parts.map((part) => JSON.stringify(part)).sort();
  return createHash('sha256').update(JSON.stringify(sorted)).digest('base64url');
}
