// What the client knows of an endpoint and of a category when it runs. See operations.ts for the values.
import { snakeCase } from '../standard/camel_case.ts';

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

/** Operations by name, each with what does not follow from its name. */
type Operations = Readonly<Record<string, Partial<Operation>>>;

export interface Category {
  readonly collection: Operations;
  readonly object: Operations;
  readonly children?: Readonly<Record<string, Category>>;
}

const standardOperations: Readonly<Record<string, Operation>> = {
  list: { method: 'GET', isRead: true, paged: true },
  get: { method: 'GET', isRead: true },
  create: { method: 'POST' },
  update: { method: 'PATCH' },
  delete: { method: 'DELETE' },
  search: { method: 'POST', action: 'search', isRead: true, paged: true },
};

/** What follows from the name of an operation: an operation of the standard, or an action of the category. */
export const operationNamed = (name: string): Operation =>
  standardOperations[name] ?? { method: 'POST', action: snakeCase(name) };
