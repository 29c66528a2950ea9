// Creates the views of a catalog again in the engine that it is moved to. Their texts stay as they were written: a view whose text the
// engine does not accept cannot be moved.
import type { Change } from '../engines/port/changes.ts';
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { CatalogRef } from '../engines/port/refs.ts';
import { newId } from '../model/ids.ts';
import { foldName } from '../model/names.ts';
import type { ViewColumn } from '../model/records.ts';
import type { Code } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';

export interface ViewToMove {
  readonly id: string;
  readonly database: string;
  readonly name: string;
  readonly sql: string;
}

export interface MovedViews {
  /** By the id of the view. */
  readonly columns: ReadonlyMap<string, readonly ViewColumn[]>;
  readonly refused: readonly { readonly view: ViewToMove; readonly reason: string }[];
}

/** Codes of texts that the engine does not accept as views. */
const refusalCodes: ReadonlySet<Code> = new Set<Code>([
  'SQL_INVALID',
  'SQL_NOT_SUPPORTED',
  'SQL_FORBIDDEN_FUNCTION',
  'PARAMETERS_INVALID',
  'NOT_SUPPORTED_BY_ENGINE',
]);

/**
 * In any order that satisfies their dependencies. Idempotent: views of an interrupted attempt are created again. `apply`: makes a change in the
 * engine, each with a step of its own.
 */
export async function createViews(
  engine: Pick<EngineWarehouse, 'readView'>,
  apply: (change: Change, step: string) => Promise<unknown>,
  catalog: CatalogRef,
  views: readonly ViewToMove[],
): Promise<MovedViews> {
  const refOf = ({ database, name }: ViewToMove) => ({ catalog, database, view: name });
  for (const view of views) await apply({ kind: 'dropView', view: refOf(view) }, newId());
  const columns = new Map<string, readonly ViewColumn[]>();
  let pending = views.map((view) => ({ view, reason: '' }));
  for (;;) {
    const refused: typeof pending = [];
    for (const { view } of pending) {
      try {
        const { sql, database } = view;
        const reading = await engine.readView({ sql, catalog, database });
        await apply({ kind: 'createView', view: refOf(view), sql }, newId());
        columns.set(view.id, reading.columns);
      } catch (error) {
        if (!(error instanceof Failure) || !refusalCodes.has(error.code)) throw error;
        refused.push({ view, reason: error.message });
      }
    }
    if (refused.length === pending.length || refused.length === 0) return { columns, refused };
    pending = refused;
  }
}

/** Whether a text names the catalog, so that it means something else while the copy has another name. */
export async function namesCatalog(engine: EngineWarehouse, sql: string, catalog: string): Promise<boolean> {
  const names = await engine.tableNamesIn(sql);
  return names.some(([first = '', ...rest]) => rest.length === 2 && foldName(first) === foldName(catalog));
}
