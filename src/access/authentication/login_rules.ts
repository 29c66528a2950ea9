// The rules by which failed logins are throttled: by address, by user and address, and by user for addresses from which the user has not
// logged in. The same for users that exist and users that do not. Where the tallies are kept is failed_logins.ts's matter.
import { hash } from 'node:crypto';
import { Failure } from '../../standard/failure.ts';

export interface FailedLoginSettings {
  /** Failures of an address within the window before it is throttled. */
  readonly failedLoginsPerAddressMax: number;
  /** The same for one user name from one address. */
  readonly failedLoginsPerUserAndAddressMax: number;
  /** Failures of one user name from unknown addresses within the window, after which such addresses wait for their turn. */
  readonly failedLoginsPerUserMax: number;
  readonly failedLoginsWindowSeconds: number;
  readonly failedLoginWaitSecondsMax: number;
  /** How many turns are assigned per minute. */
  readonly unknownAddressLoginsPerMinuteMax: number;
  readonly knownAddressHours: number;
}

/** Concurrent attempts without recent failures: many connections of one client, or many clients of one network. */
export const attemptsAtOnceMax = 50;
/** An attempt without a recorded outcome counts as in progress for at most this long. */
const attemptMsMax = 30_000;
/** An assigned turn that is not used within this time expires. */
const turnExpiryMs = 60_000;
/** How far ahead turns are assigned: with thousands of addresses waiting, a turn in days is of no use. */
const turnAssignedAheadMsMax = 3_600_000;
/** Failures counted beyond the unthrottled ones: enough to double the wait up to its maximum. */
const doublingsMax = 12;
const waitMsMin = 1000;
const minuteMs = 60_000;
const hourMs = 3_600_000;

/** Who attempts to log in: the client's network, and the digest of the user name if there is one. */
export interface LoginCaller {
  readonly network: string;
  readonly user: string | undefined;
}

/** `networkOf`: the network that belongs to a single client: the address itself or, for IPv6, its /64. */
export function loginCallerOf(
  networkOf: (address: string) => string,
  address: string,
  userName: string | undefined,
): LoginCaller {
  return { network: networkOf(address), user: userName === undefined ? undefined : digest(userName) };
}

export const pairKey = (network: string, user: string) => `${network} ${user}`;

/** Failures, which expire one by one, and attempts in progress. All fields are data, so that a store can keep them as JSON. */
export class Tally {
  level = 0;
  levelAt = 0;
  blockedUntil = 0;
  begun = 0;
  lastBegunAt = 0;

  /** The failures that have not expired; one expires every `failureExpiryMs`. */
  failures(now: number, failureExpiryMs: number): number {
    return Math.max(0, this.level - (now - this.levelAt) / failureExpiryMs);
  }

  inProgress(now: number): number {
    return now - this.lastBegunAt > attemptMsMax ? 0 : this.begun;
  }

  begin(now: number): void {
    this.begun = this.inProgress(now) + 1;
    this.lastBegunAt = now;
  }

  end(): void {
    if (this.begun > 0) this.begun--;
  }

  retentionValue(now: number, failureExpiryMs: number): number {
    return this.failures(now, failureExpiryMs) + this.inProgress(now);
  }
}

/** One user name from one network. */
export class UserAtAddress extends Tally {
  /** The assigned turn, while the user name is under attack. */
  turnAt: number | undefined;
  lastFailedAt: number | undefined;

  override retentionValue(now: number, failureExpiryMs: number): number {
    const turn = this.turnAt !== undefined && now < this.turnAt + turnExpiryMs ? 1 : 0;
    return super.retentionValue(now, failureExpiryMs) + turn;
  }
}

/** One user name. Unknown addresses wait in two queues, so that those which failed before do not delay newcomers. */
export class UserName extends Tally {
  readonly nextTurnAt = { first: 0, again: 0 };
}

export interface TalliesByKey<T extends Tally> {
  get(key: string): T | undefined;
  /** Only for a key that `get` does not find. */
  add(key: string, tally: T, now: number): T;
}

/** Where the tallies are. A key is a network, a user, or both. */
export interface LoginRecords {
  readonly addresses: TalliesByKey<Tally>;
  readonly pairs: TalliesByKey<UserAtAddress>;
  readonly names: TalliesByKey<UserName>;
  /** Until when the network counts as known for the user; 0 if it is not. */
  knownUntil(user: string, network: string): number;
  remember(user: string, network: string, until: number): void;
}

