// What tests ask a node of a cluster itself, past the product.
import { randomUUID } from 'node:crypto';
import { commentOf } from '../../../src/engines/clickhouse/connection/server_settings.ts';
import { eventually } from '../../deadline.ts';
import type { RingNode } from '../../engines/clickhouse/ring/ring.ts';

const answerMs = 5000;

/** A statement like those of a warehouse, which runs until it is released: it keeps the node from leaving. */
export async function occupy({ url }: RingNode, warehouseId: string): Promise<() => Promise<void>> {
  const id = randomUUID();
  const settings = { log_comment: commentOf(warehouseId), max_block_size: '1', max_threads: '1', query_id: id };
  const abort = new AbortController();
  const query = new URLSearchParams({ query: 'SELECT sleepEachRow(1) FROM numbers(600) FORMAT Null', ...settings });
  // It ends with the node, or when it is released.
  fetch(`${url}/?${query}`, { method: 'POST', signal: abort.signal }).catch(() => {});
  await eventually('the node is occupied', async () => {
    const [count] = await linesOf(url, `SELECT count() FROM system.processes WHERE query_id = '${id}'`);
    return count === '1';
  });
  return async () => {
    abort.abort();
    await linesOf(url, `KILL QUERY WHERE query_id = '${id}' ASYNC`);
  };
}

/** The paths in Keeper of the tables of which a node has a replica; staging tables end by themselves. None while it is down. */
export const replicatedTables = ({ url }: RingNode): Promise<string[]> =>
  linesOf(url, `SELECT zookeeper_path FROM system.replicas WHERE database != '_tabularium'`);

async function linesOf(url: string, sql: string): Promise<string[]> {
  const signal = AbortSignal.timeout(answerMs);
  const text = await fetch(url, { method: 'POST', body: sql, signal }).then(
    (response) => (response.ok ? response.text() : ''),
    () => '',
  );
  return text.split('\n').filter(Boolean);
}
