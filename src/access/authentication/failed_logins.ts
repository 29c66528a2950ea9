// Throttling of failed logins (login_rules.ts) on one server: in memory, and bounded.
import { BoundedMap } from '../limits/bounded_map.ts';
import { type Clock, monotonicClock } from '../limits/monotonic_clock.ts';
import {
  type FailedLoginSettings,
  failureExpiryMsOf,
  type LoginRecords,
  LoginRules,
  loginCallerOf,
  type Tally,
  type UserAtAddress,
  type UserName,
} from './login_rules.ts';

/** Several servers on one store count the same failures: failed_logins_of_servers.ts. */
export interface FailedLogins {
  /**
   * Throws RATE_LIMITED if the attempt has to wait. Call it before credentials are verified, unless they were verified recently;
   * afterwards call either `recordFailure` or `recordSuccess`.
   */
  beginAttempt(address: string, userName: string | undefined): Promise<void> | void;
  recordFailure(address: string, userName: string | undefined): Promise<void> | void;
  recordSuccess(address: string, userName: string): Promise<void> | void;
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
const knownUsersMax = 20_000;
const knownAddressesPerUserMax = 16;

class RecordsInMemory implements LoginRecords {
  readonly addresses: BoundedMap<Tally>;
  readonly pairs: BoundedMap<UserAtAddress>;
  readonly names: BoundedMap<UserName>;
  /** User → networks of successful logins, and until when they count as known. */
  readonly #known = new Map<string, Map<string, number>>();

  constructor(settings: FailedLoginSettings) {
    this.addresses = boundedTallies(settings.failedLoginsPerAddressMax, settings);
    this.pairs = boundedTallies(settings.failedLoginsPerUserAndAddressMax, settings);
    this.names = boundedTallies(settings.failedLoginsPerUserMax, settings);
  }

  knownUntil(user: string, network: string): number {
    return this.#known.get(user)?.get(network) ?? 0;
  }

  remember(user: string, network: string, until: number): void {
    const networks = this.#known.get(user) ?? new Map<string, number>();
    // The latest last, so that the oldest is evicted first.
    networks.delete(network);
    networks.set(network, until);
    dropOldest(networks, knownAddressesPerUserMax);
    this.#known.delete(user);
    this.#known.set(user, networks);
    dropOldest(this.#known, knownUsersMax);
  }
}

export class FailedLoginsInMemory implements FailedLogins {
  readonly #rules: LoginRules;
  readonly #records: RecordsInMemory;
  readonly #networkOf: (address: string) => string;
  readonly #clock: Clock;

  constructor({ settings, networkOf, clock }: FailedLoginsOptions) {
    this.#records = new RecordsInMemory(settings);
    this.#rules = new LoginRules(settings, this.#records);
    this.#networkOf = networkOf;
    this.#clock = monotonicClock(clock);
  }

  beginAttempt(address: string, userName: string | undefined): void {
    this.#rules.beginAttempt(loginCallerOf(this.#networkOf, address, userName), this.#clock());
  }

  recordFailure(address: string, userName: string | undefined): void {
    this.#rules.recordFailure(loginCallerOf(this.#networkOf, address, userName), this.#clock());
  }

  recordSuccess(address: string, userName: string): void {
    this.#rules.recordSuccess(loginCallerOf(this.#networkOf, address, userName), this.#clock());
  }

  /** Number of keys in all maps. */
  get size(): number {
    return this.#records.addresses.size + this.#records.pairs.size + this.#records.names.size;
  }
}

function boundedTallies<T extends Tally>(unthrottledFailuresMax: number, settings: FailedLoginSettings): BoundedMap<T> {
  const failureExpiryMs = failureExpiryMsOf(unthrottledFailuresMax, settings);
  return new BoundedMap<T>({
    keysMax: loginKeysMax,
    retentionValue: (tally, now) => tally.retentionValue(now, failureExpiryMs),
  });
}

function dropOldest(map: Map<string, unknown>, max: number): void {
  if (map.size > max) map.delete(map.keys().next().value as string);
}