/** After this time a failure has no effect. */
export function failureExpiryMsOf(unthrottledFailuresMax: number, settings: FailedLoginSettings): number {
  return (settings.failedLoginsWindowSeconds * 1000) / unthrottledFailuresMax;
}

/** After this time without an attempt, a tally has no effect. */
export function tallyMsMax(settings: FailedLoginSettings): number {
  const { failedLoginsPerAddressMax, failedLoginsPerUserAndAddressMax, failedLoginsPerUserMax } = settings;
  const least = Math.min(failedLoginsPerAddressMax, failedLoginsPerUserAndAddressMax, failedLoginsPerUserMax);
  return failureExpiryMsOf(least, settings) * (least + doublingsMax) + turnAssignedAheadMsMax + turnExpiryMs;
}

class Tallies<T extends Tally> {
  readonly byKey: TalliesByKey<T>;
  readonly #create: new () => T;
  readonly #unthrottledFailures: number;
  readonly #failureExpiryMs: number;
  readonly #waitMsMax: number;

  constructor(
    byKey: TalliesByKey<T>,
    create: new () => T,
    unthrottledFailuresMax: number,
    settings: FailedLoginSettings,
  ) {
    this.byKey = byKey;
    this.#create = create;
    this.#unthrottledFailures = unthrottledFailuresMax;
    this.#failureExpiryMs = failureExpiryMsOf(unthrottledFailuresMax, settings);
    this.#waitMsMax = settings.failedLoginWaitSecondsMax * 1000;
  }

