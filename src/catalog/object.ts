// What the catalog hands out and takes in. How it changes is catalog.ts.
import type { Transaction } from 'kysely';
import type { VisibleChildren } from '../access/authorization/authorizer.ts';
import type { Change, HiddenTable } from '../engines/engine.ts';
import type { ViewSource } from '../engines/views.ts';
import type { Actor } from '../model/principal.ts';
import type { ObjectState, Schema } from '../store/schema.ts';
import type { TaskRequest } from '../tasks/task.ts';

/** 'catalogs', 'databases', ...: code shared by all categories never names one. */
export type Category = string;

/** Specs are shared between callers and frozen. Times are RFC 3339 with milliseconds and `Z`. */
export interface CatalogObject<S = unknown> {
  readonly id: string;
  readonly category: Category;
  readonly parentId: string | null;
  readonly name: string;
  readonly state: ObjectState;
  /** Why it is `blocked`. */
  readonly stateReason: string | null;
  readonly spec: S;
  /** Id of a user. */
  readonly owner: string;
  readonly version: number;
  readonly createdAt: string;
  readonly createdBy: string;
  readonly updatedAt: string;
  readonly updatedBy: string;
}

/** From the root. */
export type ObjectPath = readonly { readonly category: Category; readonly name: string }[];

export interface ListOptions {
  /** The name after which the list goes on. */
  readonly after?: string | undefined;
  readonly limit: number;
  /** A SQL LIKE pattern with `\` as its escape; case does not count. */
  readonly namePattern?: string | undefined;
  /** A part of the comment; case does not count. */
  readonly comment?: string | undefined;
  /** Only these (access/authorization/authorizer.ts). */
  readonly restrictTo?: VisibleChildren | undefined;
}

/** What a view names, as it was when the view's text was read. */
export interface ViewSourceName {
  readonly id: string;
  readonly version: number;
  /** Names, from the root. */
  readonly path: readonly string[];
  /** How often it is named. */
  readonly uses: number;
}

export interface CreateRequest<S = unknown> {
  readonly parent: CatalogObject | null;
  readonly category: Category;
  readonly name: string;
  readonly spec: S;
  readonly principal: Actor;
  readonly owner?: string | undefined;
  /** The warehouse whose engine realises `change`; they come together, with `undo`. */
  readonly warehouse?: string | undefined;
  readonly change?: Change | ((id: string) => Change) | undefined;
  readonly undo?: Change | ((id: string) => Change) | undefined;
  readonly ifExists: 'fail' | 'return';
  /** Categories beside it in which nothing may have the name. */
  readonly sharesNames?: readonly Category[] | undefined;
  /** Of a view: what it is made of. */
  readonly sources?: readonly ViewSourceName[] | undefined;
  /** The task that makes it (Catalog.createLater), with the rights of `principal`. `target`: the URI that it will have. */
  readonly task?:
    | (TaskOfChange &
        Pick<TaskRequest, 'principal'> & {
          /** What is written with the task. */
          readonly inTransaction?: ((tx: Transaction<Schema>, taskId: string) => Promise<void>) | undefined;
        })
    | undefined;
  /** What is written in the same transaction; for objects that no engine realises. */
  readonly inTransaction?: ((tx: Transaction<Schema>, id: string) => Promise<void>) | undefined;
}

export interface UpdateRequest<S = unknown> {
  readonly spec?: S | undefined;
  readonly owner?: string | undefined;
  readonly name?: string | undefined;
  readonly expectedVersion?: number | undefined;
  readonly principal: Actor;
  readonly warehouse?: string | undefined;
  readonly change?: Change | undefined;
  /** As of a creation. */
  readonly sharesNames?: readonly Category[] | undefined;
  readonly sources?: readonly ViewSourceName[] | undefined;
  /** What is written in the same transaction; for objects that no engine realises. */
  readonly inTransaction?: ((tx: Transaction<Schema>) => Promise<void>) | undefined;
  /** The children that `change` was made from: where they are others by now, the object counts as changed. */
  readonly children?: { readonly category: Category; readonly expected: readonly CatalogObject[] } | undefined;
  /** The task that does the change, should it have to rewrite data. `target` is the object's URI. */
  readonly task?: TaskOfChange | undefined;
}

/** One that comes after others does the change in any case. */
export type TaskOfChange = Pick<TaskRequest, 'type' | 'target' | 'request' | 'priority' | 'after' | 'notify'>;

