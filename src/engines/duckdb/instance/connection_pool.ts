// The connections of an engine process: a bounded pool, each with its prepared statements. A statement gets a free connection that
// has prepared it already, if there is one.
import type { DuckDBConnection, DuckDBInstance, DuckDBPreparedStatement } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import { defineCallerFunctions, guardFunctions } from '../sql/guarded_functions.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { countProgress } from './progress.ts';
import { failureOf } from './sql_errors.ts';

export const sessionsMax = 32;
const preparedPerSessionMax = 64;
const exclusiveWaitMs = 10_000;
const exclusivePollMs = 10;

/** Called with the connection that an interrupt should reach, and with undefined when there is none. */
export type Interruptible = (connection: DuckDBConnection | undefined) => void;

export interface Namespace {
  readonly catalog: CatalogRef;
  readonly database?: string | undefined;
  /** The caller for whom the statement is bound, if its text may ask for it. */
  readonly caller?: string | undefined;
}

/** What a prepared statement depends on besides the namespace. */
export const preparedKey = ({ sql, caller }: { readonly sql: string; readonly caller?: string | undefined }): string =>
  caller === undefined ? sql : JSON.stringify([caller, sql]);

export class Session {
  readonly connection: DuckDBConnection;
  /** The catalog that is the default of the connection; undefined if it is no catalog of this server. */
  catalog: string | undefined;
  #namespace = '';
  /** null: unknown, because changing it failed. */
  #caller: string | undefined | null;
  readonly #prepared = new Map<string, { readonly text: string; readonly statement: DuckDBPreparedStatement }>();

  constructor(connection: DuckDBConnection) {
    this.connection = connection;
  }

  has(key: string): boolean {
    return this.#prepared.has(key);
  }

  /** Sets the default namespace: an empty schema if no database is named. Throws CHANGE_IN_PROGRESS if it does not exist (any more). */
  async use(namespace: Namespace): Promise<void> {
    try {
      await this.#use(namespace);
    } catch (error) {
      // Everything else, such as a database that a fatal error has invalidated, has nothing to do with the name.
      const isMissing = error instanceof Error && /^(?:Catalog|Binder) Error/.test(error.message);
      if (!isMissing) throw failureOf(error, { sql: '', linesAbove: 0 });
      const name = namespace.database ?? namespace.catalog.name;
      throw new Failure('CHANGE_IN_PROGRESS', `${JSON.stringify(name)} is being changed`, {}, { cause: error });
    }
  }

  async leave(): Promise<void> {
    await this.#setCaller(undefined);
    this.forget();
    this.#namespace = '';
    await this.connection.run('USE memory.main');
    this.catalog = undefined;
  }

  async #use({ catalog, database, caller }: Namespace): Promise<void> {
    await this.#setCaller(caller);
    const namespace = `${quoteIdentifier(catalog.name)}.${quoteIdentifier(database ?? 'main')}`;
    if (namespace === this.#namespace) return;
    this.forget();
    this.#namespace = '';
    await this.connection.run(`USE ${namespace}`);
    this.#namespace = namespace;
    this.catalog = catalog.name;
  }

  /** Prepared statements stay bound to their caller, which is part of their key. */
  async #setCaller(caller: string | undefined): Promise<void> {
    if (caller === this.#caller) return;
    this.#caller = null;
    await defineCallerFunctions(this.connection, caller);
    this.#caller = caller;
  }

  /** `key` identifies everything that the text depends on, except the namespace. */
  async prepare(key: string, text: string): Promise<DuckDBPreparedStatement> {
    const cached = this.#prepared.get(key);
    // A text generated again after a table changed may differ from the prepared one.
    if (cached && cached.text !== text) this.#drop(key);
    else if (cached) {
      this.#prepared.delete(key);
      this.#prepared.set(key, cached);
      return cached.statement;
    }
    const statement = await this.connection.prepare(text);
    if (this.#prepared.size >= preparedPerSessionMax) this.#drop(this.#prepared.keys().next().value as string);
    this.#prepared.set(key, { text, statement });
    return statement;
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
  /** Catalogs that no statement may use, until the promise resolves. */
  readonly #closed = new Map<string, Promise<void>>();

  constructor(instance: DuckDBInstance) {
    this.#instance = instance;
  }

  get busy(): number {
    return this.#busy.size;
  }

  /** `key`: prefers a session that has prepared this statement. */
  async with<T>(
    key: string | undefined,
    interruptible: Interruptible,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    const session = await this.#take(key);
    try {
      interruptible(session.connection);
      return await work(session);
    } catch (error) {
      interruptible(undefined);
      // An interrupted COMMIT or ROLLBACK may leave the transaction open for the next statement.
      await session.connection.run('ROLLBACK').catch(() => undefined);
      throw error;
    } finally {
      interruptible(undefined);
      this.#put(session);
    }
  }

  /** Runs the work in a session whose default is the namespace. Throws like `use`. */
  async withNamespace<T>(
    namespace: Namespace,
    key: string | undefined,
    interruptible: Interruptible,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    const { name } = namespace.catalog;
    for (;;) {
      if (this.isClosed(name)) await this.opened(name);
      const done = await this.with(key, interruptible, async (session) => {
        // The catalog may have been closed while this waited for a session.
        if (this.isClosed(name)) {
          if (session.catalog === name) await session.leave();
          return undefined;
        }
        await session.use(namespace);
        return { value: await work(session) };
      });
      if (done) return done.value;
    }
  }

  /** Creates a session before the first statement needs one. */
  async warm(): Promise<void> {
    this.#put(await this.#connect());
  }

  /** Runs the work while no session has the catalog as its default: waits for those that have it and holds back new ones. */
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

  /** Resolves when the catalog can be used as a default namespace. */
  async opened(catalog: string): Promise<void> {
    while (this.#closed.has(catalog)) await this.#closed.get(catalog);
  }

  isClosed(catalog: string): boolean {
    return this.#closed.has(catalog);
  }

  /** Drops all prepared statements, because the objects that they name changed. */
  forgetAll(): void {
    for (const session of this.#idle) session.forget();
  }

  /** Waits until no session has the catalog as its default. Throws CHANGE_IN_PROGRESS if statements do not end in time. */
  async #release(catalog: string): Promise<void> {
    await this.#leave(catalog);
    const deadline = performance.now() + exclusiveWaitMs;
    while ([...this.#busy].some((session) => session.catalog === catalog)) {
      if (performance.now() > deadline) {
        throw new Failure(
          'CHANGE_IN_PROGRESS',
          `statements in the catalog ${JSON.stringify(catalog)} did not end within ${exclusiveWaitMs} ms; retry later`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, exclusivePollMs));
      await this.#leave(catalog);
    }
  }

  /** Idle sessions are removed from the pool meanwhile, so that nobody else uses them at the same time. */
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
    let index = key === undefined ? -1 : this.#idle.findLastIndex((session) => session.has(key));
    if (index < 0) index = this.#idle.length - 1;
    const session = this.#idle.splice(index, 1)[0] ?? (await this.#connect());
    this.#busy.add(session);
    return session;
  }

  async #connect(): Promise<Session> {
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
