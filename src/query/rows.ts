// Rows of one table by REST: inserted all or nothing, and looked at a page at a time.
import { readFile, rm } from 'node:fs/promises';
import type { Trail } from '../access/audit.ts';
import type { Decisions } from '../access/decisions.ts';
import { type IdempotencyKeys, stepOf } from '../access/idempotency_keys.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import type { CatalogSpec, TableSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import { parseJson } from '../standard/json.ts';
import type { Segment } from '../standard/paths.ts';
import type { Caller, Queries } from './queries.ts';
import { withoutSeparator } from './result_store.ts';
import { type RowReader, rowReader } from './row_values.ts';

const readersMax = 500;

export class Rows {
  readonly #catalog: Catalog;
  readonly #warehouses: Warehouses;
  readonly #queries: Queries;
  readonly #observe: Observe;
  readonly #decisions: Decisions;
  readonly #trail: Trail;
  readonly #keys: Pick<IdempotencyKeys, 'keepStep'>;
  /** Compiled for one version of one table. */
  readonly #readers = new Map<string, RowReader>();

  constructor(parts: {
    readonly catalog: Catalog;
    readonly warehouses: Warehouses;
    readonly queries: Queries;
    readonly observe: Observe;
    readonly decisions: Decisions;
    readonly trail: Trail;
    readonly keys: Pick<IdempotencyKeys, 'keepStep'>;
  }) {
    this.#catalog = parts.catalog;
    this.#warehouses = parts.warehouses;
    this.#queries = parts.queries;
    this.#observe = parts.observe;
    this.#decisions = parts.decisions;
    this.#trail = parts.trail;
    this.#keys = parts.keys;
  }

  /** Throws ROWS_INVALID or CONSTRAINT_VIOLATED with violations by index; then nothing was inserted. */
  async insert(path: readonly Segment[], rows: readonly unknown[], caller: Caller): Promise<number> {
    const { principal, actor, signal } = caller;
    const [root, database, table] = (await this.#catalog.require(path)) as [
      CatalogObject<CatalogSpec>,
      CatalogObject,
      CatalogObject<TableSpec>,
    ];
    const { warehouse } = root.spec;
    const place = { category: 'warehouses', path: [{ category: 'warehouses', name: warehouse }] };
    await this.#decisions.require(principal, 'use', place);
    const batch = this.#reader(table).read(rows);
    await this.#requireReplica(warehouse, [root.name, database.name, table.name].join('.'));
    const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name };
    return this.#warehouses.admit(warehouse, caller, async (engine) => {
      const started = performance.now();
      const step = stepOf(actor.guard);
      if (step !== undefined) await this.#keys.keepStep(step, { warehouse, catalogId: root.id });
      await this.#trail.tell(actor, { outcome: 'begun', objectId: table.id });
      const rowCount = await engine
        .insertRows(ref, batch, { signal, definition: table.spec, step })
        .catch((error) => this.#changedMeanwhile(path, error));
      this.#observe({ kind: 'rowsInserted', warehouse, rowCount, ms: performance.now() - started });
      return rowCount;
    });
  }

  /** Rows as objects, from `offset` on; one more than `limit` where there are more. The order is the engine's own. */
  async preview(
    path: readonly Segment[],
    page: { readonly offset: number; readonly limit: number },
    caller: Caller,
  ): Promise<{ readonly rows: object[]; readonly more: boolean }> {
    const [root, database, table] = (await this.#catalog.require(path)) as [
      CatalogObject,
      CatalogObject,
      CatalogObject,
    ];
    const quoted = [root, database, table].map((one) => `"${one.name.replaceAll('"', '""')}"`).join('.');
    const { result } = await this.#queries
      .run(
        {
          sql: `SELECT * FROM ${quoted} LIMIT $1 OFFSET $2`,
          parameters: [page.limit + 1, page.offset],
          numbers: 'number',
          catalog: root.name,
          database: database.name,
        },
        caller,
      )
      .catch((error) => this.#changedMeanwhile(path, error));
    const text = await textOf(result.rows);
    const rows = parseJson(`[${text}]`, Number.POSITIVE_INFINITY) as unknown[][];
    const names = result.columns.map((column) => column.name);
    const objects = rows.slice(0, page.limit).map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])));
    return { rows: objects, more: rows.length > page.limit };
  }

  /** The caller sent no SQL: where ours does not fit what the engine has, the table was changed since it was looked up. */
  async #changedMeanwhile(path: readonly Segment[], error: unknown): Promise<never> {
    if (!(error instanceof Failure) || error.code !== 'SQL_INVALID') throw error;
    await this.#catalog.require(path);
    throw new Failure('CHANGE_IN_PROGRESS', 'the table, or its database, is being changed', {}, { cause: error });
  }

  #reader(table: CatalogObject<TableSpec>): RowReader {
    const key = `${table.id} ${table.version}`;
    let reader = this.#readers.get(key);
    if (!reader) {
      reader = rowReader(table.spec.columns);
      if (this.#readers.size >= readersMax) this.#readers.delete(this.#readers.keys().next().value as string);
      this.#readers.set(key, reader);
    }
    return reader;
  }

  async #requireReplica(warehouse: string, table: string): Promise<void> {
    if ((await this.#warehouses.availableBackends(warehouse)) > 0) return;
    throw new Failure('REPLICAS_UNAVAILABLE', `no replica is available of ${table}`, { tables: [table] });
  }
}

async function textOf(rows: { kind: 'text'; text: string } | { kind: 'file'; path: string }): Promise<string> {
  if (rows.kind === 'text') return rows.text;
  const bytes = await readFile(rows.path);
  await rm(rows.path, { force: true });
  return withoutSeparator(bytes).toString();
}
