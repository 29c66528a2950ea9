// Statements that are known to have ended an engine process: refused for a while, because each run costs everybody who uses the
// warehouse. In memory; a server that starts anew has forgotten them.
import { createHash } from 'node:crypto';
import { Failure } from '../standard/failure.ts';
import type { Statement } from './engine.ts';

const quarantineMs = 10 * 60 * 1000;
/** Past it the oldest are forgotten. */
const statementsMax = 1_000;

interface Quarantined {
  readonly warehouse: string;
  readonly untilMs: number;
  readonly isRead: boolean;
}

export class Quarantine {
  readonly #clock: () => number;
  /** In the order in which they came. */
  readonly #statements = new Map<string, Quarantined>();

  constructor(clock: () => number = Date.now) {
    this.#clock = clock;
  }

  /**
   * Throws STATEMENT_QUARANTINED. `principalId`: what one caller did holds nobody else off. A write with an idempotency key is let
   * through: perhaps it was done, and sending it again is how its caller learns that.
   */
  require(warehouse: string, principalId: string, statement: Statement, isKeyed = false): void {
    if (this.#statements.size === 0) return;
    const key = keyOf(warehouse, principalId, statement);
    const found = this.#statements.get(key);
    if (!found) return;
    if (isKeyed && !found.isRead) return;
    if (found.untilMs > this.#clock()) throw quarantined(found.untilMs);
    this.#statements.delete(key);
  }

  /** What the statement is to be answered with. */
  add(warehouse: string, principalId: string, statement: Statement, isRead: boolean): Failure {
    const key = keyOf(warehouse, principalId, statement);
    const untilMs = this.#clock() + quarantineMs;
    this.#statements.delete(key);
    this.#statements.set(key, { warehouse, untilMs, isRead });
    if (this.#statements.size > statementsMax) this.#statements.delete(this.#statements.keys().next().value as string);
    return quarantined(untilMs);
  }

  /** How many of the warehouse were let go before their time. */
  release(warehouse: string): number {
    let released = 0;
    for (const [key, one] of this.#statements) {
      if (one.warehouse !== warehouse) continue;
      this.#statements.delete(key);
      if (one.untilMs > this.#clock()) released++;
    }
    return released;
  }
}

function keyOf(warehouse: string, principalId: string, { sql, parameters, catalog, database }: Statement): string {
  const text = JSON.stringify([warehouse, principalId, catalog.id, database, sql, parameters]);
  return createHash('sha256').update(text).digest('base64');
}

const quarantined = (untilMs: number) =>
  new Failure(
    'STATEMENT_QUARANTINED',
    'the statement ended the process of the engine before, and is refused until an operator of the warehouse releases it or its time is over',
    { until: new Date(untilMs).toISOString() },
  );
