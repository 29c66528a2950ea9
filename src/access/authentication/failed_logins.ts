// Throttling of failed logins: by address, by user and address, and by user for addresses from which the user has not logged in. In
// memory, bounded, and the same for users that exist and users that do not. Verifies no credentials itself.
import { hash } from 'node:crypto';
import { Failure } from '../../standard/failure.ts';
import { BoundedMap } from '../limits/bounded_map.ts';
import { type Clock, monotonicClock } from '../limits/monotonic_clock.ts';

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

export interface FailedLoginsOptions {
  readonly settings: FailedLoginSettings;
  /** The network that belongs to a single client: the address itself or, for IPv6, its /64. */
  readonly networkOf: (address: string) => string;
  /** Milliseconds since an arbitrary point in time; it may be set back. */
  readonly clock?: Clock;
}

/** Size of each of the three maps, of addresses, of user names, and of pairs of them; about 15 MB each. */
export const loginKeysMax = 65_536;
export const knownUsersMax = 20_000;
export const knownAddressesPerUserMax = 16;
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

/** Failures, which expire one by one, and attempts in progress. */
class Tally {
  level = 0;
  blockedUntil = 0;
  #levelAt = 0;
  #inProgress = 0;
  #lastBegunAt = 0;

  /** The failures that have not expired; one expires every `failureExpiryMs`. */
  failures(now: number, failureExpiryMs: number): number {
    this.level = Math.max(0, this.level - (now - this.#levelAt) / failureExpiryMs);
    this.#levelAt = now;
    return this.level;
  }

  inProgress(now: number): number {
    if (now - this.#lastBegunAt > attemptMsMax) this.#inProgress = 0;
    return this.#inProgress;
  }

  begin(now: number): void {
    this.#inProgress = this.inProgress(now) + 1;
    this.#lastBegunAt = now;
  }

  end(): void {
    if (this.#inProgress > 0) this.#inProgress--;
  }

  retentionValue(now: number, failureExpiryMs: number): number {
    return this.failures(now, failureExpiryMs) + this.inProgress(now);
  }
}

/** One user name from one network. */
class UserAtAddress extends Tally {
  /** The assigned turn, while the user name is under attack. */
  turnAt: number | undefined;
  lastFailedAt: number | undefined;

  override retentionValue(now: number, failureExpiryMs: number): number {
    const turn = this.turnAt !== undefined && now < this.turnAt + turnExpiryMs ? 1 : 0;
    return super.retentionValue(now, failureExpiryMs) + turn;
  }
}

/** One user name. Unknown addresses wait in two queues, so that those which failed before do not delay newcomers. */
class UserName extends Tally {
  readonly nextTurnAt = { first: 0, again: 0 };
}

class Tallies<T extends Tally> {
  readonly keys: BoundedMap<T>;
  readonly #create: new () => T;
  readonly #unthrottledFailures: number;
  readonly #failureExpiryMs: number;
  readonly #waitMsMax: number;

  constructor(create: new () => T, unthrottledFailuresMax: number, settings: FailedLoginSettings) {
    this.#create = create;
    this.#unthrottledFailures = unthrottledFailuresMax;
    this.#failureExpiryMs = (settings.failedLoginsWindowSeconds * 1000) / unthrottledFailuresMax;
    this.#waitMsMax = settings.failedLoginWaitSecondsMax * 1000;
    const retentionValue = (tally: T, now: number) => tally.retentionValue(now, this.#failureExpiryMs);
    this.keys = new BoundedMap({ keysMax: loginKeysMax, retentionValue });
  }

  getOrAdd(key: string, now: number): T {
    return this.keys.get(key) ?? this.keys.add(key, new this.#create(), now);
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
    const blockedMs = tally.blockedUntil - now;
    return inProgress > 0 && inProgress >= atOnceMax ? Math.max(waitMsMin, blockedMs) : Math.max(0, blockedMs);
  }

  countFailure(tally: T, now: number): void {
    tally.level = Math.min(tally.failures(now, this.#failureExpiryMs) + 1, this.#unthrottledFailures + doublingsMax);
  }

  /** Blocks for 1, 2, 4 … seconds, with each failure beyond the unthrottled ones. */
  block(tally: T, now: number): void {
    const excess = Math.ceil(tally.failures(now, this.#failureExpiryMs) - this.#unthrottledFailures);
    if (excess > 0) tally.blockedUntil = now + Math.min(waitMsMin * 2 ** (excess - 1), this.#waitMsMax);
  }
}

export class FailedLogins {
  readonly #settings: FailedLoginSettings;
  readonly #networkOf: (address: string) => string;
  readonly #clock: Clock;
  readonly #addresses: Tallies<Tally>;
  readonly #pairs: Tallies<UserAtAddress>;
  readonly #names: Tallies<UserName>;
  /** User name → networks of successful logins, and until when they count as known. */
  readonly #known = new Map<string, Map<string, number>>();

  constructor({ settings, networkOf, clock }: FailedLoginsOptions) {
    this.#settings = settings;
    this.#networkOf = networkOf;
    this.#clock = monotonicClock(clock);
    this.#addresses = new Tallies(Tally, settings.failedLoginsPerAddressMax, settings);
    this.#pairs = new Tallies(UserAtAddress, settings.failedLoginsPerUserAndAddressMax, settings);
    this.#names = new Tallies(UserName, settings.failedLoginsPerUserMax, settings);
  }

  /**
   * Throws RATE_LIMITED if the attempt has to wait. Call it before credentials are verified, unless they were verified recently;
   * afterwards call either `recordFailure` or `recordSuccess`.
   */
  beginAttempt(address: string, userName: string | undefined): void {
    const now = this.#clock();
    const network = this.#networkOf(address);
    if (userName === undefined) {
      refuse(this.#addresses.wait(this.#addresses.keys.get(network), now));
      this.#addresses.getOrAdd(network, now).begin(now);
      return;
    }
    const user = digest(userName);
    const pair = this.#pairs.keys.get(`${network} ${user}`);
    const isKnown = this.#isKnown(user, network, now);
    // Failures of others at the same address do not affect a user who is known there.
    const addressWait = isKnown ? 0 : this.#addresses.wait(this.#addresses.keys.get(network), now);
    refuse(Math.max(addressWait, this.#pairs.wait(pair, now)));
    const name = this.#names.keys.get(user);
    if (!isKnown && this.#names.exhausted(name, now)) refuse(this.#waitForTurn(name as UserName, network, user, now));
    else if (!isKnown) refuse(this.#names.wait(name, now));
    if (!isKnown) {
      this.#addresses.getOrAdd(network, now).begin(now);
      this.#names.getOrAdd(user, now).begin(now);
    }
    this.#pairs.getOrAdd(`${network} ${user}`, now).begin(now);
  }

  recordFailure(address: string, userName: string | undefined): void {
    const now = this.#clock();
    const network = this.#networkOf(address);
    const user = userName === undefined ? undefined : digest(userName);
    const isKnown = user !== undefined && this.#isKnown(user, network, now);
    const tally = this.#addresses.getOrAdd(network, now);
    if (!isKnown) tally.end();
    this.#addresses.countFailure(tally, now);
    this.#addresses.block(tally, now);
    if (user === undefined) return;
    const pair = this.#pairs.getOrAdd(`${network} ${user}`, now);
    pair.end();
    pair.lastFailedAt = now;
    this.#pairs.countFailure(pair, now);
    this.#pairs.block(pair, now);
    if (isKnown) return;
    const name = this.#names.getOrAdd(user, now);
    name.end();
    this.#names.countFailure(name, now);
  }

  recordSuccess(address: string, userName: string): void {
    const now = this.#clock();
    const network = this.#networkOf(address);
    const user = digest(userName);
    if (!this.#isKnown(user, network, now)) {
      // The failures of the address are retained: otherwise an attacker could reset them by logging in as a user of their own.
      this.#addresses.keys.get(network)?.end();
      this.#names.keys.get(user)?.end();
    }
    const pair = this.#pairs.keys.get(`${network} ${user}`);
    if (pair) {
      pair.end();
      pair.level = 0;
      pair.blockedUntil = 0;
      pair.turnAt = undefined;
      pair.lastFailedAt = undefined;
    }
    this.#remember(user, network, now);
  }

  /** Number of keys in all maps. */
  get size(): number {
    return this.#addresses.keys.size + this.#pairs.keys.size + this.#names.keys.size;
  }

  /** How long until it is this network's turn. Turns are assigned in the order of requests, and reserved for the network. */
  #waitForTurn(name: UserName, network: string, user: string, now: number): number {
    const { unknownAddressLoginsPerMinuteMax, failedLoginWaitSecondsMax, failedLoginsWindowSeconds } = this.#settings;
    const pair = this.#pairs.getOrAdd(`${network} ${user}`, now);
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
    return (this.#known.get(user)?.get(network) ?? 0) > now;
  }

  #remember(user: string, network: string, now: number): void {
    const networks = this.#known.get(user) ?? new Map<string, number>();
    // The latest last, so that the oldest is evicted first.
    networks.delete(network);
    networks.set(network, now + this.#settings.knownAddressHours * hourMs);
    dropOldest(networks, knownAddressesPerUserMax);
    this.#known.delete(user);
    this.#known.set(user, networks);
    dropOldest(this.#known, knownUsersMax);
  }
}

function dropOldest(map: Map<string, unknown>, max: number): void {
  if (map.size > max) map.delete(map.keys().next().value as string);
}

/** People type passwords into the name field, and attackers send names of any length: neither is stored. */
function digest(userName: string): string {
  return hash('sha256', userName, 'base64');
}

/** The message reveals neither whether the user exists nor which limit applies. */
function refuse(waitMs: number): void {
  if (waitMs <= 0) return;
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
  const message = `too many failed login attempts; retry after ${retryAfterSeconds} s`;
  throw new Failure('RATE_LIMITED', message, { limit: 'failed logins', retryAfterSeconds }, { retryAfterSeconds });
}
