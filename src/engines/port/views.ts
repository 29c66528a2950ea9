// Views in the engine port: their dependencies, and the effect of changes on them. An engine creates a view from a text with fully
// qualified names, so that its meaning never changes; the catalog stores the text as the user wrote it.
import type { ViewColumn } from '../../model/records.ts';
import type { TableName, ViewRef } from './refs.ts';

/** An object that the view names directly; objects under another view are sources of that view. */
export interface ViewSource {
  readonly name: TableName;
  readonly isView: boolean;
  /** How often the view names it. */
  readonly uses: number;
}

export interface ViewReading {
  readonly columns: readonly ViewColumn[];
  readonly sources: readonly ViewSource[];
}

/** A view that depends, directly or not, on the object being changed. `id`: the id of the view. */
export interface DependentView {
  readonly id: string;
  readonly view: ViewRef;
}

/** A view that was dropped with its container and is to be restored. Unqualified names are resolved in its database. */
export interface RestoredView {
  readonly id: string;
  /** Under its new name. */
  readonly database: string;
  readonly name: string;
  readonly sql: string;
}

/**
 * The effect of a change on a view; without `columns` it could not be created again and does not exist. `sources`: only for a
 * restored view.
 */
export interface AppliedView {
  readonly id: string;
  readonly columns?: readonly ViewColumn[];
  readonly sources?: readonly ViewSource[];
}

/** Side effects of a change. */
export interface Applied {
  readonly views: readonly AppliedView[];
}

/** The result of a Failure IN_USE from `apply`: ids of the views that the change would break. */
export interface BrokenViews {
  readonly broken: readonly string[];
}

export interface ParsedCreateView {
  /** As written: `c.d.v`, `d.v` or `v`; parts that are not written are absent. */
  readonly catalog?: string;
  readonly database?: string;
  readonly view: string;
  /** The query. */
  readonly sql: string;
}
