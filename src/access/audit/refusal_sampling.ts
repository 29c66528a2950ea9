// Refusals that come in floods: so many in a minute are told one by one, of the rest how many, so that nobody fills the disk by
// being refused. What a line is, and who writes it, is audit.ts.

export interface Refusal {
  /** Of a user; absent: a stranger. */
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly address?: string | undefined;
  readonly outcome: string;
}

export interface RefusalSample extends Refusal {
  readonly count: number;
  /** Milliseconds since 1970: of the minute's end. */
  readonly at: number;
}

const minuteMs = 60_000;
/** Of all strangers together. */
const strangersToldPerMinuteMax = 60;
const toldPerUserPerMinuteMax = 1000;
/** A full warehouse refuses many, which says nothing about the caller. */
const overloadCode = 'WAREHOUSE_BUSY';
const overloadToldPerUserPerMinuteMax = 1;
/** More are counted together. */
const addressesPerMinuteMax = 100;

export class RefusalSampler {
  #minute = 0;
  readonly #told = new Map<string, number>();
  readonly #counts = new Map<string, { refusal: Refusal; count: number }>();
  #over: RefusalSample[] = [];
  #addresses = 0;

  /** True: it is to be told by itself. Else it is counted. */
  shouldLog(refusal: Refusal, at: number): boolean {
    this.#turn(at);
    const { id, name, address = '', outcome } = refusal;
    const isOverload = outcome === overloadCode;
    const who = id === undefined ? '' : `${isOverload ? 'overload' : 'user'} ${id}`;
    const told = this.#told.get(who) ?? 0;
    const ofUserMax = isOverload ? overloadToldPerUserPerMinuteMax : toldPerUserPerMinuteMax;
    if (told < (id === undefined ? strangersToldPerMinuteMax : ofUserMax)) {
      this.#told.set(who, told + 1);
      return true;
    }
    const key = JSON.stringify([id ?? address, outcome]);
    const known = this.#counts.get(key);
    if (known) known.count++;
    else if (id !== undefined) this.#counts.set(key, { refusal: { id, name, outcome }, count: 1 });
    else if (this.#addresses++ < addressesPerMinuteMax)
      this.#counts.set(key, { refusal: { address, outcome }, count: 1 });
    else this.#countOther(outcome);
    return false;
  }

  /** The counts of minutes that are over; `all`: of this one too. */
  take(at: number, all = false): RefusalSample[] {
    if (all) this.#end(at);
    else this.#turn(at);
    const over = this.#over;
    this.#over = [];
    return over;
  }

  #countOther(outcome: string): void {
    const key = JSON.stringify(['', outcome]);
    const known = this.#counts.get(key);
    if (known) known.count++;
    else this.#counts.set(key, { refusal: { outcome }, count: 1 });
  }

  #turn(at: number): void {
    const minute = Math.floor(at / minuteMs);
    if (minute === this.#minute) return;
    this.#end(at);
    this.#minute = minute;
  }

  #end(at: number): void {
    for (const { refusal, count } of this.#counts.values()) this.#over.push({ ...refusal, count, at });
    this.#counts.clear();
    this.#told.clear();
    this.#addresses = 0;
  }
}
