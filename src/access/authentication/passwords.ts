// Passwords: hashed with argon2id, verified at the same cost whether the user exists or not, a few at a time because each verification
// takes memory and a core. Successful verifications are cached for minutes. Throttling of failures is in failed_logins.ts.
import { argon2, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { Failure } from '../../standard/failure.ts';

const passwordCharactersMin = 8;
const passwordCharactersMax = 1024;

export interface PasswordOptions {
  /** How many hashes are computed at once; each takes `memoryKiB` and a core. */
  readonly runningMax?: number;
  /** How many may wait for a slot; more are refused. */
  readonly waitingMax?: number;
  readonly waitMsMax?: number;
  readonly verifiedMax?: number;
  readonly verifiedMs?: number;
  readonly clock?: () => number;
}

interface Parameters {
  readonly memoryKiB: number;
  readonly passes: number;
  readonly lanes: number;
}
interface Hash extends Parameters {
  readonly salt: Buffer;
  readonly tag: Buffer;
}
interface Waiting {
  readonly start: () => void;
}

/** The minimum that OWASP recommends for argon2id: about 25 ms. */
const current: Parameters = { memoryKiB: 19_456, passes: 2, lanes: 1 };
const saltBytes = 16;
const tagBytes = 32;
/** Limits of the parameters of stored hashes, so that a manipulated hash cannot exhaust the machine. */
const memoryKiBMax = 262_144;
const passesMax = 16;
const lanesMax = 16;
const retryAfterSeconds = 1;
const form = /^\$argon2id\$v=19\$m=(\d{1,6}),t=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})$/;
const argon2Async = promisify(argon2);

export class Passwords {
  readonly #runningMax: number;
  readonly #waitingMax: number;
  readonly #waitMsMax: number;
  readonly #verifiedMax: number;
  readonly #verifiedMs: number;
  readonly #clock: () => number;
  #running = 0;
  readonly #waiting = new Set<Waiting>();
  /** Until when a pair of hash and password counts as verified. In the order of expiry. */
  readonly #verified = new Map<string, number>();
  /** Verifications in progress: requests of one client often arrive together. */
  readonly #verifying = new Map<string, Promise<boolean>>();
  readonly #key = randomBytes(32);
  /** A hash that no password matches, for users that do not exist. */
  readonly #dummyHash = toPhc({ ...current, salt: randomBytes(saltBytes), tag: randomBytes(tagBytes) });

  constructor(options: PasswordOptions = {}) {
    this.#runningMax = options.runningMax ?? 2;
    this.#waitingMax = options.waitingMax ?? 64;
    this.#waitMsMax = options.waitMsMax ?? 5000;
    this.#verifiedMax = options.verifiedMax ?? 10_000;
    this.#verifiedMs = options.verifiedMs ?? 300_000;
    this.#clock = options.clock ?? Date.now;
  }

  /** As a PHC string. Throws RATE_LIMITED, as everything here that computes a hash. */
  async hash(password: string): Promise<string> {
    const salt = randomBytes(saltBytes);
    const tag = await this.#computeTag(password, { ...current, salt }, tagBytes);
    return toPhc({ ...current, salt, tag });
  }

  /** Why a new password is invalid, as the end of "the password ..."; see `passwordFault`. */
  fault(password: string, userName: string): string | undefined {
    return passwordFault(password, userName);
  }

  needsRehash(phc: string): boolean {
    return needsRehash(phc);
  }

  /**
   * Returns `true` at once if the pair was verified minutes ago. Without a hash, as for a user that does not exist, the result is
   * `false` at the same cost. The hash is part of the cache key, so that a changed password is never accepted from the cache.
   */
  check(phc: string | undefined, password: string): true | Promise<boolean> {
    const hash = phc ?? this.#dummyHash;
    const key = this.#keyOf(hash, password);
    if (this.#isVerified(key)) return true;
    const running = this.#verifying.get(key);
    if (running) return running;
    const verifying = this.#verify(hash, password, key).finally(() => this.#verifying.delete(key));
    this.#verifying.set(key, verifying);
    // The caller may give up before the result; a rejection that nobody handles must not end the process.
    verifying.catch(() => {});
    return verifying;
  }

  /** Whether `check` would return `true` at once; computes no hash. */
  isVerified(phc: string | undefined, password: string): boolean {
    return this.#isVerified(this.#keyOf(phc ?? this.#dummyHash, password));
  }

  async #verify(phc: string, password: string, key: string): Promise<boolean> {
    const hash = parsePhc(phc);
    if (!hash) return false;
    const tag = await this.#computeTag(password, hash, hash.tag.length);
    if (!timingSafeEqual(tag, hash.tag)) return false;
    this.#remember(key);
    return true;
  }

