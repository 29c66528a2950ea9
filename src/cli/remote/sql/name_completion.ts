// Completion in an interactive session: keywords, the names of catalogs, databases, tables and views, and the columns of the tables that a
// statement names.
import { namedTables } from '../../../client/statements.ts';
import { unlessAborted } from '../../../model/concurrency/bounded_waits.ts';
import { rowFormats } from '../output/row_formats.ts';
import type { Session } from './session_state.ts';
import { shortcuts } from './shortcuts.ts';

const keywords = (
  'ALL AND AS ASC BETWEEN BY CASE CAST COUNT CREATE CROSS DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT EXISTS EXPLAIN FALSE FROM FULL ' +
  'GROUP HAVING IN INNER INSERT INTERSECT INTO IS JOIN LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER OVER PARTITION RIGHT SELECT SET ' +
  'SUM TABLE THEN TRUE UNION UPDATE USING VALUES VIEW WHEN WHERE WITH'
).split(' ');
/** How long names are used before they are read again. */
const freshMs = 30_000;
/** For one completion, in milliseconds: nobody waits longer for a Tab. */
const deadlineMs = 1_000;
/** For one read, in milliseconds. What comes after the completion that asked for it is there for the next one. */
const readMs = 10_000;
const namesMax = 2000;
const afterWhichTables = /\b(?:from|join|into|update|table|describe)\s+$/i;
const plainName = /^[a-z_][a-z0-9_]*$/;
const withWord = /^(\\\S+)\s+(\S*)$/;

export class NameCompletion {
  readonly #session: Session;
  readonly #cache = new Map<string, { readonly at: number; readonly names: Promise<readonly string[]> }>();
  readonly #ended = new AbortController();
  /** Of the completion that is under way: the terminal is not read meanwhile. */
  #deadline: AbortSignal = AbortSignal.abort();

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * The candidates for the word before the cursor, and that word. Names that cannot be read in time are left out. `begun`: the lines of the
   * statement before this one.
   */
  async complete(line: string, begun = ''): Promise<[string[], string]> {
    this.#deadline = AbortSignal.timeout(deadlineMs);
    if (begun === '' && line.startsWith('\\') && !line.includes(' '))
      return [Object.keys(shortcuts).filter((word) => word.startsWith(line)), line];
    const word = wordAtEnd(line);
    const before = `${begun}\n${line.slice(0, line.length - word.length)}`;
    const [, shortcut] = (begun === '' && withWord.exec(line)) || [];
    const names = await this.#candidates(before, word, shortcut);
    const start = word.replace(/^"/, '').toLowerCase();
    const matching = names.filter((name) => {
      const isQuoted = name.startsWith('"');
      return (isQuoted || !word.startsWith('"')) && name.replace(/^"/, '').toLowerCase().startsWith(start);
    });
    return [[...new Set(matching)].sort(), word];
  }

  /** Ends the reads that are under way. */
  end(): void {
    this.#ended.abort();
  }

  #candidates(before: string, word: string, shortcut: string | undefined): Promise<readonly string[]> {
    const qualifiers = qualifiersIn(before);
    if (shortcut === '\\format') return Promise.resolve(rowFormats);
    if (shortcut === '\\c') return qualifiers.length > 0 ? this.#databases(qualifiers[0]) : this.#places();
    if (qualifiers.length > 0) return this.#qualified(qualifiers, before);
    return shortcut !== undefined || afterWhichTables.test(before)
      ? this.#placesOfTables()
      : this.#unqualified(before, word);
  }

  async #places(): Promise<readonly string[]> {
    return (await Promise.all([this.#databases(), this.#catalogs()])).flat();
  }

  async #placesOfTables(): Promise<readonly string[]> {
    const tables = this.#tables(this.#session.options.catalog, this.#session.options.database);
    return (await Promise.all([tables, this.#places()])).flat();
  }

  /** Keywords in the case in which the word is written. */
  async #unqualified(sql: string, word: string): Promise<readonly string[]> {
    const [columns, places] = await Promise.all([this.#columnsNamedIn(sql), this.#placesOfTables()]);
    const written = /[a-z]/.test(word) ? keywords.map((keyword) => keyword.toLowerCase()) : keywords;
    return [...written, ...columns, ...places];
  }

  /** After a point: the columns of a table or alias, the tables of a database, and the databases of a catalog. */
  async #qualified(qualifiers: readonly string[], sql: string): Promise<readonly string[]> {
    const { catalog } = this.#session.options;
    const [first = '', second] = qualifiers;
    const named = namedTables(sql).find(
      ({ alias, path }) => alias === qualifiers.at(-1) || path.at(-1) === qualifiers.at(-1),
    );
    const columns = named && !afterWhichTables.test(withoutQualifiers(sql)) ? await this.#columns(named.path) : [];
    if (columns.length > 0) return columns;
    if (second !== undefined) return this.#tables(first, second);
    return (await Promise.all([this.#tables(catalog, first), this.#databasesOfCatalog(first)])).flat();
  }

  async #columnsNamedIn(sql: string): Promise<readonly string[]> {
    const all = await Promise.all(namedTables(sql).map(({ path }) => this.#columns(path)));
    return all.flat();
  }

  #catalogs(): Promise<readonly string[]> {
    return this.#names('catalogs', async (signal) => {
      const all = await this.#session.connection.client.catalogs.browse({}, { signal }).all();
      return all.map(({ name }) => name);
    });
  }

  #databases(catalog = this.#session.options.catalog): Promise<readonly string[]> {
    return this.#names(`databases of ${catalog}`, async (signal) => {
      const all = await this.#session.connection.client.catalogs(catalog).databases.browse({}, { signal }).all();
      return all.map(({ name }) => name);
    });
  }

  /** Those of a catalog that exists: a name before a point may be of anything. */
  async #databasesOfCatalog(name: string): Promise<readonly string[]> {
    return (await this.#catalogs()).includes(quoted(name)) ? this.#databases(name) : [];
  }

  #tables(catalog: string, database: string | undefined): Promise<readonly string[]> {
    if (database === undefined) return Promise.resolve([]);
    return this.#names(`tables of ${catalog}.${database}`, async (signal) => {
      const place = this.#session.connection.client.catalogs(catalog).databases(database);
      const names: string[] = [];
      for await (const { name } of place.tables.list({ pageSize: 1000 }, { signal }))
        if (names.push(name) >= namesMax) break;
      for await (const { name } of place.views.list({ pageSize: 1000 }, { signal }))
        if (names.push(name) >= 2 * namesMax) break;
      return names;
    });
  }

