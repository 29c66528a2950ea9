// What every change of the catalog works with, and the checks that they share: names, ancestors, turns. The changes
// themselves are creation.ts, alteration.ts and removal.ts; how an interrupted one ends is recovery.ts.
import type { Transaction } from 'kysely';
import type { Trail } from '../../access/audit/audit_log.ts';
import type { Change, EngineWarehouse } from '../../engines/engine.ts';
import { foldName, nameFault } from '../../model/names.ts';
import type { Observe } from '../../observe/observations.ts';
import { ObjectChanged } from '../../standard/basis.ts';
import { Failure } from '../../standard/failure.ts';
import type { Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import type { Notify } from '../../tasks/task.ts';
import type { CatalogObject, Category, ChangeEvent } from '../object.ts';
import type { ObjectRow, SpecCache } from '../object_rows.ts';
import type { AncestorRow, CatalogStatements } from '../statements.ts';
import type { NameLocks } from './name_locks.ts';

/** How long a change waits for its turn behind another change of the same name. */
export const lockWaitMs = 30_000;
/** How long it waits for a change of its parent or its children that has begun. */
export const blockedWaitMs = 5_000;
/** How long a request tries again that meets an object changed since it was read. */
export const retryMs = 15_000;

export type CatalogEngine = Pick<EngineWarehouse, 'apply' | 'cost' | 'forget'>;
export type Tx = Transaction<Schema>;

export interface CatalogContext {
  readonly store: Store;
  readonly statements: CatalogStatements;
  readonly specs: SpecCache;
  readonly locks: NameLocks;
  readonly engineOf: (warehouse: string) => Promise<CatalogEngine>;
  readonly clock: () => number;
  readonly observe: Observe;
  readonly emit: (event: ChangeEvent) => void;
  readonly onTask: () => void;
  /** A change was left open: it is to be recovered at once. */
  readonly scheduleRecovery: () => void;
  /** An interrupted change has ended. */
  readonly intentEnded: (intentId: string) => void;
  readonly requireTaskQuota: (tx: Tx, principalId: string) => Promise<void>;
  readonly addWebhook: (tx: Tx, taskId: string, notify: Notify) => Promise<unknown>;
  readonly trail: Trail;
  /** Intents that a task of this process is applying just now. */
  readonly applying: Set<string>;
}

/** Objects whose open intents are in the way. Never leaves the catalog: recovery.ts clears the way or fails. */
export class Blocked extends Error {
  override name = 'Blocked';
  readonly objectIds: readonly string[];
  constructor(objectIds: readonly string[]) {
    super('a change is in progress');
    this.objectIds = objectIds;
  }
}

export function changeInProgress(): Failure {
  return new Failure('CHANGE_IN_PROGRESS', 'Another change of this object, its parent or its children is under way.');
}

export function notFound(category: Category, name: string): Failure {
  return new Failure('OBJECT_NOT_FOUND', `There is no "${name}" in ${category}.`, { category, name });
}

export function alreadyExists(category: Category, asked: string, existing: string): Failure {
  const message =
    asked === existing
      ? `"${asked}" exists already in ${category}.`
      : `"${asked}" differs from the existing "${existing}" in ${category} by case only; SQL would not tell them apart.`;
  return new Failure('OBJECT_ALREADY_EXISTS', message, { category, name: existing });
}

export function checkName(name: string): void {
  const fault = nameFault(name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', `The name is not acceptable: ${fault}.`, { name });
}

export function nameKey(parentId: string | null, category: Category, name: string): string {
  return `${parentId ?? ''}/${category}/${foldName(name)}`;
}

export function isVisible(row: { readonly state: string }): boolean {
  return row.state === 'ready' || row.state === 'altering' || row.state === 'blocked';
}

/** The row that has the name or one that folds equal, in whatever state. */
export function findSibling(
  context: CatalogContext,
  on: Store['db'],
  parentId: string | null,
  category: Category,
  name: string,
): Promise<ObjectRow | undefined> {
  const folded = foldName(name);
  return parentId === null
    ? context.statements.siblingRoot.first(on, { category, folded })
    : context.statements.siblingChild.first(on, { parentId, category, folded });
}

/** Throws OBJECT_ALREADY_EXISTS where a sibling in one of the categories has the name, Blocked where one is about to, or to lose it. */
export async function checkSharedNames(
  context: CatalogContext,
  on: Store['db'],
  parentId: string | null,
  name: string,
  categories: readonly Category[] = [],
): Promise<void> {
  for (const category of categories) {
    const sibling = await findSibling(context, on, parentId, category, name);
    if (sibling && isVisible(sibling)) throw alreadyExists(category, name, sibling.name);
    if (sibling) throw new Blocked([sibling.id]);
  }
}

/** What to hold while an object gets or loses a name. */
export function nameKeys(
  parentId: string | null,
  category: Category,
  names: readonly string[],
  sharesNames: readonly Category[] = [],
): string[] {
  return names.flatMap((name) => [category, ...sharesNames].map((one) => nameKey(parentId, one, name)));
}

/**
 * The object and its parents as they are now, nearest first. Throws OBJECT_NOT_FOUND where one of them is not to be seen,
 * ObjectChanged where it was renamed since the caller looked, Blocked where one is being changed.
 */
export async function requireReadyChain(
  context: CatalogContext,
  tx: Tx,
  object: CatalogObject,
): Promise<AncestorRow[]> {
  const chain = await context.statements.ancestors.all(tx, { id: object.id });
  if (chain.length === 0) throw notFound(object.category, object.name);
  for (const row of chain) if (!isVisible(row)) throw notFound(row.category, row.name);
  if (chain[0]?.name !== object.name) throw new ObjectChanged(object.id);
  const changing = chain.filter((row) => row.state !== 'ready').map((row) => row.id);
  if (changing.length > 0) throw new Blocked(changing);
  return chain;
}

/** The change must speak of the object by the names that it and its parents have now. `names`: from the root. */
export function checkChangePath(change: Change, names: readonly string[]): void {
  if (changePath(change).some((name, n) => n < names.length && name !== names[n])) throw new ObjectChanged();
}

export function namesOf(chain: readonly AncestorRow[]): string[] {
  return chain.map((row) => row.name).reverse();
}

/** Names from the root. */
export function changePath(change: Change): readonly string[] {
  if ('catalog' in change) return [change.catalog.name];
  if ('database' in change) return [change.database.catalog.name, change.database.database];
  if ('view' in change) return [change.view.catalog.name, change.view.database, change.view.view];
  return [change.table.catalog.name, change.table.database, change.table.table];
}

/** The catalog whose engine remembers the change's step. */
export function changeCatalog(change: Change): { readonly id: string; readonly name: string } {
  if ('catalog' in change) return change.catalog;
  if ('database' in change) return change.database.catalog;
  return 'view' in change ? change.view.catalog : change.table.catalog;
}
