// Completion in an interactive session: keywords, the names of databases, tables and views, and the columns of the tables that a line names.
import { namedTables } from '../../../client/statements.ts';
import type { Session } from './session_state.ts';
import { shortcuts } from './shortcuts.ts';

const keywords = (
  'ALL AND AS ASC BETWEEN BY CASE CAST COUNT CROSS DELETE DESC DISTINCT ELSE END EXCEPT EXISTS FALSE FROM FULL GROUP HAVING IN INNER INSERT ' +
  'INTERSECT INTO IS JOIN LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER OVER PARTITION RIGHT SELECT SET SUM THEN TRUE UNION UPDATE USING ' +
  'VALUES WHEN WHERE WITH'
).split(' ');
/** How long names are used before they are read again. */
const freshMs = 30_000;
const namesMax = 2000;
const afterWhichTables = /\b(?:from|join|into|update)\s+$/i;
const plainName = /^[a-z_][a-z0-9_]*$/;

export class NameCompletion {
  readonly #session: Session;
  readonly #cache = new Map<string, { readonly at: number; readonly names: Promise<readonly string[]> }>();

  constructor(session: Session) {
    this.#session = session;
  }

  /** The candidates for the word before the cursor, and that word. Names that cannot be read are left out. */
  async complete(line: string): Promise<[string[], string]> {
    if (line.startsWith('\\') && !line.includes(' '))
      return [Object.keys(shortcuts).filter((word) => word.startsWith(line)), line];
    const word = /[\w"$]*$/u.exec(line)?.[0] ?? '';
    const before = line.slice(0, line.length - word.length);
    const qualifier = /([\p{L}_][\p{L}\p{N}_$]*)\.$/u.exec(before)?.[1];
    const names = await (qualifier !== undefined
      ? this.#qualified(qualifier, line)
      : afterWhichTables.test(before)
        ? this.#placesOfTables()
        : this.#unqualified(line, word));
    const matching = names.filter((name) => name.toLowerCase().startsWith(word.toLowerCase()));
    return [[...new Set(matching)].sort(), word];
  }

  async #placesOfTables(): Promise<readonly string[]> {
    return (await Promise.all([this.#tables(this.#session.options.database), this.#databases()])).flat();
  }

  /** Keywords in the case in which the word is written. */
  async #unqualified(line: string, word: string): Promise<readonly string[]> {
    const [columns, places] = await Promise.all([this.#columnsNamedIn(line), this.#placesOfTables()]);
    const written = /[a-z]/.test(word) ? keywords.map((keyword) => keyword.toLowerCase()) : keywords;
    return [...written, ...columns, ...places];
  }

  /** After a point: the tables of a database, or the columns of a table or alias. */
  async #qualified(qualifier: string, line: string): Promise<readonly string[]> {
    const named = namedTables(line).find(({ alias, path }) => alias === qualifier || path.at(-1) === qualifier);
    const columns = named ? await this.#columns(named.path) : [];
    return columns.length > 0 ? columns : this.#tables(qualifier);
  }

  async #columnsNamedIn(line: string): Promise<readonly string[]> {
    const all = await Promise.all(namedTables(line).map(({ path }) => this.#columns(path)));
    return all.flat();
  }

  #databases(): Promise<readonly string[]> {
    const { catalog } = this.#session.options;
    return this.#names(`databases of ${catalog}`, async () => {
      const all = await this.#session.connection.client.catalogs(catalog).databases.browse({}).all();
      return all.map(({ name }) => name);
    });
  }

  #tables(database: string | undefined): Promise<readonly string[]> {
    const { catalog } = this.#session.options;
    if (database === undefined) return Promise.resolve([]);
    return this.#names(`tables of ${catalog}.${database}`, async () => {
      const place = this.#session.connection.client.catalogs(catalog).databases(database);
      const names: string[] = [];
      for await (const { name } of place.tables.list({ pageSize: 1000 })) if (names.push(name) >= namesMax) break;
      for await (const { name } of place.views.list({ pageSize: 1000 })) if (names.push(name) >= 2 * namesMax) break;
      return names;
    });
  }

  #columns(path: readonly string[]): Promise<readonly string[]> {
    const [table = '', database = this.#session.options.database, catalog = this.#session.options.catalog] = [
      ...path,
    ].reverse();
    if (database === undefined) return Promise.resolve([]);
    return this.#names(`columns of ${catalog}.${database}.${table}`, async () => {
      const { columns } = await this.#session.connection.client
        .catalogs(catalog)
        .databases(database)
        .tables(table)
        .get();
      return columns.map(({ name }) => name);
    });
  }

  #names(key: string, read: () => Promise<readonly string[]>): Promise<readonly string[]> {
    const known = this.#cache.get(key);
    if (known && performance.now() - known.at < freshMs) return known.names;
    const names = read().then(
      (all) => all.map(quoted),
      () => [],
    );
    this.#cache.set(key, { at: performance.now(), names });
    return names;
  }
}

const quoted = (name: string): string => (plainName.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
