// The types of the catalog's interface: objects, requests, outcomes and events. See catalog.ts for the operations.

import type { Transaction } from 'kysely';
import type { VisibleChildren } from '../access/authorization/authorizer.ts';
import type { TaskType } from '../api/tasks/task_types.ts';
import type { Change, DroppedTable } from '../engines/port/changes.ts';
import type { ViewSource } from '../engines/port/views.ts';
import type { Actor } from '../model/principal.ts';
import type { Segment } from '../standard/endpoint.ts';
import type { ObjectState, Schema } from '../store/schema.ts';
import type { TaskRequest } from '../tasks/task.ts';
import type { SpecOf } from './specs.ts';

/** 'catalogs', 'databases', ...: code shared by all categories never names a particular one. */
export type Category = string;

/** Specs are frozen, because callers share them. Times are RFC 3339 with milliseconds and `Z`. */
export interface CatalogObject<S = unknown> {
  readonly id: string;
  readonly category: Category;
  readonly parentId: string | null;
  readonly name: string;
  readonly state: ObjectState;
  /** Why the object is `blocked`; null in other states. */
  readonly stateReason: string | null;
  readonly spec: S;
  /** The id of a user. */
  readonly owner: string;
  readonly version: number;
  readonly createdAt: string;
  readonly createdBy: string;
  readonly updatedAt: string;
  readonly updatedBy: string;
}

/** Root first. */
export type ObjectPath = readonly Segment[];
/** An object of a category. */
export type ObjectOf<K extends Category> = CatalogObject<SpecOf<K>>;
/** Whether an object is of a category, and so has its spec. */
export const isOf = <K extends Category>(object: CatalogObject, category: K): object is ObjectOf<K> =>
  object.category === category;
/** The objects of a path. */
export type ChainOf<P extends ObjectPath> = { readonly [K in keyof P]: ObjectOf<P[K]['category']> };

