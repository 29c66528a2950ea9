// What the port says of views: what they are made of, what becomes of them when something under them changes. An engine makes a view
// of a text in which every name is whole, so that it means the same for ever; the text itself, as it was given, the catalog keeps.
import type { ViewColumn } from '../model/records.ts';
import type { TableName, ViewRef } from './refs.ts';

/** What a view names itself; what is under another view is that view's. */
export interface ViewSource {
  readonly name: TableName;
  readonly isView: boolean;
  /** How often it is named. */
  readonly uses: number;
}

export interface ViewReading {
  readonly columns: readonly ViewColumn[];
  readonly sources: readonly ViewSource[];
}

/** A view that is made, directly or not, of what is being changed. `id`: the object's. */
export interface DependentView {
  readonly id: string;
  readonly view: ViewRef;
}

/** A view that was dropped with what holds it, and is to come back. Names that are not whole are looked for in its database. */
export interface KeptView {
  readonly id: string;
  /** By the name that it gets. */
  readonly database: string;
  readonly name: string;
  readonly sql: string;
}

/** What a change made of a view; without `columns` it could not be made again, and is not there. `sources`: of one that came back. */
export interface AppliedView {
  readonly id: string;
  readonly columns?: readonly ViewColumn[];
  readonly sources?: readonly ViewSource[];
}

/** What a change did besides what it says. */
export interface Applied {
  readonly views: readonly AppliedView[];
}

/** Of a Failure IN_USE from `apply`: ids of the views that the change would break. */
export interface BrokenViews {
  readonly broken: readonly string[];
}

export interface ParsedCreateView {
  /** As written: `c.d.v`, `d.v` or `v`; parts not written are absent. */
  readonly catalog?: string;
  readonly database?: string;
  readonly view: string;
  /** The query. */
  readonly sql: string;
}
