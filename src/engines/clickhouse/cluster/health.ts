// Checks the members of a cluster every 2 s, each by itself and with a deadline, so that one that is frozen delays no other. A server that was
// away or restarted is available again only when it has caught up.
import { withTimeout } from '../../../model/concurrency/bounded_waits.ts';
import { Failure } from '../../../standard/failure.ts';
import { certificateFaultOf } from '../connection/certificate_fault.ts';
import { ClickHouseError, isLate, missingPrivilege } from '../connection/clickhouse_error.ts';
import type { Lack, Member } from './member.ts';
import { readFacts, startedAt } from './server_facts.ts';
import { readIdentity } from './server_identity.ts';

export interface HealthOptions {
  readonly cluster: string;
  /** @returns why the member cannot be available yet; undefined: it has caught up. Has deadlines of its own. */
  readonly catchUp: (member: Member, signal: AbortSignal) => Promise<Lack | undefined>;
  /** Why a member that was available is no longer complete; undefined: it is. */
  readonly stillComplete: (member: Member) => Promise<string | undefined>;
  /** Lets the tables of a disabled server have the names that they have on the others. Throws what servers answer. */
  readonly followNames: (member: Member) => Promise<void>;
  /** Called when the facts of a member were read. */
  readonly compareTables: (member: Member) => void;
}

const roundMs = 2000;
/** A server must answer a check within this time. */
const answerMs = 2000;
/** One that is lost already may take longer: it returns to a machine that is busy because of that. */
const lostAnswerMs = 5000;
/** Of checks in a row. A single one may have waited for a processor, of the server or of this process. */
const lateMax = 2;
const factsEveryMs = 6000;
/** To within which the start of a server is known. */
const roundingSeconds = 1;

