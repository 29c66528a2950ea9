// What the client knows of an endpoint and of a category when it runs. See operations.ts for the values.
export interface Operation {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** The last segment of the path. */
  readonly action?: string;
  /** It cannot change anything. */
  readonly isRead?: true;
  /** It answers with a page of a list. */
  readonly paged?: true;
  /** The field of a page that has the items, if it is not the category's. */
  readonly items?: string;
  /** It has query parameters. */
  readonly query?: true;
  /** It may answer with a task. */
  readonly accepts?: true;
}

export interface Category {
  /** In paths. */
  readonly segment: string;
  /** The field of a list that has the items. */
  readonly items: string;
  readonly collection: Readonly<Record<string, Operation>>;
  readonly object: Readonly<Record<string, Operation>>;
  readonly children: Readonly<Record<string, Category>>;
}
