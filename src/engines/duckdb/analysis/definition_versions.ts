// Records when each definition last changed, so that a bound statement can be checked for names whose definition changed since.
import type { Change } from '../../port/changes.ts';
import type { TableName } from '../../port/refs.ts';
import { foldedName } from '../sql/identifiers.ts';

/** Beyond this many objects the record is cleared, and every statement bound before counts as changed. */
const trackedObjectsMax = 100_000;

const keyOf = (...names: readonly string[]) => JSON.stringify(names.map(foldedName));

export class DefinitionVersions {
  /** Starts beyond every epoch of an earlier process: statements bound there count as changed. */
  #epoch = Date.now() * 1000;
  #floor = this.#epoch;
  readonly #epochs = new Map<string, number>();

  get epoch(): number {
    return this.#epoch;
  }

  /** Returns a check whether nothing has changed since this call. */
  watch(): () => boolean {
    const since = this.#epoch;
    return () => this.#epoch === since;
  }

  /** Must be called before and after each change. */
  note(change: Change): void {
    this.#epoch++;
    if (this.#epochs.size > trackedObjectsMax) {
      this.#epochs.clear();
      this.#floor = this.#epoch;
    }
    for (const key of changedNames(change)) this.#epochs.set(key, this.#epoch);
  }

  /** Whether any of the tables, or its database or catalog, changed after the epoch. */
  changedSince(epoch: number, tables: readonly TableName[]): boolean {
    if (!(epoch >= this.#floor)) return true;
    const isNewer = (key: string) => (this.#epochs.get(key) ?? 0) > epoch;
    return tables.some(
      ({ catalog, database, table }) =>
        isNewer(keyOf(catalog)) || isNewer(keyOf(catalog, database)) || isNewer(keyOf(catalog, database, table)),
    );
  }
}

function changedNames(change: Change): string[] {
  // Dropped tables have no name that a statement could use.
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
