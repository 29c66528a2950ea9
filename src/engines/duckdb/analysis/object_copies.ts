// Copies of the tables and views that statements name, in memory and without rows: a process without files binds statements against them.
// All copies have the same version of the definitions.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { ownPrefix } from '../instance/applied_steps.ts';
import { qualifiedSchema, quoteIdentifier } from '../sql/identifiers.ts';
import { changingToken, type NamedObjects, type NamedTable, type NamedView, qualified } from './named_objects.ts';

/** Beyond this many characters of definitions all copies are dropped: a table of 10,000 columns takes about 10 MB. */
const charactersMax = 1_000_000;

export class ObjectCopies {
  #token = '';
  /** The statements that created the objects in memory. */
  readonly #created = new Set<string>();
  #characters = 0;
  readonly #catalogs = new Set<string>();

  /** `leave` switches the connection to a catalog that is not a copy, so that the copies can be detached. */
  async create(connection: DuckDBConnection, objects: NamedObjects, leave: () => Promise<void>): Promise<void> {
    if (objects.token !== this.#token || this.#characters > charactersMax) {
      this.#token = '';
      await leave();
      await this.#drop(connection);
    }
    // The copies are reused by the next statement only if all were created and the definitions are not changing.
    this.#token = '';
    for (const name of objects.catalogs) {
      await this.#create(connection, `ATTACH ':memory:' AS ${quoteIdentifier(name)}`);
      this.#catalogs.add(name);
    }
    for (const { catalog, database } of objects.schemas) {
      const schema = qualifiedSchema({ catalog: { id: '', name: catalog }, database });
      await this.#create(connection, `CREATE SCHEMA IF NOT EXISTS ${schema}`);
    }
    for (const table of objects.tables) for (const text of tableStatements(table)) await this.#create(connection, text);
    await this.#createViews(connection, objects.views);
    if (objects.token !== changingToken) this.#token = objects.token;
  }

  async #create(connection: DuckDBConnection, text: string): Promise<void> {
    if (this.#created.has(text)) return;
    await connection.run(text);
    this.#created.add(text);
    this.#characters += text.length;
  }

  /** A view can be created only after the views that it reads, so views that fail are tried again after the others. */
  async #createViews(connection: DuckDBConnection, views: readonly NamedView[]): Promise<void> {
    for (let pending = [...views]; pending.length > 0; ) {
      const failed: NamedView[] = [];
      for (const view of pending) {
        try {
          await this.#create(connection, `CREATE VIEW ${qualified(view)} AS ${view.query}`);
        } catch (error) {
          if (!(error instanceof Error) || !/^(?:Binder|Catalog|Parser) Error/.test(error.message)) throw error;
          failed.push(view);
        }
      }
      if (failed.length === pending.length) {
        const message = `the view ${JSON.stringify(failed[0]?.table)} cannot be read`;
        throw new Failure('SQL_NOT_SUPPORTED', message);
      }
      pending = failed;
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

function tableStatements(table: NamedTable): string[] {
  const name = qualified(table);
  return [
    `CREATE TABLE ${name} (${table.columns})`,
    ...table.uniqueKeys.map((key, i) => {
      const index = quoteIdentifier(`${ownPrefix}${i}_${table.table}`);
      return `CREATE UNIQUE INDEX ${index} ON ${name} ${key}`;
    }),
  ];
}
