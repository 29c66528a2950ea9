// What tests ask the nodes of a ring themselves, past the product: the same tables are on each, and on copies the same rows.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { commentOf } from '../../../src/engines/clickhouse/connection/server_settings.ts';
import { deadlineFromNow, eventually } from '../../deadline.ts';
import type { RingNode } from '../../engines/clickhouse/ring/ring.ts';
import type { ClusterWorld } from './cluster_world.ts';

/** Local tables are called so by the adapter. */
const tablesSql = `SELECT database, name, arrayStringConcat(groupArray(column), ', ') FROM (
    SELECT t.database AS database, t.name AS name, c.name || ' ' || c.type AS column
    FROM system.tables AS t JOIN system.columns AS c ON c.database = t.database AND c.table = t.name
    WHERE t.name LIKE '%__local' AND t.database != '_tabularium_aside' ORDER BY c.position)
  GROUP BY database, name ORDER BY database, name FORMAT TSV`;
const copiesDatabase = /^(?:to copies \d+|copies)__|^catalog "[01]"__/;

/** Databases of dropped catalogs, and of copies that moves have left: they are deleted in the background, on one node after the other. */
const deletedDatabase = /^node \d+ and node 1 differ in _tabularium_[0-9a-f-]+__/;

/** For replicas to carry out what they have in their logs, and for what is deleted. */
const equalMs = 30_000;
const pauseMs = 200;
/** Of a node, to a question that may go unanswered. */
const answerMs = 5000;

/** An empty list: the nodes agree. Those that replicate may need a while for that, and others only where something is deleted. */
export async function nodeDifferences({ ring, keeper }: Pick<ClusterWorld, 'ring' | 'keeper'>): Promise<string[]> {
  const isOver = deadlineFromNow(equalMs);
  const isCopy = (database: string) => keeper !== undefined || copiesDatabase.test(database);
  for (;;) {
    const differences = await differencesOf(ring.nodes, isCopy);
    const mayEnd = keeper !== undefined || differences.every((difference) => deletedDatabase.test(difference));
    if (differences.length === 0 || !mayEnd || isOver()) return differences;
    await pause(pauseMs);
  }
}

/** Why replicas of the nodes are read-only, as these say: what a node that does not return waits for. */
export async function readOnlyReplicas({ ring, keeper }: Pick<ClusterWorld, 'ring' | 'keeper'>): Promise<string[]> {
  const sql = `SELECT database, table, is_session_expired, zookeeper_path, last_queue_update_exception, zookeeper_exception
    FROM system.replicas WHERE is_readonly FORMAT TSV`;
  const lines = ring.nodes.map(async (node, index) => {
    const text = await ask(node, sql).catch(String);
    return text === '' ? [] : [`node ${index + 1}: ${text}`];
  });
  return keeper ? (await Promise.all(lines)).flat() : [];
}

/** The databases of copies that moves have left or not completed, and of catalogs that have moved away. */
export async function leftCopies({ ring }: Pick<ClusterWorld, 'ring'>): Promise<string[]> {
  const sql = `SELECT name FROM system.databases WHERE match(name, '^(moving_|_tabularium_[0-9a-f-]+__|to default )') FORMAT TSV`;
  const names = await Promise.all(ring.nodes.map((node) => ask(node, sql)));
  return names.flatMap((text) => text.split('\n').filter(Boolean));
}

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

async function differencesOf(nodes: readonly RingNode[], isCopy: (database: string) => boolean): Promise<string[]> {
  const contents = await Promise.all(nodes.map((node) => contentOf(node, isCopy)));
  const [first = new Map<string, string>()] = contents;
  const names = new Set(contents.flatMap((content) => [...content.keys()]));
  return [...names].flatMap((name) => {
    const different = contents.findIndex((content) => content.get(name) !== first.get(name));
    if (different < 0) return [];
    return [
      `node ${different + 1} and node 1 differ in ${name}: ${contents.map((content) => content.get(name)).join(' | ')}`,
    ];
  });
}

async function contentOf(node: RingNode, isCopy: (database: string) => boolean): Promise<Map<string, string>> {
  const content = new Map<string, string>();
  for (const line of (await ask(node, tablesSql)).split('\n').filter(Boolean)) {
    const [database = '', table = '', columns = ''] = line.split('\t');
    const rows = isCopy(database)
      ? await ask(
          node,
          `SELECT count(), groupBitXor(sipHash64(formatRow('RowBinary', *))) FROM \`${database}\`.\`${table}\` FORMAT TSV`,
        )
      : '';
    content.set(`${database}.${table}`, `(${columns}) ${rows}`);
  }
  return content;
}

async function ask({ url }: RingNode, body: string): Promise<string> {
  const response = await fetch(url, { method: 'POST', body }).catch((error) => {
    throw new Error(`the node ${url} does not answer`, { cause: error });
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${body}: ${text}`);
  return text;
}

async function linesOf(url: string, sql: string): Promise<string[]> {
  const signal = AbortSignal.timeout(answerMs);
  const text = await fetch(url, { method: 'POST', body: sql, signal }).then(
    (response) => (response.ok ? response.text() : ''),
    () => '',
  );
  return text.split('\n').filter(Boolean);
}
