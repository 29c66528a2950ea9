// The context that every change of the catalog works with, and the checks that they share: names, ancestors, visibility. The changes are
// the other files of this directory; see intent_recovery.ts for interrupted ones.
import type { Transaction } from 'kysely';
import type { Trail } from '../../access/audit/audit_log.ts';
import type { Change, EngineWarehouse } from '../../engines/engine.ts';
import { foldName, nameFault } from '../../model/names.ts';
import type { Observe } from '../../observe/observations.ts';
import { ObjectChanged } from '../../standard/expected_version.ts';
import { Failure } from '../../standard/failure.ts';
import type { Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import type { Notify } from '../../tasks/task.ts';
import type { CatalogObject, Category, ChangeEvent } from '../object.ts';
import type { ObjectRow, SpecCache } from '../object_rows.ts';
import type { AncestorRow, CatalogStatements } from '../statements.ts';
import type { NameLocks } from './name_locks.ts';

/** How long a change waits for the lock that another change of the same name holds. */
export const lockWaitMs = 30_000;
/** How long a change waits for one of its parent or children that has begun. */
export const blockedWaitMs = 5_000;
/** How long a request is retried when its object changes between read and write. */
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
  /** Called when a change was left open: recovery starts at once. */
  readonly scheduleRecovery: () => void;
  /** Called when an interrupted change has ended. */
  readonly intentEnded: (intentId: string) => void;
  readonly requireTaskQuota: (tx: Tx, principalId: string) => Promise<void>;
  readonly addWebhook: (tx: Tx, taskId: string, notify: Notify) => Promise<unknown>;
  readonly trail: Trail;
  /** Intents that a task of this process is applying at the moment. */
  readonly applying: Set<string>;
}

/** Names the objects whose open intents prevent a change. Internal to the catalog: intent_recovery.ts ends these intents, or fails. */
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

export function alreadyExists(category: Category, requested: string, existing: string): Failure {
  const message =
    requested === existing
      ? `"${requested}" already exists in ${category}.`
      : `"${requested}" differs from the existing "${existing}" in ${category} by case only; SQL would not tell them apart.`;
  return new Failure('OBJECT_ALREADY_EXISTS', message, { category, name: existing });
}

export function checkName(name: string): void {
  const fault = nameFault(name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', `The name is invalid: ${fault}.`, { name });
}

export function nameKey(parentId: string | null, category: Category, name: string): string {
  return `${parentId ?? ''}/${category}/${foldName(name)}`;
}

export function isVisible(row: { readonly state: string }): boolean {
  return row.state === 'ready' || row.state === 'altering' || row.state === 'blocked';
}

/** The row with this name (case-insensitive), in any state. */
export function findSibling(
  statements: CatalogStatements,
  db: Store['db'],
  parentId: string | null,
  category: Category,
  name: string,
): Promise<ObjectRow | undefined> {
  const folded = foldName(name);
  return parentId === null
    ? statements.siblingRoot.first(db, { category, folded })
    : statements.siblingChild.first(db, { parentId, category, folded });
}

/** Throws OBJECT_ALREADY_EXISTS if a sibling in one of the categories has the name, Blocked if one is gaining or losing it. */
export async function checkSharedNames(
  context: CatalogContext,
  db: Store['db'],
  parentId: string | null,
  name: string,
  categories: readonly Category[] = [],
): Promise<void> {
  for (const category of categories) {
    const sibling = await findSibling(context.statements, db, parentId, category, name);
    if (sibling && isVisible(sibling)) throw alreadyExists(category, name, sibling.name);
    if (sibling) throw new Blocked([sibling.id]);
  }
}

/** The lock keys to hold while an object gains or loses a name. */
export function nameKeys(
  parentId: string | null,
  category: Category,
  names: readonly string[],
  sharesNames: readonly Category[] = [],
): string[] {
  return names.flatMap((name) => [category, ...sharesNames].map((shared) => nameKey(parentId, shared, name)));
}

/**
 * The current rows of the object and its ancestors, nearest first. Throws OBJECT_NOT_FOUND if one of them is not visible, ObjectChanged
 * if the object was renamed since the caller read it, Blocked if one of them is being changed.
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

/** Throws ObjectChanged unless the change uses the current names of the object and its ancestors. `names`: root first. */
export function checkChangePath(change: Change, names: readonly string[]): void {
  if (changePath(change).some((name, n) => n < names.length && name !== names[n])) throw new ObjectChanged();
}

export function namesOf(chain: readonly AncestorRow[]): string[] {
  return chain.map((row) => row.name).reverse();
}

/** Names, root first. */
export function changePath(change: Change): readonly string[] {
  if ('catalog' in change) return [change.catalog.name];
  if ('database' in change) return [change.database.catalog.name, change.database.database];
  if ('view' in change) return [change.view.catalog.name, change.view.database, change.view.view];
  return [change.table.catalog.name, change.table.database, change.table.table];
}

/** The catalog in whose file the engine records the step of the change. */
export function changeCatalog(change: Change): { readonly id: string; readonly name: string } {
  if ('catalog' in change) return change.catalog;
  if ('database' in change) return change.database.catalog;
  return 'view' in change ? change.view.catalog : change.table.catalog;
}
