// Exchanges of records between servers: each gets what it lacks of the others. Most of the servers that are enabled have each record. Without the
// exchanges, those that are enabled later could be others, and none of them have it.
import { setTimeout as pause } from 'node:timers/promises';
import { withTimeout } from '../../../model/concurrency/bounded_waits.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { isAbsent } from '../replication/server_errors.ts';
import { copyDay, differingDays, type RecordTable } from './record_copies.ts';

export interface ExchangedServer {
  readonly server: ClickHouseServer;
  /** Otherwise only what it has is read, if it answers. */
  readonly isAvailable: boolean;
}

const callTimeoutMs = 30_000;
/** How long a server that returns waits for others. The rest is done while it counts. */
const waitMsMax = 10_000;
const waitForAwayMsMax = 2000;
const attemptsMax = 20;
const attemptPauseMs = 10_000;

interface TransferOrder {
  readonly from: ClickHouseServer;
  readonly to: ClickHouseServer;
  readonly signal: AbortSignal;
}

interface Transfer {
  readonly done: Promise<void>;
  /** The last one since it began: records may have been made meanwhile, and the servers of that name be reached in another way. */
  next: TransferOrder | undefined;
}

export class RecordExchanges {
  readonly #tables: readonly RecordTable[];
  readonly #prepare: (server: ClickHouseServer) => Promise<void>;
  /** By the names of both servers. */
  readonly #transfers = new Map<string, Transfer>();

  /** `prepare`: creates the tables. */
  constructor(tables: readonly RecordTable[], prepare: (server: ClickHouseServer) => Promise<void>) {
    this.#tables = tables;
    this.#prepare = prepare;
  }

  /**
   * Resolves when the server and each of the others have the same records, or when that takes too long. What fails is tried again for some minutes: it
   * keeps no server from taking statements, because it may be the fault of another one.
   */
  async exchange(server: ClickHouseServer, others: readonly ExchangedServer[], signal: AbortSignal): Promise<void> {
    const transfers = ({ server: other, isAvailable }: ExchangedServer) => [
      this.#transfer(other, server, signal),
      ...(isAvailable ? [this.#transfer(server, other, signal)] : []),
    ];
    const { available = [], away = [] } = Object.groupBy(others, ({ isAvailable }) =>
      isAvailable ? 'available' : 'away',
    );
    await Promise.all([
      withTimeout(Promise.all(available.flatMap(transfers)), waitMsMax, { ref: false }),
      withTimeout(Promise.all(away.flatMap(transfers)), waitForAwayMsMax, { ref: false }),
    ]);
  }

  /** One of the same servers at a time. Does not reject. */
  #transfer(from: ClickHouseServer, to: ClickHouseServer, signal: AbortSignal): Promise<void> {
    const key = JSON.stringify([from.name, to.name]);
    const order = { from, to, signal };
    const known = this.#transfers.get(key);
    if (known) {
      known.next = order;
      return known.done;
    }
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const transfer: Transfer = { done, next: order };
    this.#transfers.set(key, transfer);
    void this.#carryOut(transfer).finally(() => {
      this.#transfers.delete(key);
      resolve();
    });
    return done;
  }

  async #carryOut(transfer: Transfer): Promise<void> {
    for (let order = transfer.next; order; order = transfer.next) {
      transfer.next = undefined;
      for (let attempt = 0; attempt < attemptsMax && !order.signal.aborted && !transfer.next; attempt++) {
        if (await this.#attempt(order)) break;
        // What was copied stays.
        await pause(attemptPauseMs, undefined, { ref: false, signal: order.signal }).catch(() => undefined);
      }
    }
  }

  async #attempt({ from, to, signal }: TransferOrder): Promise<boolean> {
    try {
      await this.#prepare(to);
      const options = { timeoutMs: callTimeoutMs, signal };
      for (const table of this.#tables)
        for (const day of await differingDays(from, to, table, options))
          await copyDay(from, to, table, { ...options, day });
      return true;
    } catch (error) {
      // It has none.
      return isAbsent(error);
    }
  }
}