  getOrAdd(key: string, now: number): T {
    return this.byKey.get(key) ?? this.byKey.add(key, new this.#create(), now);
  }

  exhausted(tally: T | undefined, now: number): boolean {
    return tally !== undefined && tally.failures(now, this.#failureExpiryMs) >= this.#unthrottledFailures;
  }

  /** How long to wait before an attempt. An attempt in progress counts as a failure. */
  wait(tally: T | undefined, now: number): number {
    if (tally === undefined) return 0;
    const failures = tally.failures(now, this.#failureExpiryMs);
    const atOnceMax = failures > 0 ? this.#unthrottledFailures - failures : attemptsAtOnceMax;
    const inProgress = tally.inProgress(now);
    // A clock that is behind, or was set back, prolongs no wait beyond the longest.
    const blockedMs = Math.min(tally.blockedUntil - now, this.#waitMsMax);
    return inProgress > 0 && inProgress >= atOnceMax ? Math.max(waitMsMin, blockedMs) : Math.max(0, blockedMs);
  }

  countFailure(tally: T, now: number): void {
    tally.level = Math.min(tally.failures(now, this.#failureExpiryMs) + 1, this.#unthrottledFailures + doublingsMax);
    tally.levelAt = now;
  }

  /** Blocks for 1, 2, 4 … seconds, with each failure beyond the unthrottled ones. */
  block(tally: T, now: number): void {
    const excess = Math.ceil(tally.failures(now, this.#failureExpiryMs) - this.#unthrottledFailures);
    if (excess > 0) tally.blockedUntil = now + Math.min(waitMsMin * 2 ** (excess - 1), this.#waitMsMax);
  }
}

/** Verifies no credentials itself. */
export class LoginRules {
  readonly #settings: FailedLoginSettings;
  readonly #records: LoginRecords;
  readonly #addresses: Tallies<Tally>;
  readonly #pairs: Tallies<UserAtAddress>;
  readonly #names: Tallies<UserName>;

  constructor(settings: FailedLoginSettings, records: LoginRecords) {
    this.#settings = settings;
    this.#records = records;
    const { failedLoginsPerAddressMax, failedLoginsPerUserAndAddressMax, failedLoginsPerUserMax } = settings;
    this.#addresses = new Tallies(records.addresses, Tally, failedLoginsPerAddressMax, settings);
    this.#pairs = new Tallies(records.pairs, UserAtAddress, failedLoginsPerUserAndAddressMax, settings);
    this.#names = new Tallies(records.names, UserName, failedLoginsPerUserMax, settings);
  }

  /**
   * Throws RATE_LIMITED if the attempt has to wait. Call it before credentials are verified, unless they were verified recently;
   * afterwards call either `recordFailure` or `recordSuccess`.
   */
  beginAttempt({ network, user }: LoginCaller, now: number): void {
    if (user === undefined) {
      refuse(this.#addresses.wait(this.#addresses.byKey.get(network), now));
      this.#addresses.getOrAdd(network, now).begin(now);
      return;
    }
    const pair = this.#pairs.byKey.get(pairKey(network, user));
    const isKnown = this.#isKnown(user, network, now);
    // Failures of others at the same address do not affect a user who is known there.
    const addressWait = isKnown ? 0 : this.#addresses.wait(this.#addresses.byKey.get(network), now);
    refuse(Math.max(addressWait, this.#pairs.wait(pair, now)));
    const name = this.#names.byKey.get(user);
    if (!isKnown && this.#names.exhausted(name, now)) refuse(this.#waitForTurn(name as UserName, network, user, now));
    else if (!isKnown) refuse(this.#names.wait(name, now));
    if (!isKnown) {
      this.#addresses.getOrAdd(network, now).begin(now);
      this.#names.getOrAdd(user, now).begin(now);
    }
    this.#pairs.getOrAdd(pairKey(network, user), now).begin(now);
  }

  recordFailure({ network, user }: LoginCaller, now: number): void {
    const isKnown = user !== undefined && this.#isKnown(user, network, now);
    const tally = this.#addresses.getOrAdd(network, now);
    if (!isKnown) tally.end();
    this.#addresses.countFailure(tally, now);
    this.#addresses.block(tally, now);
    if (user === undefined) return;
    const pair = this.#pairs.getOrAdd(pairKey(network, user), now);
    pair.end();
    pair.lastFailedAt = now;
    this.#pairs.countFailure(pair, now);
    this.#pairs.block(pair, now);
    if (isKnown) return;
    const name = this.#names.getOrAdd(user, now);
    name.end();
    this.#names.countFailure(name, now);
  }

  recordSuccess({ network, user }: LoginCaller, now: number): void {
    if (user === undefined) return;
    if (!this.#isKnown(user, network, now)) {
      // The failures of the address are retained: otherwise an attacker could reset them by logging in as a user of their own.
      this.#addresses.byKey.get(network)?.end();
      this.#names.byKey.get(user)?.end();
    }
    const pair = this.#pairs.byKey.get(pairKey(network, user));
    if (pair) {
      pair.end();
      pair.level = 0;
      pair.blockedUntil = 0;
      pair.turnAt = undefined;
      pair.lastFailedAt = undefined;
    }
    this.#records.remember(user, network, now + this.#settings.knownAddressHours * hourMs);
  }

  /** How long until it is this network's turn. Turns are assigned in the order of requests, and reserved for the network. */
  #waitForTurn(name: UserName, network: string, user: string, now: number): number {
    const { unknownAddressLoginsPerMinuteMax, failedLoginWaitSecondsMax, failedLoginsWindowSeconds } = this.#settings;
    const pair = this.#pairs.getOrAdd(pairKey(network, user), now);
    const sinceMs = now - (pair.lastFailedAt ?? Number.NEGATIVE_INFINITY);
    const pauseMs = failedLoginWaitSecondsMax * 1000 - sinceMs;
    if (pauseMs > 0) return pauseMs;
    if (pair.turnAt === undefined || now >= pair.turnAt + turnExpiryMs) {
      const queue = sinceMs < failedLoginsWindowSeconds * 1000 ? 'again' : 'first';
      const turnAt = Math.max(now, name.nextTurnAt[queue]);
      pair.turnAt = undefined;
      if (turnAt - now > turnAssignedAheadMsMax) return minuteMs;
      pair.turnAt = turnAt;
      name.nextTurnAt[queue] = turnAt + (2 * minuteMs) / unknownAddressLoginsPerMinuteMax;
    }
    const wait = pair.turnAt - now;
    if (wait <= 0) pair.turnAt = undefined;
    return wait;
  }

  #isKnown(user: string, network: string, now: number): boolean {
    return this.#records.knownUntil(user, network) > now;
  }
}

/** People type passwords into the name field, and attackers send names of any length: neither is stored. */
function digest(userName: string): string {
  return hash('sha256', userName, 'base64');
}

function refuse(waitMs: number): void {
  if (waitMs > 0) throw refusalOf(waitMs);
}

class LoginRefused extends Failure {
  readonly waitMs: number;

  /** The message reveals neither whether the user exists nor which limit applies. */
  constructor(waitMs: number) {
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
    const message = `too many failed login attempts; retry after ${retryAfterSeconds} s`;
    super('RATE_LIMITED', message, { limit: 'failed logins', retryAfterSeconds }, { retryAfterSeconds });
    this.waitMs = waitMs;
  }
}

export const refusalOf = (waitMs: number): Failure => new LoginRefused(waitMs);

/** How long a refused caller has to wait; undefined for other errors. */
export const waitOf = (error: unknown): number | undefined =>
  error instanceof LoginRefused ? error.waitMs : undefined;
