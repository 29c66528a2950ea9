// Connections of the engine process: a bounded pool, each with the statements it has prepared. A statement is given to a
// connection that knows it already, where one is free.
import type { DuckDBConnection, DuckDBInstance, DuckDBPreparedStatement } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../engine.ts';
import { answerForCaller, guardFunctions } from '../sql/guarded_functions.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { countProgress } from './progress.ts';

export const sessionsMax = 32;
const preparedPerSessionMax = 64;
const exclusiveWaitMs = 10_000;
const exclusivePollMs = 10;

export interface Namespace {
  readonly catalog: CatalogRef;
  readonly database?: string | undefined;
  /** For whom the statement is bound, where its text may ask. */
  readonly caller?: string | undefined;
}

/** What a prepared statement depends on besides the namespace. */
export const preparedKey = ({ sql, caller }: { readonly sql: string; readonly caller?: string | undefined }): string =>
  caller === undefined ? sql : JSON.stringify([caller, sql]);

export class Session {
  readonly connection: DuckDBConnection;
  /** The catalog that it has as its default; undefined: none of ours. */
  catalog: string | undefined;
  #namespace = '';
  /** null: not known, a change of it failed. */
  #caller: string | undefined | null;
  readonly #prepared = new Map<string, { readonly text: string; readonly statement: DuckDBPreparedStatement }>();

  constructor(connection: DuckDBConnection) {
    this.connection = connection;
  }

  has(key: string): boolean {
    return this.#prepared.has(key);
  }

  /** Without a database, the default is a schema that holds nothing. */
  async use({ catalog, database, caller }: Namespace): Promise<void> {
    await this.#answerFor(caller);
    const wanted = `${quoteIdentifier(catalog.name)}.${quoteIdentifier(database ?? 'main')}`;
    if (wanted === this.#namespace) return;
    this.forget();
    this.#namespace = '';
    await this.connection.run(`USE ${wanted}`);
    this.#namespace = wanted;
    this.catalog = catalog.name;
  }

  async leave(): Promise<void> {
    await this.#answerFor(undefined);
    this.forget();
    this.#namespace = '';
    await this.connection.run('USE memory.main');
    this.catalog = undefined;
  }

  /** What is prepared stays as it was bound: its key says for whom. */
  async #answerFor(caller: string | undefined): Promise<void> {
    if (caller === this.#caller) return;
    this.#caller = null;
    await answerForCaller(this.connection, caller);
    this.#caller = caller;
  }

  /** `key` says all that the text depends on; the namespace apart. */
  async prepare(key: string, text: string): Promise<DuckDBPreparedStatement> {
    const known = this.#prepared.get(key);
    // A text made anew, after a table changed, may meet what was prepared before.
    if (known && known.text !== text) this.#drop(key);
    else if (known) {
      this.#prepared.delete(key);
      this.#prepared.set(key, known);
      return known.statement;
    }
    const made = await this.connection.prepare(text);
    if (this.#prepared.size >= preparedPerSessionMax) this.#drop(this.#prepared.keys().next().value as string);
    this.#prepared.set(key, { text, statement: made });
    return made;
  }

  forget(): void {
    for (const key of [...this.#prepared.keys()]) this.#drop(key);
  }

  #drop(key: string): void {
    this.#prepared.get(key)?.statement.destroySync();
    this.#prepared.delete(key);
  }
}

export class Sessions {
  readonly #instance: DuckDBInstance;
  readonly #idle: Session[] = [];
  readonly #busy = new Set<Session>();
  readonly #waiting: (() => void)[] = [];
  #connecting = 0;
  /** Catalogs that no statement may enter, until the promise is kept. */
  readonly #closed = new Map<string, Promise<void>>();

  constructor(instance: DuckDBInstance) {
    this.#instance = instance;
  }

  get busy(): number {
    return this.#busy.size;
  }

  /**
   * `key`: a statement that the session had better know. `interruptible` is told the connection that an interrupt should reach,
   * and when none should any more.
   */
  async with<T>(
    key: string | undefined,
    interruptible: (connection: DuckDBConnection | undefined) => void,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    const session = await this.#take(key);
    try {
      interruptible(session.connection);
      return await work(session);
    } catch (error) {
      interruptible(undefined);
      // A transaction that was interrupted in its end would be found open by the next statement.
      await session.connection.run('ROLLBACK').catch(() => undefined);
      throw error;
    } finally {
      interruptible(undefined);
      this.#put(session);
    }
  }

  /** Makes the first session ahead of the first statement. */
  async warm(): Promise<void> {
    this.#put(await this.#connected());
  }

  /** Keeps statements away from the catalog as their default, and waits for those that have it, while the work runs. */
  async exclusive<T>(catalog: string, work: () => Promise<T>): Promise<T> {
    while (this.#closed.has(catalog)) await this.#closed.get(catalog);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closed.set(catalog, promise);
    try {
      await this.#release(catalog);
      return await work();
    } finally {
      this.#closed.delete(catalog);
      resolve();
    }
  }

  /** Resolves when the catalog can be used as a default. */
  async opened(catalog: string): Promise<void> {
    while (this.#closed.has(catalog)) await this.#closed.get(catalog);
  }

  isClosed(catalog: string): boolean {
    return this.#closed.has(catalog);
  }

  /** Prepared statements are void: what they name changed. */
  forgetAll(): void {
    for (const session of this.#idle) session.forget();
  }

  /** Waits until no session has the catalog as its default. Throws CHANGE_IN_PROGRESS where statements do not end in time. */
  async #release(catalog: string): Promise<void> {
    await this.#leave(catalog);
    const deadline = performance.now() + exclusiveWaitMs;
    while ([...this.#busy].some((session) => session.catalog === catalog)) {
      if (performance.now() > deadline) {
        throw new Failure(
          'CHANGE_IN_PROGRESS',
          `statements are still running in the catalog ${JSON.stringify(catalog)}`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, exclusivePollMs));
      await this.#leave(catalog);
    }
  }

  /** Idle sessions are taken out meanwhile: nobody else may use one at the same time. */
  async #leave(catalog: string): Promise<void> {
    const leaving = this.#idle.filter((session) => session.catalog === catalog);
    for (const session of leaving) {
      this.#idle.splice(this.#idle.indexOf(session), 1);
      this.#busy.add(session);
    }
    for (const session of leaving) {
      try {
        await session.leave();
      } finally {
        this.#put(session);
      }
    }
  }

  #put(session: Session): void {
    this.#busy.delete(session);
    this.#idle.push(session);
    this.#waiting.shift()?.();
  }

  async #take(key: string | undefined): Promise<Session> {
    while (this.#idle.length === 0 && this.#busy.size + this.#connecting >= sessionsMax) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    let at = key === undefined ? -1 : this.#idle.findLastIndex((session) => session.has(key));
    if (at < 0) at = this.#idle.length - 1;
    const session = this.#idle.splice(at, 1)[0] ?? (await this.#connected());
    this.#busy.add(session);
    return session;
  }

  async #connected(): Promise<Session> {
    this.#connecting++;
    try {
      const connection = await this.#instance.connect();
      await countProgress(connection);
      await guardFunctions(connection);
      return new Session(connection);
    } finally {
      this.#connecting--;
    }
  }
}
