// How failed attempts to log in slow down: by address, by user and address, and by user where the address is not known as the
// user's. In memory, bounded, the same for users that exist and those that do not. Whether credentials are good is others'.
import { hash } from 'node:crypto';
import { Failure } from '../../standard/failure.ts';
import { BoundedMap } from '../limits/bounded_map.ts';
import { type Clock, monotonicClock } from '../limits/monotonic_clock.ts';

export interface FailedLoginSettings {
  /** Failures of an address that cost it nothing, within the window. */
  readonly failedLoginsPerAddressMax: number;
  /** The same of one user's name from one address. */
  readonly failedLoginsPerUserAndAddressMax: number;
  /** Failures of one user's name from unknown addresses, within the window, after which those wait for their turn. */
  readonly failedLoginsPerUserMax: number;
  readonly failedLoginsWindowSeconds: number;
  readonly failedLoginWaitSecondsMax: number;
  /** How many attempts a minute there are turns for. */
  readonly unknownAddressLoginsPerMinuteMax: number;
  readonly knownAddressHours: number;
}

export interface FailedLoginsOptions {
  readonly settings: FailedLoginSettings;
  /** An address → what one client has to itself: itself or, for IPv6, its /64. */
  readonly networkOf: (address: string) => string;
  /** Milliseconds from anywhere; it may be set back. */
  readonly clock?: Clock;
}

/** Of each of: addresses, users' names, and pairs of them. About 15 MB each. */
export const loginKeysMax = 65_536;
export const knownUsersMax = 20_000;
export const knownAddressesPerUserMax = 16;
/** Attempts under way at once of who has not failed lately: many connections of one client, many clients of one network. */
export const attemptsAtOnceMax = 50;
/** An attempt that ended otherwise than good or bad is under way for so long at most. */
const attemptMsMax = 30_000;
/** What was missed by so much is not one's turn any more. */
const turnMissedMs = 60_000;
/** How far ahead turns are given: where strangers by the thousand wait, a turn in days is of no use. */
const lineMsMax = 3_600_000;
/** Beyond free failures, as many as double the wait to the longest there may be. */
const doublingsMax = 12;
/** The shortest wait. */
const momentMs = 1000;
const minuteMs = 60_000;
const hourMs = 3_600_000;

/** Failures, which are forgotten one by one, and attempts under way. */
class Tally {
  level = 0;
  blockedUntil = 0;
  #levelAt = 0;
  #underWay = 0;
  #begunAt = 0;

