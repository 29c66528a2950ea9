// The DuckDB engine in the place of the engine in memory: the same faults, and contents as a copy of the file of the catalog has them.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import type { CatalogEngine } from '../../src/catalog/changes/change_context.ts';
import { quoteLiteral } from '../../src/engines/duckdb/sql/identifiers.ts';
import { catalogFile } from '../../src/engines/duckdb/storage/catalog_files.ts';
import type { Change } from '../../src/engines/port/changes.ts';
import type { EngineWarehouse } from '../../src/engines/port/engine.ts';
import type { CatalogRef } from '../../src/engines/port/refs.ts';
import { foldName } from '../../src/model/names.ts';
import { definition } from './catalog_and_engine.ts';
import { EngineOfWarehouse } from './engine_of_warehouse.ts';

const copied = 'copied';
const stored = `FROM duckdb_columns() WHERE database_name = '${copied}' AND schema_name NOT IN ('__tabularium', 'main')`;

export class EngineOnDuckdb extends EngineOfWarehouse {
  readonly #warehouse: EngineWarehouse;
  readonly #directory: string;
  #catalog: CatalogRef | undefined;

  constructor(warehouse: EngineWarehouse, directory: string) {
    super(warehouse);
    this.#warehouse = warehouse;
    this.#directory = directory;
  }

  override async apply(change: Change, options: Parameters<CatalogEngine['apply']>[1]): Promise<undefined> {
    if (change.kind === 'createCatalog') this.#catalog = change.catalog;
    await super.apply(change, options);
  }

  /** Drops what a history left there. */
  async empty(): Promise<void> {
    if (this.#catalog === undefined) return;
    const options = { step: randomUUID(), signal: new AbortController().signal };
    await this.#warehouse.apply({ kind: 'dropCatalog', catalog: this.#catalog }, options);
  }

  /** A schema keeps its name where only the case changes: names of databases are compared folded. */
  override comparable = (contents: readonly string[]): string[] =>
    contents.map((object) => object.replace(/^c\.\w+/, foldName)).sort();

  override async contentsNow(): Promise<string[]> {
    assert.ok(this.#catalog);
    const file = catalogFile(this.#directory, this.#catalog);
    const copy = join(this.#directory, 'copy.duckdb');
    for (const end of ['', '.wal']) {
      rmSync(copy + end, { force: true });
      if (existsSync(file + end)) copyFileSync(file + end, copy + end);
    }
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    const rowsOf = async (sql: string) => (await connection.runAndReadAll(sql)).getRowsJS();
    try {
      await connection.run(`ATTACH ${quoteLiteral(copy)} AS ${copied} (READ_ONLY)`);
      const schemas = await rowsOf(
        `SELECT schema_name FROM duckdb_schemas() WHERE database_name = '${copied}' AND NOT internal AND schema_name != '__tabularium'`,
      );
      const tables = await rowsOf(
        `SELECT schema_name, table_name, list(column_name ORDER BY column_index) ${stored} GROUP BY ALL`,
      );
      return [
        'c',
        ...schemas.map(([database]) => `c.${database}`),
        ...tables.map(
          ([database, table, columns]) =>
            `c.${database}.${table}=${JSON.stringify(definition(...(columns as string[])))}`,
        ),
      ];
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  }
}
