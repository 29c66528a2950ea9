// Rate limits: a token bucket for each principal and each client network, charged with the cost of each request, which its endpoint
// declares. Every request passes here, so it is synchronous and keeps one number for each key in memory.
import { Failure } from '../../standard/failure.ts';
import { BoundedMap } from './bounded_map.ts';
import { type Clock, monotonicClock } from './monotonic_clock.ts';

/** 0 per second: no limit. */
export interface RateLimitSettings {
  readonly principalCostPerSecondMax: number;
  readonly principalCostBurstMax: number;
  readonly addressCostPerSecondMax: number;
  readonly addressCostBurstMax: number;
}

export interface RateLimitsOptions {
  readonly settings: RateLimitSettings;
  /** The network that belongs to a single client: the address itself or, for IPv6, its /64. */
  readonly networkOf: (address: string) => string;
  /** Milliseconds since an arbitrary point in time; it may be set back. */
  readonly clock?: Clock;
  /** Is called with what is taken from a bucket, as the time in which it is full again. */
  readonly onTaken?: ((kind: BucketKind, key: string, takenMs: number) => void) | undefined;
}

export type BucketKind = 'principal' | 'address';

/** Several servers on one store charge the same buckets: rate_limits_of_servers.ts. */
export interface RateLimits {
  /** Throws RATE_LIMITED, without charging either bucket. */
  charge(principalId: string, address: string, cost: number): void;
  /** For callers who are not authenticated (yet). Throws RATE_LIMITED, without charging. */
  chargeAddress(address: string, cost: number): void;
}

/** Size of each of the two maps, of principals and of networks; about 10 MB each. */
export const rateKeysMax = 65_536;
const cachedNetworksMax = 4096;

export class RateLimitsInMemory implements RateLimits {
  readonly #principals: Buckets | undefined;
  readonly #addresses: Buckets | undefined;
  readonly #networkOf: (address: string) => string;
  /** Cache for IPv6 addresses: deriving the network takes longer than everything else here. */
  readonly #networks = new Map<string, string>();
  readonly #clock: Clock;

  constructor({ settings, networkOf, clock, onTaken }: RateLimitsOptions) {
    const report = (kind: BucketKind) => onTaken && ((key: string, takenMs: number) => onTaken(kind, key, takenMs));
    this.#principals = bucketsOf(
      settings.principalCostPerSecondMax,
      settings.principalCostBurstMax,
      report('principal'),
    );
    this.#addresses = bucketsOf(settings.addressCostPerSecondMax, settings.addressCostBurstMax, report('address'));
    this.#networkOf = networkOf;
    this.#clock = monotonicClock(clock);
  }

  charge(principalId: string, address: string, cost: number): void {
    const principals = this.#principals;
    const addresses = this.#addresses;
    if (principals === undefined && addresses === undefined) return;
    const now = this.#clock();
    const network = address.includes(':') ? this.#cachedNetwork(address) : address;
    const principalWait = principals === undefined ? 0 : principals.wait(principalId, cost, now);
    const addressWait = addresses === undefined ? 0 : addresses.wait(network, cost, now);
    if (principalWait > 0 || addressWait > 0) {
      if (principalWait >= addressWait) throw limited('principal', principalWait);
      throw limited('address', addressWait);
    }
    principals?.take(principalId, cost, now);
    addresses?.take(network, cost, now);
  }

  chargeAddress(address: string, cost: number): void {
    const addresses = this.#addresses;
    if (addresses === undefined) return;
    const now = this.#clock();
    const network = address.includes(':') ? this.#cachedNetwork(address) : address;
    const wait = addresses.wait(network, cost, now);
    if (wait > 0) throw limited('address', wait);
    addresses.take(network, cost, now);
  }

  /** Replaces what is missing from a bucket, as the time in which it is full again. */
  setMissing(kind: BucketKind, key: string, missingMs: number): void {
    const buckets = kind === 'principal' ? this.#principals : this.#addresses;
    buckets?.setMissing(key, missingMs, this.#clock());
  }

  /** Number of keys in both maps. */
  get size(): number {
    return (this.#principals?.size ?? 0) + (this.#addresses?.size ?? 0);
  }

  #cachedNetwork(address: string): string {
    const cached = this.#networks.get(address);
    if (cached !== undefined) return cached;
    if (this.#networks.size >= cachedNetworksMax) this.#networks.clear();
    const network = this.#networkOf(address);
    this.#networks.set(address, network);
    return network;
  }
}

/** A bucket is full again at `fullAt`; the time until then is what is missing from it. */
interface Bucket {
  fullAt: number;
}

class Buckets {
  readonly #buckets = new BoundedMap<Bucket>({
    keysMax: rateKeysMax,
    retentionValue: ({ fullAt }, now) => fullAt - now,
  });
  readonly #msPerCost: number;
  readonly #burst: number;
  readonly #burstMs: number;
  readonly #onTaken: ((key: string, takenMs: number) => void) | undefined;
  /** The bucket of the last call of `wait`. */
  #last: Bucket | undefined;

  constructor(perSecond: number, burst: number, onTaken: ((key: string, takenMs: number) => void) | undefined) {
    this.#onTaken = onTaken;
    this.#msPerCost = 1000 / perSecond;
    this.#burst = burst;
    this.#burstMs = burst * this.#msPerCost;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Milliseconds until the bucket holds `cost`. A cost beyond its capacity waits for a full bucket. */
  wait(key: string, cost: number, now: number): number {
    const bucket = this.#buckets.get(key);
    this.#last = bucket;
    if (bucket === undefined || bucket.fullAt <= now) return 0;
    const missingMs = bucket.fullAt - now + Math.min(cost, this.#burst) * this.#msPerCost;
    // Rounding errors do not refuse a request.
    return missingMs > this.#burstMs + 1e-6 ? missingMs - this.#burstMs : 0;
  }

  /** Must follow a call of `wait` for the same key. */
  take(key: string, cost: number, now: number): void {
    const takenMs = Math.min(cost, this.#burst) * this.#msPerCost;
    const bucket = this.#last;
    if (bucket === undefined) this.#buckets.add(key, { fullAt: now + takenMs }, now);
    else bucket.fullAt = Math.max(bucket.fullAt, now) + takenMs;
    this.#onTaken?.(key, takenMs);
  }

  setMissing(key: string, missingMs: number, now: number): void {
    this.#buckets.set(key, { fullAt: now + missingMs }, now);
  }
}

function bucketsOf(
  perSecond: number,
  burst: number,
  onTaken: ((key: string, takenMs: number) => void) | undefined,
): Buckets | undefined {
  return perSecond > 0 ? new Buckets(perSecond, Math.max(burst, 1), onTaken) : undefined;
}

/** `waitMs`: after this time the same request succeeds, unless others are charged before. */
function limited(limit: 'principal' | 'address', waitMs: number): Failure {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
  const message = `rate limit exceeded for this ${limit}; retry after ${retryAfterSeconds} s`;
  return new Failure('RATE_LIMITED', message, { limit, retryAfterSeconds }, { retryAfterSeconds });
}