  /** What is left of the failures; `forgetMs` is how long it takes to forget one. */
  failures(now: number, forgetMs: number): number {
    this.level = Math.max(0, this.level - (now - this.#levelAt) / forgetMs);
    this.#levelAt = now;
    return this.level;
  }

  underWay(now: number): number {
    if (now - this.#begunAt > attemptMsMax) this.#underWay = 0;
    return this.#underWay;
  }

  begin(now: number): void {
    this.#underWay = this.underWay(now) + 1;
    this.#begunAt = now;
  }

  end(): void {
    if (this.#underWay > 0) this.#underWay--;
  }

  worth(now: number, forgetMs: number): number {
    return this.failures(now, forgetMs) + this.underWay(now);
  }
}

/** One user's name from one network. */
class Pair extends Tally {
  /** When it is its turn, while the name is under attack. */
  turnAt: number | undefined;
  lastFailedAt: number | undefined;

  override worth(now: number, forgetMs: number): number {
    const turn = this.turnAt !== undefined && now < this.turnAt + turnMissedMs ? 1 : 0;
    return super.worth(now, forgetMs) + turn;
  }
}

/** One user's name. There are two lines of unknown addresses, so that those who go on failing leave the other to newcomers. */
class Name extends Tally {
  readonly nextTurnAt = { first: 0, again: 0 };
}

class Tallies<T extends Tally> {
  readonly keys: BoundedMap<T>;
  readonly #make: new () => T;
  readonly #free: number;
  readonly #forgetMs: number;
  readonly #waitMsMax: number;

  constructor(make: new () => T, free: number, settings: FailedLoginSettings) {
    this.#make = make;
    this.#free = free;
    this.#forgetMs = (settings.failedLoginsWindowSeconds * 1000) / free;
    this.#waitMsMax = settings.failedLoginWaitSecondsMax * 1000;
    const worth = (tally: T, now: number) => tally.worth(now, this.#forgetMs);
    this.keys = new BoundedMap({ keysMax: loginKeysMax, worth });
  }

  need(key: string, now: number): T {
    return this.keys.get(key) ?? this.keys.add(key, new this.#make(), now);
  }

  exhausted(tally: T | undefined, now: number): boolean {
    return tally !== undefined && tally.failures(now, this.#forgetMs) >= this.#free;
  }

  /** How long to wait before an attempt. What is under way may yet fail, and counts as if it had. */
  wait(tally: T | undefined, now: number): number {
    if (tally === undefined) return 0;
    const failures = tally.failures(now, this.#forgetMs);
    const atOnceMax = failures > 0 ? this.#free - failures : attemptsAtOnceMax;
    const underWay = tally.underWay(now);
    const blockedMs = tally.blockedUntil - now;
    return underWay > 0 && underWay >= atOnceMax ? Math.max(momentMs, blockedMs) : Math.max(0, blockedMs);
  }

  failed(tally: T, now: number): void {
    tally.level = Math.min(tally.failures(now, this.#forgetMs) + 1, this.#free + doublingsMax);
  }

  /** 1, 2, 4 … seconds, once there are more failures than are free. */
  block(tally: T, now: number): void {
    const beyond = Math.ceil(tally.failures(now, this.#forgetMs) - this.#free);
    if (beyond > 0) tally.blockedUntil = now + Math.min(momentMs * 2 ** (beyond - 1), this.#waitMsMax);
  }
}

export class FailedLogins {
  readonly #settings: FailedLoginSettings;
  readonly #networkOf: (address: string) => string;
  readonly #clock: Clock;
  readonly #addresses: Tallies<Tally>;
  readonly #pairs: Tallies<Pair>;
  readonly #names: Tallies<Name>;
  /** User's name → networks that it logged in from, and until when they are known. Only who logs in is remembered here. */
  readonly #known = new Map<string, Map<string, number>>();

  constructor({ settings, networkOf, clock }: FailedLoginsOptions) {
    this.#settings = settings;
    this.#networkOf = networkOf;
    this.#clock = monotonicClock(clock);
    this.#addresses = new Tallies(Tally, settings.failedLoginsPerAddressMax, settings);
    this.#pairs = new Tallies(Pair, settings.failedLoginsPerUserAndAddressMax, settings);
    this.#names = new Tallies(Name, settings.failedLoginsPerUserMax, settings);
  }

  /**
   * Throws RATE_LIMITED where the attempt is to wait. To be called for credentials that are not known to be good already, before
   * anything slow is done about them; then either `failed` or `succeeded`.
   */
  beginAttempt(address: string, userName: string | undefined): void {
    const now = this.#clock();
    const network = this.#networkOf(address);
    if (userName === undefined) {
      refuse(this.#addresses.wait(this.#addresses.keys.get(network), now));
      this.#addresses.need(network, now).begin(now);
      return;
    }
    const user = digest(userName);
    const pair = this.#pairs.keys.get(`${network} ${user}`);
    const isKnown = this.#isKnown(user, network, now);
    // Who else is at a user's address does the user no harm by failing as others.
    const addressWait = isKnown ? 0 : this.#addresses.wait(this.#addresses.keys.get(network), now);
    refuse(Math.max(addressWait, this.#pairs.wait(pair, now)));
    const name = this.#names.keys.get(user);
    if (!isKnown && this.#names.exhausted(name, now)) refuse(this.#turn(name as Name, network, user, now));
    else if (!isKnown) refuse(this.#names.wait(name, now));
    if (!isKnown) {
      this.#addresses.need(network, now).begin(now);
      this.#names.need(user, now).begin(now);
    }
    this.#pairs.need(`${network} ${user}`, now).begin(now);
  }

  recordFailure(address: string, userName: string | undefined): void {
    const now = this.#clock();
    const network = this.#networkOf(address);
    const user = userName === undefined ? undefined : digest(userName);
    const isKnown = user !== undefined && this.#isKnown(user, network, now);
    const tally = this.#addresses.need(network, now);
    if (!isKnown) tally.end();
    this.#addresses.failed(tally, now);
    this.#addresses.block(tally, now);
    if (user === undefined) return;
    const pair = this.#pairs.need(`${network} ${user}`, now);
    pair.end();
    pair.lastFailedAt = now;
    this.#pairs.failed(pair, now);
    this.#pairs.block(pair, now);
    if (isKnown) return;
    const name = this.#names.need(user, now);
    name.end();
    this.#names.failed(name, now);
  }

  recordSuccess(address: string, userName: string): void {
    const now = this.#clock();
    const network = this.#networkOf(address);
    const user = digest(userName);
    if (!this.#isKnown(user, network, now)) {
      // What an address failed at before stays: else a user of one's own would be a way to go on with others.
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

  /** How many keys are remembered. */
  get size(): number {
    return this.#addresses.keys.size + this.#pairs.keys.size + this.#names.keys.size;
  }

  /** How long until it is this network's turn: turns are given in the order of asking, and are kept for who comes back. */
  #turn(name: Name, network: string, user: string, now: number): number {
    const { unknownAddressLoginsPerMinuteMax, failedLoginWaitSecondsMax, failedLoginsWindowSeconds } = this.#settings;
    const pair = this.#pairs.need(`${network} ${user}`, now);
    const sinceMs = now - (pair.lastFailedAt ?? Number.NEGATIVE_INFINITY);
    const pauseMs = failedLoginWaitSecondsMax * 1000 - sinceMs;
    if (pauseMs > 0) return pauseMs;
    if (pair.turnAt === undefined || now >= pair.turnAt + turnMissedMs) {
      const line = sinceMs < failedLoginsWindowSeconds * 1000 ? 'again' : 'first';
      const turnAt = Math.max(now, name.nextTurnAt[line]);
      pair.turnAt = undefined;
      if (turnAt - now > lineMsMax) return minuteMs;
      pair.turnAt = turnAt;
      name.nextTurnAt[line] = turnAt + (2 * minuteMs) / unknownAddressLoginsPerMinuteMax;
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
    // The latest last, so that the oldest is the first to go.
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

/** People type passwords where names belong, and strangers send names of any length: neither is kept. */
function digest(userName: string): string {
  return hash('sha256', userName, 'base64');
}

/** Says nothing of whether there is such a user, nor which of the rules it is. */
function refuse(waitMs: number): void {
  if (waitMs <= 0) return;
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
  const message = 'attempts to log in failed too often; wait before the next';
  throw new Failure('RATE_LIMITED', message, { limit: 'failed logins', retryAfterSeconds }, { retryAfterSeconds });
}
