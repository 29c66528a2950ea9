// Constant writes to a table through one server, of which every row must be there once.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { ServerProcess } from '../../server.ts';

const writePauseMs = 25;

/** Inserts rows one by one through a server, each repeated with its key until it is acknowledged. */
export class RowWriter {
  readonly acknowledged: number[] = [];
  refused = 0;
  #isOver = false;
  readonly #running: Promise<void>;

  /** `first`: the id of the first row. `table`: with the columns `id` and `text`. */
  constructor(server: Pick<ServerProcess, 'send'>, table: string, first: number) {
    this.#running = this.#run(server, table, first);
  }

  async #run(server: Pick<ServerProcess, 'send'>, table: string, first: number): Promise<void> {
    for (let id = first; !this.#isOver; id++) {
      const headers = { 'x-service-idempotency-key': `row-${id}` };
      for (;;) {
        const sent = server.send('POST', `${table}/rows`, { body: { rows: [[id, `n${id}`]] }, headers });
        const status = await sent.then(
          (reply) => reply.status,
          () => 0,
        );
        if (status === 201) break;
        assert.ok(status === 503 || status === 0, `status ${status}`);
        this.refused++;
        await pause(20);
      }
      this.acknowledged.push(id);
      await pause(writePauseMs);
    }
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }
}
