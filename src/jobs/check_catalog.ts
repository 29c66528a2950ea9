// Checks a catalog while it is in use: compares its tables with the metadata store and reads all of them, one at a time. Damage is
// reported in the result, not as an error. A catalog that was refused as damaged and is sound now is served again.
import { type CatalogFault, faultText } from '../engines/port/catalog_storage.ts';
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { CatalogRef, TableRef } from '../engines/port/refs.ts';
import type { ExpectedTable } from '../model/expected_table.ts';
import { Failure } from '../standard/failure.ts';
import { expectedTables } from '../store/expected_tables.ts';
import type { TaskContext, TaskKind, TaskRecord } from '../tasks/task.ts';
import { catalogNow, type ObjectTaskParts, withAdmittedCatalog } from './admitted_objects.ts';

export const checkCatalogTask = 'check_catalog';

declare module '../tasks/task.ts' {
  interface StoredRequests {
    readonly check_catalog: CheckRequest;
  }
}

export interface CheckRequest {
  /** Id of the catalog, which may have been renamed since. */
  readonly objectId: string;
}

interface CheckFindings {
  readonly faults: readonly CatalogFault[];
  readonly tablesRead: number;
}

/** Maximum number of faults in a result. */
const faultsShownMax = 100;

export function checkCatalogKind(parts: ObjectTaskParts): TaskKind<'check_catalog'> {
  return {
    type: checkCatalogTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    run: async (task, context) => {
      const { objectId } = task.request;
      const { id, name, spec } = await catalogNow(parts, objectId);
      const catalog = { id, name };
      const { warehouse } = spec;
      const check = new CatalogCheck(parts, { catalog, warehouse }, task, context);
      const { found, isReleased } = await check.run();
      requireSame(await catalogNow(parts, objectId), catalog);
      const damage = await parts.warehouses.damageOf(warehouse, objectId);
      const { faults, tablesRead } = found;
      return {
        catalog: catalog.name,
        sound: faults.length === 0,
        released: isReleased,
        tablesRead,
        faultCount: faults.length,
        faults: faults.slice(0, faultsShownMax).map(toProblem),
        advice: adviceOf(faults, damage?.isAttached !== false),
      };
    },
  };
}

function requireSame(now: CatalogRef, before: CatalogRef): void {
  if (now.id === before.id && now.name === before.name) return;
  throw new Failure('CHANGE_IN_PROGRESS', 'the catalog was renamed or moved while it was checked');
}

class CatalogCheck {
  readonly #parts: ObjectTaskParts;
  readonly #catalog: CatalogRef;
  readonly #warehouse: string;
  readonly #principal: TaskRecord['principal'];
  readonly #context: TaskContext;

  constructor(
    parts: ObjectTaskParts,
    { catalog, warehouse }: { readonly catalog: CatalogRef; readonly warehouse: string },
    { principal }: TaskRecord,
    context: TaskContext,
  ) {
    this.#parts = parts;
    this.#catalog = catalog;
    this.#warehouse = warehouse;
    this.#principal = principal;
    this.#context = context;
  }

  async run(): Promise<{ readonly found: CheckFindings; readonly isReleased: boolean }> {
    const { warehouses } = this.#parts;
    const faults = await this.#admit(async () => {
      if (await this.#isServed()) return undefined;
      const expected = await expectedTables(this.#context.store, this.#catalog.id);
      return warehouses.recheck(this.#warehouse, this.#catalog, expected, { signal: this.#context.signal });
    });
    if (faults === undefined) {
      const found = await this.#checkServed();
      if (found.faults.length === 0) await warehouses.foundSound(this.#warehouse, this.#catalog);
      return { found, isReleased: false };
    }
    if (!(await this.#isServed())) return { found: { faults, tablesRead: 0 }, isReleased: false };
    return { found: await this.#checkServed(), isReleased: true };
  }

  /** Compares and reads the attached tables. Each table waits for admission like any other statement. */
  async #checkServed(): Promise<CheckFindings> {
    const { faults: differences, tables } = await this.#compare();
    const faults = [...differences];
    let tablesRead = 0;
    for (const [index, { database, table }] of tables.entries()) {
      try {
        if (await this.#readTable({ catalog: this.#catalog, database, table })) tablesRead++;
      } catch (error) {
        const reason = damageIn(error);
        if (reason === undefined) throw error;
        // If the file has become unusable, every further table would report the same.
        if (!(await this.#isServed())) return { faults: [...faults, { kind: 'damaged', reason }], tablesRead };
        faults.push({ kind: 'damaged', database, table, reason });
      }
      this.#context.progress((index + 1) / tables.length);
    }
    return { faults, tablesRead };
  }

  /** Differences of tables that were changed at the same time are ignored. */
  async #compare() {
    const { id } = this.#catalog;
    const before = await expectedTables(this.#context.store, id);
    const { faults, tables } = await this.#admit((engine) =>
      engine.compareTables(this.#catalog, before, { signal: this.#context.signal }),
    ).catch((error: unknown) => {
      const reason = damageIn(error);
      if (reason === undefined) throw error;
      return { faults: [{ kind: 'damaged', reason } satisfies CatalogFault], tables: [] };
    });
    const unchanged = new Set((await expectedTables(this.#context.store, id)).map(keyOf));
    const stable = new Set(before.filter((table) => unchanged.has(keyOf(table))).map(nameOf));
    return { faults: faults.filter((fault) => fault.kind === 'damaged' || stable.has(nameOf(fault))), tables };
  }

  #readTable(table: TableRef): Promise<boolean> {
    return this.#admit((engine) => engine.readWholeTable(table, { signal: this.#context.signal }));
  }

  #admit<T>(work: (engine: EngineWarehouse) => Promise<T>): Promise<T> {
    const { signal } = this.#context;
    const admission = { catalogId: this.#catalog.id, principal: this.#principal, privilege: 'alter', signal } as const;
    return withAdmittedCatalog(this.#parts, admission, (engine, now) => {
      requireSame(now, this.#catalog);
      return work(engine);
    });
  }

  async #isServed(): Promise<boolean> {
    return (await this.#parts.warehouses.damageOf(this.#warehouse, this.#catalog.id))?.isAttached !== false;
  }
}

const keyOf = (table: ExpectedTable) => JSON.stringify(table);
const nameOf = ({ database, table }: { readonly database?: string; readonly table?: string }) =>
  JSON.stringify([database, table]);

/** Returns undefined if the error is not about damage. */
function damageIn(error: unknown): string | undefined {
  if (!(error instanceof Failure) || error.code !== 'CATALOG_DAMAGED') return undefined;
  return String(error.result.reason);
}

const toProblem = ({ kind, database, table, reason }: CatalogFault) => ({
  database: database ?? null,
  table: table ?? null,
  problem: kind,
  reason,
});

function adviceOf(faults: readonly CatalogFault[], isServed: boolean): string | null {
  const [first] = faults;
  if (!first) return null;
  if (!isServed)
    return 'Suspend the warehouse, put back an undamaged file with its .wal, resume it and check again; or restore the newest backup under another name.';
  const damaged = faults.find(({ kind }) => kind === 'damaged');
  if (damaged)
    return 'Restore the newest backup under another name, or copy the readable rows and delete the damaged tables.';
  return `Compare with the newest backup: the metadata store and the file do not agree (${faultText(first)}).`;
}
