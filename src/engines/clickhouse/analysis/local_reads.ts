// Statements that read the local table of a server instead of the Distributed table above it. Where a server has all rows, both have the same, and
// a Distributed table costs a statement a second analysis and a second plan: of a point query more than a third of the server's processor time.
// The local table is read only if it has the columns of the Distributed table that was analyzed: while a table is altered it is ahead of it.
import type { ClickHouseServer } from '../connection/server.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { analysisTimeoutMs } from '../sql/statement_limits.ts';
import { type ShownDefinitions, shownBy } from './shown_definition.ts';
import { createQueryOf, engineOf, type StoredObject } from './stored_objects.ts';

const knownMax = 1_000;

interface ColumnRow {
  readonly table: string;
  readonly name: string;
  readonly type: string;
  readonly kind: string;
}

export class LocalReads {
  readonly #shown: ShownDefinitions;
  /**
   * Of a Distributed table with a certain definition on a server, the definition of the local table that has its columns; undefined if that had
   * others.
   */
  readonly #known = new Map<string, string | undefined>();

  constructor(shown: ShownDefinitions) {
    this.#shown = shown;
  }

  /** Whether the table is Distributed above a local table of the same name, by its definition. */
  canRead(object: StoredObject): boolean {
    if (engineOf(object) !== 'Distributed') return false;
    const { database, localTable } = object.stored;
    return createQueryOf(object).includes(`', ${quoteLiteral(database)}, ${quoteLiteral(localTable)}, `);
  }

  /** Whether the local table has the columns of the Distributed table as that was analyzed. False also if the server cannot tell. */
  async isCurrent(server: ClickHouseServer, object: StoredObject): Promise<boolean> {
    const key = JSON.stringify([server.name, object.stored.database, object.stored.table, object.definition]);
    if (!this.#known.has(key)) return this.#learn(server, object, key);
    const known = this.#known.get(key);
    return known !== undefined && known === (await shownBy(server, localOf(object)));
  }

  async #learn(server: ClickHouseServer, object: StoredObject, key: string): Promise<boolean> {
    const before = await shownBy(server, localOf(object));
    const hasSameColumns = before !== undefined && (await this.#hasSameColumns(server, object));
    if (!(await this.#shown.isCurrent(server, object))) return false;
    const isSame = hasSameColumns && before === (await shownBy(server, localOf(object)));
    if (this.#known.size >= knownMax) this.#known.delete(this.#known.keys().next().value as string);
    this.#known.set(key, isSame ? before : undefined);
    return isSame;
  }

  async #hasSameColumns(server: ClickHouseServer, { stored }: StoredObject): Promise<boolean> {
    const { database, table, localTable } = stored;
    const rows = await server.rows<ColumnRow>({
      sql:
        'SELECT table, name, type, default_kind AS kind FROM system.columns ' +
        `WHERE database = ${quoteLiteral(database)} AND table IN (${quoteLiteral(table)}, ${quoteLiteral(localTable)}) ORDER BY position`,
      timeoutMs: analysisTimeoutMs,
    });
    const columnsOf = (wanted: string) =>
      JSON.stringify(rows.flatMap(({ table: of, name, type, kind }) => (of === wanted ? [[name, type, kind]] : [])));
    return columnsOf(table) === columnsOf(localTable);
  }
}

const localOf = ({ stored: { database, localTable } }: StoredObject) => ({ database, table: localTable });