/** What the task that makes an object found it to be, and all that is in it: seen with it, all at once. */
export interface NewChildren {
  /** Instead of the one that it was asked for with. */
  readonly spec?: unknown;
  readonly children: readonly NewChild[];
  /** For the line in the audit trail. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

export interface NewChild {
  readonly category: Category;
  readonly name: string;
  readonly spec: unknown;
  readonly children?: readonly NewChild[];
  readonly statistics?: { readonly rowCount: number; readonly dataBytes: number } | undefined;
  /** Of a view: what it names. */
  readonly sources?: readonly ViewSource[] | undefined;
}

/** What the task of a creation does, each of it again after a crash. */
export interface CreationWork {
  /**
   * Where the request could not say what is to be made. Given what is known of the object; undefined where that is all, as it is once
   * the answer of a former attempt was kept. Throws a refusal.
   */
  readonly define?: (object: { readonly id: string; readonly spec: unknown }) => Promise<Definition | undefined>;
  /** Has to find that it was done before. Told the id that the object has. */
  readonly fill: (objectId: string) => Promise<NewChildren | undefined>;
}

export interface Definition {
  readonly spec: unknown;
  readonly change: Change;
}

export type UpdateOutcome<S = unknown> =
  | { readonly object: CatalogObject<S>; readonly taskId?: undefined }
  | { readonly taskId: string; readonly object?: undefined };

export interface DropRequest {
  readonly principal: Actor;
  readonly cascade: boolean;
  /** Categories whose objects make the parent non-empty; children of other categories just go with it. */
  readonly childCategories: readonly Category[];
  /** What is written in the same transaction; for objects that no engine realises. */
  readonly inTransaction?: ((tx: Transaction<Schema>) => Promise<void>) | undefined;
  readonly warehouse?: string | undefined;
  /** Whether its files are damaged: open changes of it and below it are then not finished first, because that needs the files. */
  readonly isDamaged?: (() => Promise<boolean>) | undefined;
  readonly change?: Change | ((within: DroppedChildren) => Change) | undefined;
  /** Instead of `change`, where it can come back for a while. */
  readonly keep?: SoftDelete | undefined;
}

/** What is in an object that is dropped. */
export interface DroppedChildren {
  readonly children: readonly { readonly id: string; readonly category: Category; readonly name: string }[];
  /** Of what was dropped before it. */
  readonly hidden: readonly HiddenTable[];
}

export interface SoftDelete {
  readonly seconds: number;
  readonly change: (within: DroppedChildren) => Change;
  /** What ends it. */
  readonly purge: Change;
}

/** An object that was dropped and can come back. */
export interface DroppedObject<S = unknown> {
  readonly object: CatalogObject<S>;
  readonly warehouse: string;
  readonly droppedAt: string;
  readonly droppedBy: string;
  readonly undropUntil: string;
  /** Of a table: what its database was called then, which is where the engine keeps it. */
  readonly originalDatabase: string | undefined;
}

export interface DroppedListOptions {
  /** The one after which the list goes on. */
  readonly after?: { readonly name: string; readonly id: string } | undefined;
  readonly limit: number;
  readonly namePattern?: string | undefined;
  readonly comment?: string | undefined;
  readonly keep: (object: { readonly id: string; readonly owner: string }) => boolean;
}

export interface UndropRequest {
  readonly newName?: string | undefined;
  readonly principal: Actor;
  /** `within`: what was in it when it was dropped, all levels down. */
  readonly change: (within: readonly CatalogObject[]) => Change;
  /** As of a creation. */
  readonly sharesNames?: readonly Category[] | undefined;
  readonly sources?: readonly ViewSourceName[] | undefined;
  /** What becomes of its spec. */
  readonly spec?: unknown;
  /** The task that does it, should it have to write data again. */
  readonly task?: TaskOfChange | undefined;
}

/** Told after every commit that changes what readers see. `deep`: the paths of descendants changed or went too. */
export interface ChangeEvent {
  readonly objectId: string;
  readonly parentId: string | null;
  readonly category: Category;
  readonly deep: boolean;
  /** As it is now; absent: it is gone. */
  readonly object?: CatalogObject;
  /** Gone for now: it can come back, with what was granted on it. */
  readonly canUndrop?: true;
}