export interface ListOptions {
  /** The list continues after this name. */
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface SearchOptions<O = CatalogObject> extends ListOptions {
  /** A SQL LIKE pattern with `\` as its escape character; case-insensitive. */
  readonly namePattern?: string | undefined;
  /** A substring of the comment; case-insensitive. */
  readonly comment?: string | undefined;
  /** The objects that the caller may see. See access/authorization/authorizer.ts. */
  readonly restrictTo?: VisibleChildren | undefined;
  /** Compares the content. */
  readonly fits?: ((object: O) => boolean) | undefined;
}

/** A table or view that a view names, in the version that was current when the text of the view was bound. */
export interface ViewSourceName {
  readonly id: string;
  readonly version: number;
  /** Names, root first. */
  readonly path: readonly string[];
  /** The number of references to it in the view. */
  readonly uses: number;
}

export interface CreateRequest<S = unknown> {
  readonly parent: CatalogObject | null;
  readonly category: Category;
  readonly name: string;
  readonly spec: S;
  readonly principal: Actor;
  readonly owner?: string | undefined;
  /** The warehouse whose engine applies `change`. Set together with `change` and `undo`. */
  readonly warehouse?: string | undefined;
  readonly change?: Change | ((id: string) => Change) | undefined;
  readonly undo?: Change | ((id: string) => Change) | undefined;
  readonly ifExists: 'fail' | 'return';
  /** Other categories of the same parent that share one namespace with this category. */
  readonly sharesNames?: readonly Category[] | undefined;
  /** For a view: the tables and views it names. */
  readonly sources?: readonly ViewSourceName[] | undefined;
  /** The task that creates the object (Catalog.createLater), with the rights of `principal`. `target`: the future URI of the object. */
  readonly task?:
    | (TaskOfChange &
        Pick<TaskRequest, 'principal'> & {
          /** Further writes in the transaction that submits the task. */
          readonly inTransaction?: ((tx: Transaction<Schema>, taskId: string) => Promise<void>) | undefined;
        })
    | undefined;
  /** Further writes in the transaction of the change; only for objects without a part in an engine. */
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
  /** As in `CreateRequest`. */
  readonly sharesNames?: readonly Category[] | undefined;
  readonly sources?: readonly ViewSourceName[] | undefined;
  /** Further writes in the transaction of the change, after it; only for objects without a part in an engine. */
  readonly inTransaction?: ((tx: Transaction<Schema>) => Promise<void>) | undefined;
  /** The children from which `change` was derived: if they differ by now, the update fails with ObjectChanged. */
  readonly children?: { readonly category: Category; readonly expected: readonly CatalogObject[] } | undefined;
  /** The task that applies the change if it has to rewrite data. `target` is the URI of the object. */
  readonly task?: TaskOfChange | undefined;
}

/** A task with prerequisites (`after`) always applies the change itself. */
export type TaskOfChange = {
  [T in TaskType]: Pick<TaskRequest<T>, 'type' | 'target' | 'request' | 'priority' | 'after' | 'notify'>;
}[TaskType];

/** The result of a creation by task: the spec of the object and all its children, which become visible in the same transaction. */
export interface NewChildren {
  /** Replaces the spec of the request. */
  readonly spec?: unknown;
  readonly children: readonly NewChild[];
  /** Details for the audit event. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

export interface NewChild {
  readonly category: Category;
  readonly name: string;
  readonly spec: unknown;
  readonly children?: readonly NewChild[];
  readonly statistics?: { readonly rowCount: number; readonly dataBytes: number } | undefined;
  /** For a view: the tables and views it names. */
  readonly sources?: readonly ViewSource[] | undefined;
}

/** The work of a creation by task. Both functions run again after a crash. */
export interface CreationWork {
  /**
   * Completes the definition if the request could not contain it. Returns undefined if the definition is already complete, as it is
   * once an earlier attempt has stored it. Throws a Failure if the object cannot be created.
   */
  readonly define?: (object: { readonly id: string; readonly spec: unknown }) => Promise<Definition | undefined>;
  /** Must detect that an earlier attempt has already done the work. */
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
  /** Whether an object with children is dropped together with them. */
  readonly cascade: boolean;
  /** Further writes in the transaction of the change; only for objects without a part in an engine. */
  readonly inTransaction?: ((tx: Transaction<Schema>) => Promise<void>) | undefined;
  readonly warehouse?: string | undefined;
  /** Whether the files of the object are damaged. Open changes in it are then not finished first, because that needs the files. */
  readonly isDamaged?: (() => Promise<boolean>) | undefined;
  readonly change?: Change | ((children: DroppedChildren) => Change) | undefined;
  /** Used instead of `change` if the object can be restored for a while. */
  readonly keep?: SoftDelete | undefined;
}

/** The contents of an object that is being dropped. */
export interface DroppedChildren {
  readonly children: readonly { readonly id: string; readonly category: Category; readonly name: string }[];
  /** Tables that were dropped before it and that the engine still stores. */
  readonly hidden: readonly DroppedTable[];
}

export interface SoftDelete {
  readonly seconds: number;
  readonly change: (children: DroppedChildren) => Change;
  /** The change that deletes the data when the retention expires. */
  readonly purge: Change;
}

/** A dropped object that can be restored. */
export interface DroppedObject<S = unknown> {
  readonly object: CatalogObject<S>;
  readonly warehouse: string;
  readonly droppedAt: string;
  readonly droppedBy: string;
  readonly undropUntil: string;
  /** For a table: the name of its database at the time of the drop, under which the engine stores it. */
  readonly originalDatabase: string | undefined;
}

export interface DroppedPosition {
  readonly name: string;
  readonly id: string;
}

export interface DroppedSearchOptions {
  /** The list continues after this object. */
  readonly after?: DroppedPosition | undefined;
  readonly limit: number;
  readonly namePattern?: string | undefined;
  readonly comment?: string | undefined;
  readonly keep: (object: { readonly id: string; readonly owner: string }) => boolean;
}

export interface UndropRequest {
  readonly newName?: string | undefined;
  readonly principal: Actor;
  /** `descendants`: the contents of the object when it was dropped, on all levels. */
  readonly change: (descendants: readonly CatalogObject[]) => Change;
  /** As in `CreateRequest`. */
  readonly sharesNames?: readonly Category[] | undefined;
  readonly sources?: readonly ViewSourceName[] | undefined;
  /** The spec after the restore; absent: unchanged. */
  readonly spec?: unknown;
  /** The task that restores the object if data has to be rewritten. */
  readonly task?: TaskOfChange | undefined;
}
