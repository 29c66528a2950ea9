// Drafts and saved queries as the store has them.
import type { Properties } from './records.ts';

export interface QueryContent {
  readonly sql: string;
  readonly parameters?: readonly unknown[] | Readonly<Record<string, unknown>>;
  readonly catalog?: string;
  readonly database?: string;
}

export interface DraftSpec extends QueryContent {
  readonly title: string;
  readonly properties?: Properties;
}

export interface SavedQuerySpec extends QueryContent {
  readonly comment?: string;
  readonly properties?: Properties;
  readonly folder?: string;
  readonly chart?: Readonly<Record<string, unknown>>;
}
