// The metadata store: opens it, brings its tables to this version, runs transactions. What is in the tables is others'.
import type { Kysely, Transaction } from 'kysely';
import type { Schema } from './schema.ts';

/** Called before every statement; a fault test throws from it. */
export type Inject = (statement: { readonly sql: string; readonly parameters: readonly unknown[] }) => void;

export interface StoreOptions {
  /** Path of the SQLite file; its directory exists. */
  readonly file: string;
  readonly inject?: Inject | undefined;
}

export interface Store {
  readonly db: Kysely<Schema>;
  /** All or nothing, alone among transactions. `run` has no side effects: it may be run again. */
  transaction<T>(run: (tx: Transaction<Schema>) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export async function openStore(options: StoreOptions): Promise<Store> {
  throw new Error(`not yet: ${options.file}`);
}
