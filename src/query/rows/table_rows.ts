// The rows of a table through REST: inserts are all or nothing, and reads are paged.
import { rm } from 'node:fs/promises';
import type { Trail } from '../../access/audit/audit_log.ts';
import { type Authorizer, forbidden } from '../../access/authorization/authorizer.ts';
import { type IdempotencyKeys, keyedStep } from '../../access/idempotency_keys.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { StatementResult } from '../../engines/port/statements.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import type { CatalogSpec, TableSpec } from '../../model/records.ts';
import type { Observe } from '../../observe/observations.ts';
import { ObjectChanged } from '../../standard/expected_version.ts';
import { Failure } from '../../standard/failure.ts';
import { parseJson } from '../../standard/json/parse_json.ts';
import type { Segment } from '../../standard/paths.ts';
import { concatenate } from '../../standard/record_body.ts';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import { PageBytes } from '../results/page_bytes.ts';
import type { Caller, Queries } from '../statements/queries.ts';
import type { RowSource } from './row_source.ts';

/** Maximum number of attempts to read a page whose rows are renumbered at the same time. */
const pageAttemptsMax = 5;

type TableChain = [CatalogObject<CatalogSpec>, CatalogObject, CatalogObject<TableSpec>];

export class TableRows {
  readonly #catalog: Catalog;
  readonly #warehouses: Warehouses;
  readonly #queries: Queries;
  readonly #observe: Observe;
  readonly #authorizer: Authorizer;
  readonly #changes: Pick<ChangeFeed, 'readNow'>;
  readonly #trail: Trail;
  readonly #keys: Pick<IdempotencyKeys, 'retainStep'>;

  constructor(parts: {
    readonly catalog: Catalog;
    readonly warehouses: Warehouses;
    readonly queries: Queries;
    readonly observe: Observe;
    readonly authorizer: Authorizer;
    readonly changes: Pick<ChangeFeed, 'readNow'>;
    readonly trail: Trail;
    readonly keys: Pick<IdempotencyKeys, 'retainStep'>;
  }) {
    this.#catalog = parts.catalog;
    this.#warehouses = parts.warehouses;
    this.#queries = parts.queries;
    this.#observe = parts.observe;
    this.#authorizer = parts.authorizer;
    this.#changes = parts.changes;
    this.#trail = parts.trail;
    this.#keys = parts.keys;
  }

