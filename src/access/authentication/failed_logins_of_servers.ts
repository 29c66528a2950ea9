// Throttling of failed logins (login_rules.ts) for all servers on one store: an attempt reads and writes its tallies there, so that an
// attacker gains nothing by trying several servers. Attempts that arrive together share a transaction.
import type { Transaction } from 'kysely';
import { BatchQueue } from '../../store/batch_queue.ts';
import type { Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import { BoundedMap } from '../limits/bounded_map.ts';
import type { Clock } from '../limits/monotonic_clock.ts';
import type { FailedLogins, FailedLoginsOptions } from './failed_logins.ts';
import {
  type FailedLoginSettings,
  type LoginCaller,
  type LoginRecords,
  LoginRules,
  loginCallerOf,
  pairKey,
  refusalOf,
  type TalliesByKey,
  Tally,
  tallyMsMax,
  UserAtAddress,
  UserName,
  waitOf,
} from './login_rules.ts';

export interface SharedFailedLoginsOptions extends FailedLoginsOptions {
  readonly store: Store;
}

const stepsPerTransactionMax = 100;
/** For so long a refusal is repeated without asking the store, so that refused callers cause no load there. */
const refusalMsMax = 1_000;
const refusedCallersMax = 65_536;
/** About 60 MB. The rows that expire first are deleted beyond. */
const rowsMax = 200_000;

interface Step {
  readonly caller: LoginCaller;
  readonly run: (rules: LoginRules, now: number) => void;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface Refusal {
  /** When the caller may try again. */
  readonly until: number;
  readonly repeatedUntil: number;
}

export class SharedFailedLogins implements FailedLogins {
  readonly #settings: FailedLoginSettings;
  readonly #store: Store;
  readonly #networkOf: (address: string) => string;
  readonly #clock: Clock;
  readonly #refusals = new BoundedMap<Refusal>({
    keysMax: refusedCallersMax,
    retentionValue: ({ repeatedUntil }, now) => repeatedUntil - now,
  });
  readonly #steps = new BatchQueue<Step>(stepsPerTransactionMax, (steps) => this.#runAll(steps));

  /** `clock`: milliseconds since 1970, about the same on all servers. */
  constructor({ settings, networkOf, store, clock = Date.now }: SharedFailedLoginsOptions) {
    this.#settings = settings;
    this.#store = store;
    this.#networkOf = networkOf;
    this.#clock = clock;
  }

  async beginAttempt(address: string, userName: string | undefined): Promise<void> {
    const caller = loginCallerOf(this.#networkOf, address, userName);
    const key = callerKey(caller);
    const known = this.#refusals.get(key);
    const now = this.#clock();
    if (known && now < known.repeatedUntil) throw refusalOf(known.until - now);
    try {
      await this.#run(caller, (rules, at) => rules.beginAttempt(caller, at));
    } catch (error) {
      const waitMs = waitOf(error);
      const after = this.#clock();
      if (waitMs !== undefined)
        this.#refusals.set(
          key,
          { until: after + waitMs, repeatedUntil: after + Math.min(waitMs, refusalMsMax) },
          after,
        );
      throw error;
    }
  }

  recordFailure(address: string, userName: string | undefined): Promise<void> {
    const caller = loginCallerOf(this.#networkOf, address, userName);
    return this.#run(caller, (rules, now) => rules.recordFailure(caller, now));
  }

  recordSuccess(address: string, userName: string): Promise<void> {
    const caller = loginCallerOf(this.#networkOf, address, userName);
    return this.#run(caller, (rules, now) => rules.recordSuccess(caller, now));
  }

  /** Deletes tallies that no longer have an effect, and those beyond the number that is kept. */
  async sweep(): Promise<void> {
    const { db } = this.#store;
    const first = await db
      .selectFrom('failed_logins')
      .select('expires_at')
      .orderBy('expires_at', 'desc')
      .offset(rowsMax)
      .limit(1)
      .executeTakeFirst();
    const before = Math.max(Math.floor(this.#clock()), first?.expires_at ?? 0);
    await db.deleteFrom('failed_logins').where('expires_at', '<=', before).execute();
  }

  #run(caller: LoginCaller, run: Step['run']): Promise<void> {
    return new Promise((resolve, reject) => this.#steps.add({ caller, run, resolve, reject }));
  }

  async #runAll(steps: readonly Step[]): Promise<void> {
    try {
      const outcomes = await this.#store.transaction((tx) => this.#runIn(tx, steps));
      for (const settle of outcomes) settle();
    } catch (error) {
      for (const { reject } of steps) reject(error);
    }
  }

  /** @returns functions that report the outcomes to the callers, for after the commit. */
  async #runIn(tx: Transaction<Schema>, steps: readonly Step[]): Promise<(() => void)[]> {
    const records = await StoredRecords.read(
      tx,
      steps.flatMap(({ caller }) => keysOf(caller)),
    );
    const rules = new LoginRules(this.#settings, records);
    const now = this.#clock();
    const outcomes = steps.map(({ run, resolve, reject }) => {
      try {
        run(rules, now);
        return resolve;
      } catch (error) {
        return () => reject(error);
      }
    });
    await records.write(tx, Math.ceil(now + tallyMsMax(this.#settings)));
    return outcomes;
  }
}

const callerKey = ({ network, user = '' }: LoginCaller) => pairKey(network, user);

const addressesPrefix = 'address ';
const pairsPrefix = 'pair ';
const namesPrefix = 'name ';
const knownPrefix = 'known ';

/** The keys of the rows that an attempt may read. */
function keysOf({ network, user }: LoginCaller): string[] {
  const address = addressesPrefix + network;
  if (user === undefined) return [address];
  const pair = pairKey(network, user);
  return [address, pairsPrefix + pair, namesPrefix + user, knownPrefix + pair];
}

interface StoredRow {
  readonly key: string;
  readonly state: string;
  readonly expires_at: number;
}

/** The tallies of one transaction. */
class StoredRecords implements LoginRecords {
  readonly addresses: StoredTallies<Tally>;
  readonly pairs: StoredTallies<UserAtAddress>;
  readonly names: StoredTallies<UserName>;
  readonly #known: ReadonlyMap<string, StoredRow>;
  readonly #remembered = new Map<string, number>();

  private constructor(rows: ReadonlyMap<string, StoredRow>) {
    this.addresses = new StoredTallies(addressesPrefix, Tally, rows);
    this.pairs = new StoredTallies(pairsPrefix, UserAtAddress, rows);
    this.names = new StoredTallies(namesPrefix, UserName, rows);
    this.#known = rows;
  }

  static async read(tx: Transaction<Schema>, keys: readonly string[]): Promise<StoredRecords> {
    const rows = await tx
      .selectFrom('failed_logins')
      .selectAll()
      .where('key', 'in', [...new Set(keys)])
      .execute();
    return new StoredRecords(new Map(rows.map((row) => [row.key, row])));
  }

  knownUntil(user: string, network: string): number {
    const key = knownPrefix + pairKey(network, user);
    return this.#remembered.get(key) ?? this.#known.get(key)?.expires_at ?? 0;
  }

  remember(user: string, network: string, until: number): void {
    this.#remembered.set(knownPrefix + pairKey(network, user), Math.ceil(until));
  }

  async write(tx: Transaction<Schema>, expiresAt: number): Promise<void> {
    const tallies = [this.addresses, this.pairs, this.names].flatMap((each) => each.changed());
    const rows: StoredRow[] = [
      ...tallies.map(({ key, state }) => ({ key, state, expires_at: expiresAt })),
      ...[...this.#remembered].map(([key, until]) => ({ key, state: '{}', expires_at: until })),
    ];
    if (rows.length === 0) return;
    await tx
      .insertInto('failed_logins')
      .values(rows)
      .onConflict((conflict) =>
        conflict.column('key').doUpdateSet((e) => ({
          state: e.ref('excluded.state'),
          expires_at: e.ref('excluded.expires_at'),
        })),
      )
      .execute();
  }
}

class StoredTallies<T extends Tally> implements TalliesByKey<T> {
  readonly #prefix: string;
  readonly #create: new () => T;
  readonly #rows: ReadonlyMap<string, StoredRow>;
  readonly #read = new Map<string, T>();

  constructor(prefix: string, create: new () => T, rows: ReadonlyMap<string, StoredRow>) {
    this.#prefix = prefix;
    this.#create = create;
    this.#rows = rows;
  }

  get(key: string): T | undefined {
    const read = this.#read.get(key);
    if (read) return read;
    const row = this.#rows.get(this.#prefix + key);
    return row && this.add(key, Object.assign(new this.#create(), JSON.parse(row.state)));
  }

  add(key: string, tally: T): T {
    this.#read.set(key, tally);
    return tally;
  }

  changed(): { readonly key: string; readonly state: string }[] {
    return [...this.#read]
      .map(([key, tally]) => ({ key: this.#prefix + key, state: JSON.stringify(tally) }))
      .filter(({ key, state }) => this.#rows.get(key)?.state !== state);
  }
}