  #columns(path: readonly string[]): Promise<readonly string[]> {
    const [table = '', database = this.#session.options.database, catalog = this.#session.options.catalog] = [
      ...path,
    ].reverse();
    if (database === undefined) return Promise.resolve([]);
    return this.#names(`columns of ${catalog}.${database}.${table}`, async (signal) => {
      const place = this.#session.connection.client.catalogs(catalog).databases(database);
      const { columns } = await place
        .tables(table)
        .get({ signal })
        .catch(() => place.views(table).get({ signal }));
      return columns.map(({ name }) => name);
    });
  }

  /** None after the deadline. What could not be read is read again at the next Tab. */
  async #names(key: string, read: (signal: AbortSignal) => Promise<readonly string[]>): Promise<readonly string[]> {
    const deadline = this.#deadline;
    if (deadline.aborted) return [];
    const known = this.#cache.get(key);
    if (known && performance.now() - known.at < freshMs) return within(deadline, known.names);
    const names = read(AbortSignal.any([this.#ended.signal, AbortSignal.timeout(readMs)])).then(
      (all) => all.map(quoted),
      () => {
        this.#cache.delete(key);
        return [];
      },
    );
    this.#cache.set(key, { at: performance.now(), names });
    return within(deadline, names);
  }
}

function within(deadline: AbortSignal, names: Promise<readonly string[]>): Promise<readonly string[]> {
  return unlessAborted(names, deadline).catch(() => []);
}

const quoted = (name: string): string => (plainName.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

/** The name that is being written, with the quote that begins it. */
function wordAtEnd(line: string): string {
  const isQuoted = line.split('"').length % 2 === 0;
  return isQuoted ? line.slice(line.lastIndexOf('"')) : (/[\p{L}\p{N}_$]*$/u.exec(line)?.[0] ?? '');
}

const qualifier = /(?:([\p{L}_][\p{L}\p{N}_$]*)|"((?:[^"]|"")+)")\.$/u;

/** The names before the points at the end of a text, from the outside in. */
function qualifiersIn(text: string): string[] {
  const match = qualifier.exec(text);
  if (!match) return [];
  const [all, plain, inQuotes = ''] = match;
  return [...qualifiersIn(text.slice(0, text.length - all.length)), plain ?? inQuotes.replaceAll('""', '"')];
}

function withoutQualifiers(text: string): string {
  const match = qualifier.exec(text);
  return match ? withoutQualifiers(text.slice(0, text.length - match[0].length)) : text;
}