  /** Throws ROWS_INVALID or CONSTRAINT_VIOLATED with violations by index; then nothing was inserted. */
  async insert(path: readonly Segment[], rows: RowSource, caller: Caller): Promise<number> {
    const { actor, signal } = caller;
    // An earlier attempt inserted the rows.
    if (actor.guard?.applied) return actor.guard.applied.rowCount;
    const { generation } = this.#authorizer;
    const chain = await this.#requireWritable(path, caller);
    const [root, database, table] = chain;
    const { warehouse } = root.spec;
    const batch = await rows.read(table.spec.columns, `${table.id} ${table.version}`);
    await this.#requireReplica(warehouse, [root.name, database.name, table.name].join('.'));
    const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name };
    return this.#warehouses.admit(warehouse, caller, async (engine, queuedMs) => {
      // Other servers may have given the name to another table meanwhile.
      if (queuedMs > 0) await this.#changes.readNow();
      if (generation !== this.#authorizer.generation) await this.#requireUnchanged(path, chain, caller);
      this.#catalog.requireNoOpenChange([path.map(({ name }) => name)]);
      const started = performance.now();
      const { guard } = actor;
      const step = guard && keyedStep(guard);
      if (guard && step) await this.#keys.retainStep(step, { warehouse, catalogId: root.id }, { guard });
      await this.#trail.begin(actor, { objectId: table.id });
      const rowCount = await engine
        .insertRows(ref, batch, {
          signal,
          definition: table.spec,
          steps: step === undefined ? [] : [{ step, rowCount: batch.rowCount }],
        })
        .catch((error) => this.#toChangeInProgress(path, error));
      this.#observe({ kind: 'rowsInserted', warehouse, rowCount, ms: performance.now() - started });
      return rowCount;
    });
  }

  /**
   * Returns rows as objects in the order of the engine. `next` is the position after which the next page begins. Throws
   * INVALID_PAGE_TOKEN.
   */
  async page(
    path: readonly Segment[],
    page: { readonly after?: string | undefined; readonly limit: number },
    caller: Caller,
  ): Promise<{ readonly rows: object[]; readonly next: string | undefined }> {
    const start = page.after === undefined ? undefined : parsePosition(page.after);
    for (let attempt = 1; ; attempt++) {
      const chain = (await this.#catalog.require(path)) as TableChain;
      await this.#authorizer.requireUse(caller.principal, chain[0].spec.warehouse);
      const before = await this.#numbering(chain, caller);
      if (start && !sharesMark(start.numbering, before))
        throw new Failure(
          'INVALID_PAGE_TOKEN',
          'the positions of the rows changed since the page token was issued; start again without it',
        );
      const { rows, last } = await this.#read(chain, { after: start?.row, limit: page.limit }, caller).catch((error) =>
        this.#toChangeInProgress(path, error),
      );
      if (last === undefined && start === undefined) return { rows, next: undefined };
      // If rows were renumbered during the read, some may be missing from the page.
      if (sharesMark(await this.#numbering(chain, caller), before))
        return { rows, next: last && JSON.stringify([before, last]) };
      if (attempt >= pageAttemptsMax)
        throw new Failure('CHANGE_IN_PROGRESS', 'the rows of the table are being renumbered; retry later');
    }
  }

  /** `last`: the position of the last row of the page if there are more rows. */
  async #read(
    [root, database, table]: TableChain,
    { after, limit }: { readonly after: string | undefined; readonly limit: number },
    caller: Caller,
  ): Promise<{ readonly rows: object[]; readonly last: string | undefined }> {
    const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name };
    const columns = table.spec.columns.map(({ name }) => name);
    const engine = await this.#warehouses.engineOf(root.spec.warehouse);
    const statement = engine.rowsPage(ref, { columns, after, limit: limit + 1 });
    const { result } = await this.#queries.run(
      { ...statement, numbers: 'number', catalog: root.name, database: database.name },
      caller,
    );
    const rows = parseJson(`[${await firstPageOf(result.rows)}]`, Number.POSITIVE_INFINITY) as unknown[][];
    const shown = rows.slice(0, limit);
    const names = result.columns.slice(1).map((column) => column.name);
    const objects = shown.map(([_position, ...row]) => Object.fromEntries(names.map((name, i) => [name, row[i]])));
    return { rows: objects, last: result.rowCount > shown.length ? String(shown.at(-1)?.[0]) : undefined };
  }

  #numbering([root, database, table]: TableChain, caller: Caller): Promise<readonly string[]> {
    const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name };
    return this.#warehouses.admit(root.spec.warehouse, caller, (engine) => engine.rowNumbering(ref, table.spec));
  }

  /** The caller sent no SQL: a generated statement that fails to bind means that the table was changed since it was looked up. */
  async #toChangeInProgress(path: readonly Segment[], error: unknown): Promise<never> {
    if (!(error instanceof Failure) || error.code !== 'SQL_INVALID') throw error;
    await this.#catalog.require(path);
    throw new Failure('CHANGE_IN_PROGRESS', 'the table, or its database, is being changed', {}, { cause: error });
  }

  /** The table, to which the caller may write, and its parents. */
  async #requireWritable(path: readonly Segment[], caller: Caller): Promise<TableChain> {
    const chain = (await this.#catalog.require(path)) as TableChain;
    if (!this.#authorizer.isAllowedOn(caller.principal, 'write', 'catalogs', chain))
      throw forbidden('write', { category: 'catalogs', path });
    await this.#authorizer.requireUse(caller.principal, chain[0].spec.warehouse);
    return chain;
  }

  /** After a wait, in which names and rights may have changed. */
  async #requireUnchanged(path: readonly Segment[], chain: TableChain, caller: Caller): Promise<void> {
    const current = await this.#requireWritable(path, caller);
    const [, , { id, version }] = chain;
    if (current[2].version !== version || current.some((object, n) => object.id !== chain[n]?.id))
      throw new ObjectChanged(id);
  }

  async #requireReplica(warehouse: string, table: string): Promise<void> {
    await this.#warehouses.requireReplicas(warehouse, [table]);
  }
}

/** Whether rows still have the same positions. */
const sharesMark = (marks: readonly string[], others: readonly string[]) => marks.some((mark) => others.includes(mark));

/** Parses a position created by `page`; the token was signed. */
function parsePosition(after: string): { readonly numbering: readonly string[]; readonly row: string } {
  const [marks, row] = JSON.parse(after) as [string | readonly string[], string];
  // Tokens of earlier releases contain a single mark.
  const numbering = typeof marks === 'string' ? [marks] : marks;
  return { numbering, row };
}

/** Large rows are shown on several pages, so that they are not in memory together. */
async function firstPageOf(rows: StatementResult['rows']): Promise<string> {
  if (rows.kind === 'text') return rows.text;
  const { path, offsets } = rows;
  try {
    const bytes = await concatenate([await PageBytes.find([path], 0, offsets[1] ?? 0)]);
    return Buffer.from(bytes).toString();
  } finally {
    await rm(path, { force: true });
  }
}
