// Staging tables where servers replicate: every server that counts has a replica, so that a server that is lost takes no staged row along. A
// replica is read, and published from, when it has taken over what the others of its shard have.
import { Failure } from '../../../standard/failure.ts';
import type { ClickHouseCluster, ClickHouseServer, ServerCall } from '../connection/server.ts';
import { internalDatabase } from '../names.ts';
import { quorumOf } from '../replication/replicated_inserts.ts';
import { takeRows } from '../replication/take_over.ts';
import { qualifiedName, quoteIdentifier } from '../sql/identifiers.ts';

/** What a server shows of the hidden column (ddl/table_sql.ts), on a line of its own: line breaks within names and texts are escaped. */
const hiddenColumn = /^( *)`_load` UInt64 MATERIALIZED 0(?=,?$)/m;
const enginePattern = /^ENGINE = (Replicated\w*MergeTree)\('(?:[^'\\]|\\.)*', '(?:[^'\\]|\\.)*'/m;
/** Before the settings of a table. */
const settingsPattern = /^SETTINGS /m;
/**
 * Parts are never merged: by their checksums the replicas of the table recognize those that were attached before, whoever attaches them again
 * from whichever replica. So there may be many.
 */
export const unmergedSettings =
  'max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1, ' +
  'parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000, max_parts_in_total = 1000000';
/** The rows of one statement come in several blocks, of which the server would store equal ones once. */
const stagingSettings = `replicated_deduplication_window = 0, ${unmergedSettings}`;
/** That of the table, which follows those. */
const windowOfTable = /, replicated_deduplication_window = \d+/;
const callMs = 10_000;
/** For a replica to take over a whole load. A server waits for as long as it waits for an answer. */
const syncSeconds = 120;
/** One that a replica takes to attach parts that it has staged itself. */
const publishedSeconds = 60;

/** A table of rows on the servers, and the name of the staging table for it. */
export interface ReplicatedStaging {
  readonly staging: string;
  readonly database: string;
  readonly localTable: string;
}

const staged = (name: string): string => qualifiedName({ database: internalDatabase, table: name });

/**
 * Creates the replicas, on `server` and on the others that are available: at least one of each shard. All have the same definition, because a
 * replica with another one cannot be added. `number`: the default of the hidden column.
 */
export async function createReplicas(
  cluster: ClickHouseCluster,
  server: ClickHouseServer,
  { load, number }: { readonly load: ReplicatedStaging; readonly number: string },
  call: Pick<ServerCall, 'timeoutMs' | 'signal'>,
): Promise<void> {
  const createSql = await definitionOf(server, load, number, call);
  const create = async (each: ClickHouseServer) => {
    await each.text({
      ...call,
      sql: `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(internalDatabase)} ENGINE = Atomic`,
    });
    await each.text({ ...call, sql: createSql });
  };
  await create(server);
  await Promise.all(
    cluster.availableOfShards().map(async (replicas) => {
      const others = replicas.filter(({ name }) => name !== server.name);
      const results = await Promise.allSettled(others.map(create));
      const failed = results.filter((result) => result.status === 'rejected');
      if (failed[0] && failed.length === replicas.length) throw failed[0].reason;
    }),
  );
}

async function definitionOf(
  server: ClickHouseServer,
  { staging, database, localTable }: ReplicatedStaging,
  number: string,
  call: Pick<ServerCall, 'timeoutMs' | 'signal'>,
): Promise<string> {
  const table = qualifiedName({ database, table: localTable });
  const shown = await server.text({ ...call, sql: `SHOW CREATE TABLE ${table}\nFORMAT TSVRaw` });
  const body = shown
    .slice(shown.indexOf('\n'))
    .replace(hiddenColumn, `$1\`_load\` UInt64 DEFAULT ${number}`)
    // Of its own, which is never used again, and of which the last replica that is dropped leaves nothing.
    .replace(enginePattern, `ENGINE = $1('/tabularium/staging/${staging}-{shard}', '{replica}'`)
    .replace(settingsPattern, `SETTINGS ${stagingSettings}, `)
    .replace(windowOfTable, '');
  const parts = [`\`_load\` UInt64 DEFAULT ${number}`, `/staging/${staging}-{shard}'`, `SETTINGS ${stagingSettings}`];
  if (!parts.every((part) => body.includes(part)))
    throw new Error('a table of rows has a definition of another product');
  return `CREATE TABLE IF NOT EXISTS ${staged(staging)}${body}`;
}

/** Runs on one replica of each shard that has all that was staged. Shards are numbered from 1. */
export function onStaged<T>(
  cluster: ClickHouseCluster,
  { staging }: Pick<ReplicatedStaging, 'staging'>,
  work: (server: ClickHouseServer, shard: number) => Promise<T>,
): Promise<T[]> {
  return Promise.all(
    cluster.availableOfShards().map(async (replicas, index) => {
      const found = await Promise.all(replicas.map((server) => hasTable(server, staging)));
      const server = replicas.find((_, position) => found[position]);
      if (!server) throw new Failure('REPLICAS_UNAVAILABLE', 'no available replica of a shard has the staged rows');
      await takeRows(server, { database: internalDatabase, table: staging }, syncSeconds);
      return work(server, index + 1);
    }),
  );
}

/** A server that does not answer is none to work on. */
async function hasTable(server: ClickHouseServer, staging: string): Promise<boolean> {
  const sql = `EXISTS TABLE ${staged(staging)}`;
  return server.text({ sql, timeoutMs: callMs }).then(
    (text) => text.trim() === '1',
    () => false,
  );
}

/** Lets a replica take over what was published on another one. */
export const takeOverPublished = (
  server: ClickHouseServer,
  { database, localTable: table }: ReplicatedStaging,
): Promise<void> => takeRows(server, { database, table }, publishedSeconds);

/**
 * Lets the other replicas of a shard take over what was published on one, so that a caller reads it on any server that counts. Throws 503 with
 * the outcome `unknown` if fewer replicas have it than an insert needs.
 */
export async function takeOver(
  cluster: ClickHouseCluster,
  load: ReplicatedStaging,
  { from, shard }: { readonly from: ClickHouseServer; readonly shard: number },
): Promise<void> {
  const followed = await cluster.takeOver((server) => takeOverPublished(server, load), { from, shard });
  if (1 + followed < quorumOf(cluster.replicasOfShard))
    throw new Failure(
      'REPLICAS_UNAVAILABLE',
      'too few replicas are available to store rows',
      {},
      { outcome: 'unknown' },
    );
}
