// The context that every change of the catalog works with. The changes are the other files of this directory; see intent_recovery.ts for
// interrupted ones.
import type { Kysely, Transaction } from 'kysely';
import type { Trail } from '../../access/audit/audit_log.ts';
import type { EngineWarehouse } from '../../engines/port/engine.ts';
import type { Observe } from '../../observe/observations.ts';
import { Failure } from '../../standard/failure.ts';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import type { Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import type { Notify } from '../../tasks/task.ts';
import type { SpecCache } from '../object_rows.ts';
import type { CatalogStatements } from '../statements.ts';
import type { IntentLeases } from './intent_leases.ts';
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
  readonly leases: IntentLeases;
  readonly engineOf: (warehouse: string) => Promise<CatalogEngine>;
  readonly warehouseExists: (db: Kysely<Schema>, name: string) => Promise<boolean>;
  /** The warehouses of which other servers have the data: these end their open changes. */
  readonly warehousesElsewhere: () => Promise<ReadonlySet<string>>;
  readonly clock: () => number;
  readonly observe: Observe;
  readonly changes: Pick<ChangeFeed, 'append'>;
  readonly onTask: () => void;
  /** Called when a change was left open: recovery starts at once. */
  readonly scheduleRecovery: () => void;
  readonly requireTaskQuota: (tx: Tx, principalId: string) => Promise<void>;
  readonly addWebhook: (tx: Tx, taskId: string, notify: Notify) => Promise<unknown>;
  readonly trail: Trail;
  /** Intents that a task of this process is applying at the moment. */
  readonly applying: Set<string>;
  /** Ids of catalogs and databases that this server restored or renamed: what engines report by the former paths is lost. */
  readonly relocated: Set<string>;
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
  return new Failure('CHANGE_IN_PROGRESS', 'another change of this object, its parent or its children is in progress');
}
