// Which definitions changed since when, so that a statement bound before can tell whether its names still mean what they did.
import type { Change, TableName } from '../../engine.ts';
import { foldedName } from '../sql/identifiers.ts';

/** Past this many objects the exact record is given up: everything bound before counts as changed. */
const remembered = 100_000;

const keyOf = (...names: readonly string[]) => JSON.stringify(names.map(foldedName));

export class DefinitionVersions {
  /** Begins past every epoch of a former process: what was bound there counts as changed. */
  #epoch = Date.now() * 1000;
  #floor = this.#epoch;
  readonly #changedAt = new Map<string, number>();

  get epoch(): number {
    return this.#epoch;
  }

  /** Tells, whenever asked, whether nothing changed since now. */
  watch(): () => boolean {
    const since = this.#epoch;
    return () => this.#epoch === since;
  }

  /** To be told before and after each change. */
  note(change: Change): void {
    this.#epoch++;
    if (this.#changedAt.size > remembered) {
      this.#changedAt.clear();
      this.#floor = this.#epoch;
    }
    for (const key of touched(change)) this.#changedAt.set(key, this.#epoch);
  }

  /** Whether any of the tables, or what holds it, changed after that epoch. */
  changedSince(epoch: number, tables: readonly TableName[]): boolean {
    if (!(epoch >= this.#floor)) return true;
    const after = (key: string) => (this.#changedAt.get(key) ?? 0) > epoch;
    return tables.some(
      ({ catalog, database, table }) =>
        after(keyOf(catalog)) || after(keyOf(catalog, database)) || after(keyOf(catalog, database, table)),
    );
  }
}

function touched(change: Change): string[] {
  // What is hidden has no name in a statement.
  if (change.kind === 'purge') return [];
  if ('table' in change) {
    const { catalog, database, table } = change.table;
    const renamed = change.kind === 'renameTable' ? [keyOf(catalog.name, database, change.newName)] : [];
    return [keyOf(catalog.name, database, table), ...renamed];
  }
  if ('view' in change) {
    const { catalog, database, view } = change.view;
    const renamed = change.kind === 'renameView' ? [keyOf(catalog.name, database, change.newName)] : [];
    return [keyOf(catalog.name, database, view), ...renamed];
  }
  if ('database' in change) {
    const { catalog, database } = change.database;
    return [
      keyOf(catalog.name, database),
      ...(change.kind === 'renameDatabase' ? [keyOf(catalog.name, change.newName)] : []),
    ];
  }
  return [keyOf(change.catalog.name), ...(change.kind === 'renameCatalog' ? [keyOf(change.newName)] : [])];
}
