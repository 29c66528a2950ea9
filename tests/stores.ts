// The stores that suites run on. A suite opens its stores with `storesOf(import.meta.url)`; it runs on SQLite, and on another store when
// it is imported with that store in its URL (`suitesOn`).
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { openPostgresqlStore, type PostgresqlLocation } from '../src/store/postgresql/postgresql_store.ts';
import { openSqliteStore } from '../src/store/sqlite/sqlite_store.ts';
import type { FaultInjector, Store } from '../src/store/store.ts';
import { copyDatabase, dropDatabase, missingPostgresql, newDatabase, newStoreDatabase } from './postgresql.ts';

export interface StoreOptions {
  /** An existing store; by default, a new one. */
  readonly place?: string | undefined;
  readonly inject?: FaultInjector | undefined;
  /** See `Store.isShared`. PostgreSQL always is. */
  readonly isShared?: boolean | undefined;
}

export interface Stores {
  readonly name: string;
  /** How often each transaction runs. */
  readonly attempts: 1 | 2;
  open(options?: StoreOptions): Promise<{ readonly store: Store; readonly place: string }>;
  /** The place of a store that was never opened. */
  newPlace(): Promise<string>;
  /** The place of a copy of the state that a kill of the server at this moment leaves. */
  afterKill(place: string): Promise<string>;
  remove(place: string): Promise<void>;
}

/** In memory if possible: a busy disk would only slow the tests down. */
const memoryDirectory = '/dev/shm';
let directory: string | undefined;
let files = 0;

function newFile(): string {
  if (directory === undefined) {
    const made = mkdtempSync(join(existsSync(memoryDirectory) ? memoryDirectory : tmpdir(), 'tabularium-stores-'));
    // Files that run in the same process share this module.
    process.once('exit', () => rmSync(made, { recursive: true, force: true }));
    directory = made;
  }
  return join(directory, `${++files}.db`);
}

const fileEnds = ['', '-wal'];

const sqlite: Stores = {
  name: 'SQLite',
  attempts: 1,
  async open({ place = newFile(), inject, isShared } = {}) {
    return { place, store: await openSqliteStore({ file: place, inject, isShared }) };
  },
  newPlace: async () => newFile(),
  async afterKill(place) {
    const copy = newFile();
    for (const end of fileEnds) if (existsSync(place + end)) copyFileSync(place + end, copy + end);
    return copy;
  },
  async remove(place) {
    for (const end of [...fileEnds, '-sums']) rmSync(place + end, { force: true });
  },
};

class RolledBack extends Error {}

/** Rolls back the first attempt of every transaction, as PostgreSQL does after a conflict. */
function rerunning(store: Store): Store {
  return {
    ...store,
    async transaction(run) {
      const first = store.transaction(async (tx) => {
        await run(tx);
        throw new RolledBack();
      });
      await first.catch(() => {});
      return store.transaction(run);
    },
  };
}

const sqliteWithConflicts: Stores = {
  ...sqlite,
  name: 'SQLite, with each transaction rolled back once',
  attempts: 2,
  async open(options) {
    const { store, place } = await sqlite.open(options);
    return { place, store: rerunning(store) };
  },
};

const locations = new Map<string, PostgresqlLocation>();

function placeOf(location: PostgresqlLocation): string {
  locations.set(location.database, location);
  return location.database;
}

const postgresql: Stores = {
  name: 'PostgreSQL',
  attempts: 1,
  async open({ place: existing, inject } = {}) {
    const place = existing ?? placeOf(await newStoreDatabase());
    const location = locations.get(place);
    assert(location, 'the place of a store');
    return { place, store: await openPostgresqlStore({ location, inject }) };
  },
  newPlace: async () => placeOf(await newDatabase()),
  async afterKill(place) {
    return placeOf(await copyDatabase(locations.get(place) as PostgresqlLocation));
  },
  async remove(place) {
    await dropDatabase(locations.get(place) as PostgresqlLocation);
  },
};

const kinds = { sqlite, sqliteWithConflicts, postgresql };
type Kind = keyof typeof kinds;

export const storesOf = (url: string): Stores => kinds[(new URL(url).searchParams.get('store') ?? 'sqlite') as Kind];

/** Runs test files on another store than SQLite, one after the other. Call it once in a file. */
export function suitesOn(kind: Kind, urls: readonly URL[]): void {
  const skip = kind === 'postgresql' && missingPostgresql;
  for (const url of urls) {
    const suite = `${basename(url.pathname)} on ${kinds[kind].name}`;
    if (skip) test(suite, { skip }, () => {});
    else describe(suite, async () => void (await import(`${url.href}?store=${kind}`)));
  }
}
