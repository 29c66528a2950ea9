// Queries that are compiled once, because building and compiling a query in Kysely costs more than running it in SQLite. They are
// built like any other query, with placeholders for the values.
import type { Compilable, CompiledQuery, Kysely } from 'kysely';
import type { Schema } from './schema.ts';

/** A placeholder, with the conversion that the database needs. */
export class Slot {
  readonly name: string;
  readonly #converted: (value: unknown) => unknown;
  constructor(name: string, converted = (value: unknown) => value) {
    this.name = name;
    this.#converted = converted;
  }

  valueIn(values: Values): unknown {
    return this.#converted(values[this.name]);
  }
}

type Values = Readonly<Record<string, unknown>>;
type SlotOf<A extends Values> = <K extends keyof A & string>(name: K) => A[K];

export interface PreparedQuery<A extends Values, R> {
  /** `db`: the store's `db`, or the transaction to run in. */
  all(db: Kysely<Schema>, values: A): Promise<R[]>;
  first(db: Kysely<Schema>, values: A): Promise<R | undefined>;
  /** @returns the number of changed rows. */
  run(db: Kysely<Schema>, values: A): Promise<number>;
}

export function prepareQuery<A extends Values>() {
  return <R>(
    compileDb: Kysely<Schema>,
    build: (db: Kysely<Schema>, slot: SlotOf<A>) => Compilable<R>,
  ): PreparedQuery<A, R> => {
    let compiled: CompiledQuery<R> | undefined;
    const bind = (values: A): CompiledQuery<R> => {
      compiled ??= build(
        compileDb,
        <K extends keyof A & string>(name: K) => new Slot(name) as unknown as A[K],
      ).compile();
      const parameters = compiled.parameters.map((value) => (value instanceof Slot ? value.valueIn(values) : value));
      return { ...compiled, parameters };
    };
    return {
      all: async (db, values) => (await db.executeQuery(bind(values))).rows,
      first: async (db, values) => (await db.executeQuery(bind(values))).rows[0],
      run: async (db, values) => Number((await db.executeQuery(bind(values))).numAffectedRows ?? 0),
    };
  };
}