  #keyOf(phc: string, password: string): string {
    return createHmac('sha256', this.#key).update(phc).update('\0').update(password).digest('base64');
  }

  #isVerified(key: string): boolean {
    const until = this.#verified.get(key);
    if (until === undefined) return false;
    if (until > this.#clock()) return true;
    this.#verified.delete(key);
    return false;
  }

  #remember(key: string): void {
    const now = this.#clock();
    for (const [oldest, until] of this.#verified) {
      if (until > now && this.#verified.size < this.#verifiedMax) break;
      this.#verified.delete(oldest);
    }
    this.#verified.set(key, now + this.#verifiedMs);
  }

  async #computeTag(
    password: string,
    { memoryKiB, passes, lanes, salt }: Omit<Hash, 'tag'>,
    bytes: number,
  ): Promise<Buffer> {
    await this.#acquireSlot();
    try {
      return await argon2Async('argon2id', {
        message: normalize(password),
        nonce: salt,
        memory: memoryKiB,
        passes,
        parallelism: lanes,
        tagLength: bytes,
      });
    } finally {
      this.#running--;
      for (const next of this.#waiting) {
        next.start();
        break;
      }
    }
  }

  /** Resolves when a slot is acquired. */
  #acquireSlot(): Promise<void> | undefined {
    if (this.#running < this.#runningMax) {
      this.#running++;
      return undefined;
    }
    if (this.#waiting.size >= this.#waitingMax) throw tooMany();
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#waiting.delete(waiting);
        reject(tooMany());
      }, this.#waitMsMax);
      const waiting: Waiting = {
        start: () => {
          clearTimeout(late);
          this.#waiting.delete(waiting);
          this.#running++;
          resolve();
        },
      };
      this.#waiting.add(waiting);
    });
  }
}

/** Why a new password is invalid. Only its length counts, not its composition (NIST SP 800-63B). */
export function passwordFault(password: string, userName: string): string | undefined {
  const characters = [...normalize(password)].length;
  if (characters < passwordCharactersMin) return `must have at least ${passwordCharactersMin} characters`;
  if (characters > passwordCharactersMax) return `must have at most ${passwordCharactersMax} characters`;
  if (!password.isWellFormed()) return 'must be well-formed Unicode';
  if (password.includes('\0')) return 'must not contain the NUL character';
  if (normalize(password).toLowerCase() === normalize(userName).toLowerCase()) return 'must not be the user name';
  return undefined;
}

/** Whether a valid hash was computed with other parameters than those for new hashes. */
export function needsRehash(phc: string): boolean {
  const hash = parsePhc(phc);
  return (
    hash?.memoryKiB !== current.memoryKiB ||
    hash.passes !== current.passes ||
    hash.lanes !== current.lanes ||
    hash.tag.length !== tagBytes
  );
}

/** The same password typed on two keyboards may arrive in two Unicode forms. */
const normalize = (text: string): string => text.normalize('NFKC');

function tooMany(): Failure {
  return new Failure(
    'RATE_LIMITED',
    `too many passwords are being verified; retry after ${retryAfterSeconds} s`,
    {},
    { retryAfterSeconds },
  );
}

const unpadded = (bytes: Buffer): string => bytes.toString('base64').replace(/=+$/, '');

function toPhc({ memoryKiB, passes, lanes, salt, tag }: Hash): string {
  return `$argon2id$v=19$m=${memoryKiB},t=${passes},p=${lanes}$${unpadded(salt)}$${unpadded(tag)}`;
}

function parsePhc(phc: string): Hash | undefined {
  const [whole, memory, passes, lanes, salt = '', tag = ''] = form.exec(phc) ?? [];
  if (whole === undefined) return undefined;
  const hash = {
    memoryKiB: Number(memory),
    passes: Number(passes),
    lanes: Number(lanes),
    salt: Buffer.from(salt, 'base64'),
    tag: Buffer.from(tag, 'base64'),
  };
  const isBounded =
    hash.lanes >= 1 &&
    hash.lanes <= lanesMax &&
    hash.memoryKiB >= 8 * hash.lanes &&
    hash.memoryKiB <= memoryKiBMax &&
    hash.passes >= 1 &&
    hash.passes <= passesMax;
  return isBounded ? hash : undefined;
}
