// Statements that ended an engine process: refused for a while, because each run affects everybody who uses the warehouse. Stored
// in memory only; lost when the server restarts.
import { createHash } from 'node:crypto';
import { Failure } from '../../standard/failure.ts';
import type { Statement } from '../port/statements.ts';

const quarantineMs = 10 * 60 * 1000;
/** Above this, the oldest entries are dropped. */
const statementsMax = 1_000;

interface Quarantined {
  readonly warehouse: string;
  readonly untilMs: number;
  readonly isRead: boolean;
}

export class Quarantine {
  readonly #clock: () => number;
  /** In insertion order. */
  readonly #statements = new Map<string, Quarantined>();

  constructor(clock: () => number = Date.now) {
    this.#clock = clock;
  }

  /**
   * Throws STATEMENT_QUARANTINED. Entries are per principal, so that one caller cannot block others. A write with an idempotency
   * key is let through: it may have been applied, and by repeating it the caller learns that.
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

  /** Quarantines the statement. @returns the failure for its caller. */
  add(warehouse: string, principalId: string, statement: Statement, isRead: boolean): Failure {
    const key = keyOf(warehouse, principalId, statement);
    const untilMs = this.#clock() + quarantineMs;
    this.#statements.delete(key);
    this.#statements.set(key, { warehouse, untilMs, isRead });
    if (this.#statements.size > statementsMax) this.#statements.delete(this.#statements.keys().next().value as string);
    return quarantined(untilMs);
  }

  /** How many statements of the warehouse are refused. */
  count(warehouse: string): number {
    const now = this.#clock();
    let count = 0;
    for (const entry of this.#statements.values()) if (entry.warehouse === warehouse && entry.untilMs > now) count++;
    return count;
  }

  /** Releases all statements of the warehouse. @returns how many of them were still refused. */
  release(warehouse: string): number {
    const released = this.count(warehouse);
    for (const [key, entry] of this.#statements) if (entry.warehouse === warehouse) this.#statements.delete(key);
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
    'the statement ended an engine process; it is refused until the time in "until", or until an operator of the warehouse releases it',
    { until: new Date(untilMs).toISOString() },
  );
