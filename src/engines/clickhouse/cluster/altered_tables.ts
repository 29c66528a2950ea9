// A server whose table has other columns than the store defines, while another server has those: an operator has altered it there by hand. It is
// taken out of use. Its return makes tables without rows anew; a table with rows keeps it out of use, with the reason.
import { isDeepStrictEqual } from 'node:util';
import type { ColumnDefinition } from '../../../model/records.ts';
import type { DefinedObject } from '../../port/refs.ts';
import { namesOf, parsedDatabase, parsedTable } from '../names.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { serverType } from '../types/type_mapping.ts';
import type { Member } from './member.ts';
import type { ComparisonOptions } from './missing_tables.ts';
import { catalogColumns, checkSettings } from './server_facts.ts';

export interface AlteredTablesOptions extends ComparisonOptions {
  readonly isReplicated: () => boolean;
}

interface TableDigest {
  readonly database: string;
  readonly name: string;
  readonly digest: string;
}

interface Column {
  readonly name: string;
  readonly type: string;
}

/** The columns of a table by its name on the servers. */
type ColumnsByTable = ReadonlyMap<string, readonly Column[]>;

const message = 'its tables have other columns than those that are defined';
const callMs = 5000;
/** More tables are compared when these are the same again. */
const tablesMax = 20;

export class AlteredTables {
  readonly #options: AlteredTablesOptions;
  #isComparing = false;

  constructor(options: AlteredTablesOptions) {
    this.#options = options;
  }

  /** Compares the available members, if the columns of this one differ from those of another one. */
  async compareWith({ facts }: Member): Promise<void> {
    const available = this.#options.available();
    const isSame = (other: Member) => other.facts === undefined || other.facts.columnsDigest === facts?.columnsDigest;
    if (this.#isComparing || facts === undefined || available.every(isSame)) return;
    // Servers of different versions word the same definition differently, and nothing is made anew from another version.
    if (new Set(available.map(({ server }) => server.version)).size > 1) return;
    this.#isComparing = true;
    try {
      for (const table of await this.#differing(available)) await this.#compareTable(table, available);
    } catch {
      // The store or a server does not answer: they are compared again.
    } finally {
      this.#isComparing = false;
    }
  }

  /** The tables and views that some members have with other columns than others. */
  async #differing(members: readonly Member[]): Promise<readonly TableDigest[]> {
    const sql = `SELECT database, table AS name, toString(groupBitXor(cityHash64(position, name, type))) AS digest
      FROM system.columns WHERE ${catalogColumns} GROUP BY database, table`;
    const call = { sql, timeoutMs: callMs, settings: checkSettings };
    const rows = await Promise.all(members.map(({ server }) => server.rows<TableDigest>(call)));
    const groups = Map.groupBy(rows.flat(), ({ database, name }) => JSON.stringify([database, name]));
    return [...groups.values()]
      .filter((found) => new Set(found.map(({ digest }) => digest)).size > 1)
      .flatMap(([first]) => first ?? [])
      .slice(0, tablesMax);
  }

  /** Takes members out of use whose table differs from the definition, and from the table of a member that can give it to them. */
  async #compareTable({ database, name }: TableDigest, members: readonly Member[]): Promise<void> {
    const parsed = parsedDatabase(database);
    const read = async () => parsed && this.#options.definedObject({ ...parsed, table: parsedTable(name) });
    const object = await read();
    if (!object?.columns) return;
    const tables = await Promise.all(members.map((member) => this.#columnsOf(member, object)));
    // A change may have begun and ended while the members were asked.
    if (!isDeepStrictEqual(await read(), object)) return;
    const wanted = object.columns.map(storedColumn);
    const isRight = (index: number, table: string) => isDeepStrictEqual(tables[index]?.get(table), wanted);
    const altered = members.filter((member, index) =>
      [...(tables[index]?.keys() ?? [])].some(
        (table) =>
          !isRight(index, table) &&
          members.some((other, at) => isRight(at, table) && this.#canGive(table, object, { from: other, to: member })),
      ),
    );
    if (altered.length === 0) return;
    await this.#options.follow();
    const available = this.#options.available();
    for (const member of altered) if (available.includes(member)) this.#options.lose(member, message);
  }

  /** What has no rows is made anew from any other member; rows are read from another replica of the shard. */
  #canGive(
    table: string,
    { name }: DefinedObject,
    { from, to }: { readonly from: Member; readonly to: Member },
  ): boolean {
    return table === namesOf(name).table || from.shard === to.shard;
  }

  /** Replicas of a shard alter their tables with rows by themselves. */
  async #columnsOf({ server }: Member, { name }: DefinedObject): Promise<ColumnsByTable> {
    const { database, table, localTable } = namesOf(name);
    const compared = this.#options.isReplicated() ? [table] : [table, localTable];
    const sql = `SELECT table, name, type FROM system.columns WHERE database = ${quoteLiteral(database)}
      AND table IN (${compared.map(quoteLiteral).join(', ')}) AND default_kind != 'MATERIALIZED' ORDER BY position`;
    const rows = await server.rows<Column & { table: string }>({ sql, timeoutMs: callMs, settings: checkSettings });
    const columns = Map.groupBy(rows, (row) => row.table);
    return new Map([...columns].map(([key, list]) => [key, list.map((row) => ({ name: row.name, type: row.type }))]));
  }
}

const storedColumn = ({ name, type, nullable }: ColumnDefinition): Column => ({
  name,
  type: serverType(type, nullable),
});
