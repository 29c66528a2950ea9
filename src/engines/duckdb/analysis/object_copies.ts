// Empty tables and views in memory, with the definitions of those that statements name: what a statement is bound on in a process that has
// no files. All of them are of one state of the definitions.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { ownPrefix } from '../instance/applied_steps.ts';
import { qualifiedSchema, quoteIdentifier } from '../sql/identifiers.ts';
import { changingToken, type NamedObjects, type NamedTable, type NamedView, qualified } from './named_objects.ts';

/** Past this many characters of definitions all are dropped: a table of 10,000 columns takes about 10 MB. */
const charactersMax = 1_000_000;

export class ObjectCopies {
  #token = '';
  /** What the catalogs in memory hold, as the texts that created it. */
  readonly #created = new Set<string>();
  #characters = 0;
  readonly #catalogs = new Set<string>();

  /** `leave` makes the connection use none of the copies. */
  async make(connection: DuckDBConnection, objects: NamedObjects, leave: () => Promise<void>): Promise<void> {
    if (objects.token !== this.#token || this.#characters > charactersMax) {
      this.#token = '';
      await leave();
      await this.#drop(connection);
    }
    // Until all is created, and where the definitions are changing, nothing of it serves the next statement.
    this.#token = '';
    for (const name of objects.catalogs) {
      await this.#create(connection, `ATTACH ':memory:' AS ${quoteIdentifier(name)}`);
      this.#catalogs.add(name);
    }
    for (const { catalog, database } of objects.schemas) {
      const schema = qualifiedSchema({ catalog: { id: '', name: catalog }, database });
      await this.#create(connection, `CREATE SCHEMA IF NOT EXISTS ${schema}`);
    }
    for (const table of objects.tables) for (const text of tableTexts(table)) await this.#create(connection, text);
    await this.#createViews(connection, objects.views);
    if (objects.token !== changingToken) this.#token = objects.token;
  }

  async #create(connection: DuckDBConnection, text: string): Promise<void> {
    if (this.#created.has(text)) return;
    await connection.run(text);
    this.#created.add(text);
    this.#characters += text.length;
  }

  /** A view can only be created after those that it is made of. */
  async #createViews(connection: DuckDBConnection, views: readonly NamedView[]): Promise<void> {
    for (let left = [...views]; left.length > 0; ) {
      const failed: NamedView[] = [];
      for (const view of left) {
        try {
          await this.#create(connection, `CREATE VIEW ${qualified(view)} AS ${view.query}`);
        } catch (error) {
          if (!(error instanceof Error) || !/^(?:Binder|Catalog|Parser) Error/.test(error.message)) throw error;
          failed.push(view);
        }
      }
      if (failed.length === left.length) {
        const message = `the view ${JSON.stringify(failed[0]?.table)} cannot be read`;
        throw new Failure('SQL_NOT_SUPPORTED', message);
      }
      left = failed;
    }
  }

  async #drop(connection: DuckDBConnection): Promise<void> {
    for (const name of this.#catalogs) {
      await connection.run(`DETACH ${quoteIdentifier(name)}`);
      this.#catalogs.delete(name);
    }
    this.#created.clear();
    this.#characters = 0;
  }
}

function tableTexts(table: NamedTable): string[] {
  const name = qualified(table);
  return [
    `CREATE TABLE ${name} (${table.columns})`,
    ...table.uniqueKeys.map((key, i) => {
      const index = quoteIdentifier(`${ownPrefix}${i}_${table.table}`);
      return `CREATE UNIQUE INDEX ${index} ON ${name} ${key}`;
    }),
  ];
}
