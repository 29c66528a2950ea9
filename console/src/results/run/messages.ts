// What the page and the worker of results say to each other. A run is one statement; its rows stay in the worker, and the page asks
// for those in view.
import type { Column, Value } from '../../../../src/client/index.ts';
import type { ColumnProfile } from '../columns/column_profile.ts';

/** Where a statement runs. */
export interface Place {
  readonly catalog: string;
  readonly database?: string | undefined;
}

export interface Statement {
  readonly sql: string;
  readonly place: Place;
  readonly parameters?: readonly unknown[] | Readonly<Record<string, unknown>> | undefined;
  readonly warehouse?: string | undefined;
}

/** How far a statement is, from the moment it has a task. */
export interface RunProgress {
  readonly isWaiting: boolean;
  /** In the queue of its warehouse, from 1; null if it does not wait there. */
  readonly queuePosition: number | null;
  /** How long it waited, once it runs. */
  readonly queuedMs: number | null;
  /** From 0 to 1; null if unknown. */
  readonly fraction: number | null;
  readonly text: string | null;
  readonly expectedEndAt: string | null;
}

/** A result of which the first rows have arrived. */
export interface BegunResult {
  readonly columns: readonly Column[];
  /** Rows so far. */
  readonly rowCount: number;
  readonly queryId: string;
}

export interface Summary extends BegunResult {
  /** Of the whole result; of DML, the rows changed. */
  readonly rowCount: number;
  readonly truncated: boolean;
  readonly statistics: { readonly elapsedMs: number; readonly queuedMs: number; readonly resultBytes: number };
}

export interface Sort {
  readonly column: number;
  readonly isDescending: boolean;
}

export interface Filter {
  /** Null: any column. */
  readonly column: number | null;
  /** Part of the text of the value; case does not count. */
  readonly text: string;
}

/** Which rows are shown, in which order. */
export interface View {
  readonly sort?: Sort | undefined;
  readonly filters: readonly Filter[];
}

export interface SentError {
  readonly code: string;
  readonly status: number;
  readonly message: string;
  readonly result: Readonly<Record<string, unknown>>;
  readonly requestId: string | undefined;
}

interface Credentials {
  readonly origin: string;
  readonly token: string;
}

export type ToWorker = { readonly run: number } & (
  | ({ readonly kind: 'start'; readonly statement: Statement } & Credentials)
  | { readonly kind: 'cancel' }
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'close' }
  /** `request` comes back with the answer. */
  | { readonly kind: 'ask'; readonly request: number; readonly question: Question }
);

export type Question =
  | { readonly kind: 'rows'; readonly view: View; readonly from: number; readonly to: number }
  | { readonly kind: 'viewSize'; readonly view: View }
  | { readonly kind: 'profile'; readonly view: View }
  | { readonly kind: 'export'; readonly view: View; readonly format: CopyFormat; readonly rowsMax: number }
  | { readonly kind: 'file'; readonly format: FileFormat };

export type CopyFormat = 'csv' | 'tsv' | 'markdown' | 'json' | 'insert';

/** Files that are written from the rows of the result; those in other formats the server writes. */
export type FileFormat = 'csv' | 'ndjson';

export interface Answers {
  readonly rows: readonly (readonly Value[])[];
  readonly viewSize: number;
  readonly profile: readonly ColumnProfile[];
  readonly export: string;
  readonly file: Blob;
}

export type FromWorker = { readonly run: number } & (
  | { readonly kind: 'progress'; readonly progress: RunProgress }
  /** The first rows have arrived, or more of them. */
  | { readonly kind: 'begun'; readonly begun: BegunResult }
  | { readonly kind: 'succeeded'; readonly summary: Summary }
  | { readonly kind: 'failed'; readonly error: SentError }
  | { readonly kind: 'fetched'; readonly rows: number }
  | { readonly kind: 'answer'; readonly request: number; readonly answer: Answers[keyof Answers] }
  | { readonly kind: 'noAnswer'; readonly request: number; readonly error: SentError }
);