export class Health {
  readonly #options: HealthOptions;
  readonly #watched = new Map<Member, Watch>();

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  /** Watches these members and no others. Resolves when each of them was checked once more. */
  async watch(members: readonly Member[]): Promise<void> {
    for (const [member, watch] of this.#watched)
      if (!members.includes(member)) {
        watch.stop();
        this.#watched.delete(member);
      }
    for (const member of members)
      if (!this.#watched.has(member)) this.#watched.set(member, new Watch(member, this.#options));
    await Promise.all(members.map((member) => this.#watched.get(member)?.checkNow()));
  }

  /** Checks a member at once. */
  async check(member: Member): Promise<void> {
    await this.#watched.get(member)?.checkNow();
  }

  stop(): void {
    for (const watch of this.#watched.values()) watch.stop();
    this.#watched.clear();
  }
}

class Watch {
  readonly #member: Member;
  readonly #options: HealthOptions;
  readonly #stopped = new AbortController();
  #round: Promise<void> | undefined;
  #wake = Promise.withResolvers<void>();
  #factsAt = Number.NEGATIVE_INFINITY;
  /** The number of checks in a row that were not answered in time. */
  #late = 0;
  /** A call to a frozen server may take longer than its deadline: no second one is sent. */
  #open: Promise<unknown> | undefined;

  constructor(member: Member, options: HealthOptions) {
    this.#member = member;
    this.#options = options;
    void this.#loop();
  }

  stop(): void {
    this.#stopped.abort();
    this.#wake.resolve();
  }

  /** Resolves when a round that begins now has ended, which reads the definition of the cluster again. */
  async checkNow(): Promise<void> {
    await this.#round;
    this.#factsAt = Number.NEGATIVE_INFINITY;
    this.#wake.resolve();
    await this.#nextRound();
  }

  #nextRound(): Promise<void> {
    this.#round ??= this.#check().finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      await this.#nextRound();
      this.#wake = Promise.withResolvers<void>();
      await withTimeout(this.#wake.promise, roundMs, { ref: false });
    }
  }

  async #check(): Promise<void> {
    const member = this.#member;
    try {
      const started = await this.#answered((ms) => startedAt(member.server, ms));
      if (this.#stopped.signal.aborted) return;
      member.lastAnswerAt = performance.now();
      member.lastHeartbeatAt = new Date().toISOString();
      const isRestarted =
        member.startedAtSeconds !== undefined && Math.abs(started - member.startedAtSeconds) > roundingSeconds;
      if (isRestarted) {
        member.lose('it was restarted');
        // With another definition of the cluster, perhaps.
        member.identity = undefined;
        this.#factsAt = Number.NEGATIVE_INFINITY;
      }
      member.startedAtSeconds = started;
      member.identity ??= await this.#answered((ms) => readIdentity(member.server, this.#options.cluster, ms));
      await this.#complete();
      this.#late = 0;
      await this.#readFacts();
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      if ((error instanceof LateAnswer || isLate(error)) && ++this.#late < lateMax) return;
      member.lose(reasonOf(error));
      // Calls that wait for it are given up.
      if (!member.answers) member.server.disconnect();
    }
  }

  async #complete(): Promise<void> {
    const member = this.#member;
    if (member.isDisabled) {
      // It is caught up when it is enabled.
      member.availability = 'unavailable';
      member.errorMessage = null;
      if (member.missesNames && !member.isDecommissioned) await this.#followNames(member);
      return;
    }
    const { signal } = this.#stopped;
    if (member.availability === 'available') {
      const missing = await this.#options.stillComplete(member);
      if (missing === undefined) return;
      member.errorMessage = missing;
    }
    member.availability = 'catchingUp';
    const { losses } = member;
    const lack = await this.#options.catchUp(member, signal);
    // Lost meanwhile: what was checked before does not count.
    if (signal.aborted || member.isDisabled || member.losses !== losses) return;
    member.errorMessage = lack?.message ?? null;
    member.takesBegunWork = lack?.isBegunWork ?? false;
    if (lack !== undefined) return;
    member.availability = 'available';
    member.missesNames = false;
  }

  async #followNames(member: Member): Promise<void> {
    const { losses } = member;
    try {
      await this.#options.followNames(member);
      if (losses === member.losses) member.missesNames = false;
    } catch {
      // It is tried again in the next round.
    }
  }

  async #readFacts(): Promise<void> {
    const now = performance.now();
    if (now - this.#factsAt < factsEveryMs) return;
    this.#factsAt = now;
    const member = this.#member;
    // The definition of the cluster may have been changed.
    const identity = this.#answered((ms) => readIdentity(member.server, this.#options.cluster, ms));
    member.identity = await identity.catch(() => member.identity);
    // What cannot be measured does not make a server unavailable.
    member.facts = await this.#answered((ms) => readFacts(member.server, member.runningWhere, ms)).catch(
      () => member.facts,
    );
    this.#options.compareTables(member);
  }

  async #answered<T>(ask: (timeoutMs: number) => Promise<T>): Promise<T> {
    if (this.#open) throw new LateAnswer();
    const deadlineMs = this.#member.availability === 'unavailable' ? lostAnswerMs : answerMs;
    const answer = ask(deadlineMs);
    this.#open = answer
      .then(
        () => undefined,
        () => undefined,
      )
      .finally(() => {
        this.#open = undefined;
      });
    const answered = await withTimeout(answer, deadlineMs, { ref: false });
    if (answered === undefined) throw new LateAnswer();
    return answered;
  }
}

class LateAnswer extends Error {}

/** The messages of these are of this product. The second one also names a database that is in the way of what the server missed. */
const ownReasons: readonly string[] = ['BACKEND_UNSUITABLE', 'CHANGE_IN_PROGRESS'];

/** Without hosts and messages of the server. */
function reasonOf(error: unknown): string {
  if (error instanceof ClickHouseError) {
    const lack = missingPrivilege(error);
    return lack === undefined
      ? `it answers with the error ${error.code} ${error.kind}`.trim()
      : `the user of the warehouse ${lack} there`;
  }
  if (error instanceof Failure && ownReasons.includes(error.code)) return error.message;
  return certificateFaultOf(error) ?? 'it does not respond';
}
