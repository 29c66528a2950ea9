// The measurements of a server for the record of its backend.
import type { ClickHouseServer } from '../connection/server.ts';
import { internalDatabase, localSuffix } from '../names.ts';
import { quoteLiteral } from '../sql/identifiers.ts';

export interface ServerFacts {
  readonly cpuCores: number;
  readonly memoryUsedBytes: number;
  /** 0: it has no limit of its own. */
  readonly memoryLimitBytes: number;
  readonly dataUsedBytes: number;
  readonly diskAvailableBytes: number;
  readonly diskTotalBytes: number;
  /** Of the warehouse, by whichever server of this product. */
  readonly runningQueries: number;
  /** The number of local tables of this product. */
  readonly tabletCount: number;
  /** Of the names of the tables and views of this product: the same on servers that have the same ones. */
  readonly tablesDigest: string;
  /** Of the columns of these tables and views, and their types. */
  readonly columnsDigest: string;
}

/** Of `system.processes`: the statements with this comment. Those with which servers are checked have another one. */
export const runningWhere = (comment: string): string =>
  `is_initial_query AND Settings['log_comment'] = ${quoteLiteral(comment)}`;

export const checkSettings = { log_comment: 'tabularium check' } as const;

interface FactsRow {
  readonly threads: string;
  readonly memory: string;
  readonly memoryLimit: string;
  readonly data: string;
  readonly diskFree: string;
  readonly diskTotal: string;
  readonly running: string;
  readonly tablets: string;
  readonly tablesDigest: string;
  readonly columnsDigest: string;
}

/** Of `system.tables`: the tables and views that belong to a catalog, also to one of another warehouse. */
export const catalogTables = `position(database, '__') > 0 AND NOT startsWith(database, '${internalDatabase}')
  AND (engine IN ('Distributed', 'View') OR engine LIKE '%MergeTree')`;

/** Of `system.columns`: those of these tables and views, without the hidden ones. */
export const catalogColumns = `default_kind != 'MATERIALIZED'
  AND (database, table) IN (SELECT database, name FROM system.tables WHERE ${catalogTables})`;

const factsQuery = (running: string) => `SELECT
  (SELECT value FROM system.settings WHERE name = 'max_threads') AS threads,
  (SELECT sum(value) FROM system.metrics WHERE metric = 'MemoryTracking') AS memory,
  (SELECT any(value) FROM system.server_settings WHERE name = 'max_server_memory_usage') AS memoryLimit,
  (SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database NOT IN ('system', 'information_schema', 'INFORMATION_SCHEMA')) AS data,
  (SELECT sum(free_space) FROM system.disks) AS diskFree,
  (SELECT sum(total_space) FROM system.disks) AS diskTotal,
  (SELECT count() FROM system.processes WHERE ${running}) AS running,
  (SELECT count() FROM system.tables WHERE engine LIKE '%MergeTree' AND endsWith(name, '${localSuffix}')) AS tablets,
  (SELECT toString(groupBitXor(cityHash64(database, name))) FROM system.tables WHERE ${catalogTables}) AS tablesDigest,
  (SELECT toString(groupBitXor(cityHash64(database, table, position, name, type))) FROM system.columns WHERE ${catalogColumns}) AS columnsDigest`;

/** `running`: which of the statements on the server are counted. */
export async function readFacts(server: ClickHouseServer, running: string, timeoutMs: number): Promise<ServerFacts> {
  const sql = factsQuery(running);
  const [row] = await server.rows<FactsRow>({ sql, timeoutMs, settings: checkSettings });
  const count = (text: string | null | undefined) => Math.max(0, Number(text ?? 0) || 0);
  return {
    // `auto(8)` on a server with 8 processors.
    cpuCores: count(/\d+/.exec(row?.threads ?? '')?.[0]),
    memoryUsedBytes: count(row?.memory),
    memoryLimitBytes: count(row?.memoryLimit),
    dataUsedBytes: count(row?.data),
    diskAvailableBytes: count(row?.diskFree),
    diskTotalBytes: count(row?.diskTotal),
    runningQueries: count(row?.running),
    tabletCount: count(row?.tablets),
    tablesDigest: row?.tablesDigest ?? '',
    columnsDigest: row?.columnsDigest ?? '',
  };
}

/** When a server started, by its own clock, in seconds since 1970, to within a second. */
export async function startedAt(server: ClickHouseServer, timeoutMs: number): Promise<number> {
  const started = 'SELECT toUInt32(now()) - uptime() AS started';
  const [row] = await server.rows<{ started: string | number }>({ sql: started, timeoutMs, settings: checkSettings });
  return Number(row?.started);
}
