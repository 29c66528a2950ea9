// Queries compiled once: Kysely's building and compiling costs more than SQLite's answering. Built like any other query,
// with slots where the values go.
import type { Compilable, CompiledQuery, Kysely } from 'kysely';
import type { Schema } from './schema.ts';

class Slot {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

type Values = Readonly<Record<string, unknown>>;
type SlotOf<A extends Values> = <K extends keyof A & string>(name: K) => A[K];

export interface PreparedQuery<A extends Values, R> {
  /** `on`: the store's `db`, or the transaction to run in. */
  all(on: Kysely<Schema>, values: A): Promise<R[]>;
  first(on: Kysely<Schema>, values: A): Promise<R | undefined>;
  /** The number of rows changed. */
  run(on: Kysely<Schema>, values: A): Promise<number>;
}

export function prepareQuery<A extends Values>() {
  return <R>(
    db: Kysely<Schema>,
    build: (db: Kysely<Schema>, slot: SlotOf<A>) => Compilable<R>,
  ): PreparedQuery<A, R> => {
    let compiled: CompiledQuery<R> | undefined;
    const filled = (values: A): CompiledQuery<R> => {
      compiled ??= build(db, <K extends keyof A & string>(name: K) => new Slot(name) as unknown as A[K]).compile();
      const parameters = compiled.parameters.map((value) => (value instanceof Slot ? values[value.name] : value));
      return { ...compiled, parameters };
    };
    return {
      all: async (on, values) => (await on.executeQuery(filled(values))).rows,
      first: async (on, values) => (await on.executeQuery(filled(values))).rows[0],
      run: async (on, values) => Number((await on.executeQuery(filled(values))).numAffectedRows ?? 0),
    };
  };
}
