// DuckDB reports a COMMIT that is interrupted as interrupted although it is complete: a statement was answered as cancelled or
// timed out, without effect, but its rows existed.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { inTransaction } from '../../../src/engines/duckdb/instance/applied_steps.ts';

const transactions = 60;
const spreadMs = 3;

test('a transaction whose commit is interrupted reports its true outcome', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-commits-'));
  const instance = await DuckDBInstance.create(join(directory, 'data.duckdb'));
  t.after(() => {
    instance.closeSync();
    rmSync(directory, { recursive: true });
  });
  const [writer, observer] = [await instance.connect(), await instance.connect()];
  await writer.run('CREATE TABLE t (n INT, s VARCHAR)');
  let met = 0;
  let delayMs = 0;
  // Each COMMIT is interrupted shortly after it began.
  const connection = new Proxy(writer, {
    get(target, key) {
      if (key !== 'run') return Reflect.get(target, key, target);
      return async (text: string) => {
        const running = target.run(text);
        if (text === 'COMMIT') {
          const until = performance.now() + delayMs;
          while (performance.now() < until);
          target.interrupt();
        }
        return running.catch((error: Error) => {
          if (text === 'COMMIT') met++;
          throw error;
        });
      };
    },
  }) as DuckDBConnection;
  for (let n = 0; n < transactions; n++) {
    delayMs = (spreadMs * n) / transactions;
    const outcome = await inTransaction(connection, () =>
      writer.run(`INSERT INTO t SELECT ${n}, repeat('x', 100) FROM range(20000)`),
    ).then(
      () => 'done',
      () => 'failed',
    );
    const [[rows] = []] = (await observer.runAndReadAll(`SELECT count(*) FROM t WHERE n = ${n}`)).getRows();
    assert.equal(outcome, Number(rows) === 20_000 ? 'done' : 'failed', `transaction ${n}: ${rows} rows`);
  }
  assert.ok(met > 0, 'no interrupt met a commit');
});
