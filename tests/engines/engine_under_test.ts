// The engines on which the suites of the port run (tests/conformance/engine/). A suite opens its engine with `engineOf(import.meta.url)`; it
// runs on DuckDB, and on another engine when it is imported with that engine in its URL (`suitesOnEngine`).
import { basename } from 'node:path';
import { describe, test } from 'node:test';
import { duckdbWith } from '../../src/engines/duckdb/duckdb.ts';
import { Confinement } from '../../src/engines/duckdb/sandbox/sandbox.ts';
import type { EngineCapability } from '../../src/model/engine_capabilities.ts';
import type { TestedEngine } from '../conformance/engine/engine_world.ts';
import { analysisTimeoutMs } from '../deadline.ts';
import { newClusterEngine } from './clickhouse/engine.ts';
import { givenEngine } from './clickhouse/given_cluster/given_cluster.ts';
import { replicatedEngine } from './clickhouse/replicated_ring/replicated_engine.ts';
import { newSqliteEngine } from './sqlite/sqlite.ts';

/** The SQL texts of the suites that engines write differently. */
interface Dialect {
  /** Computes `id + 1` in a load, and fails, or gives a value of another type, if the text `id` is no number. */
  readonly nextId: string;
  /** Expressions that a load refuses because of a clause that only this engine has, or because of its internal objects. */
  readonly refusedExpressions: readonly string[];
  /** Expressions with functions that only this engine has, and that nobody may call. */
  readonly forbiddenExpressions: readonly string[];
}

/** DuckDB, with the time limit of tests for an analysis. */
export const testEngine = duckdbWith({ confinement: new Confinement('auto'), analysisTimeoutMs });

const clusterDialect: Dialect = {
  nextId: 'toInt64(id) + 1',
  refusedExpressions: [
    'EXISTS (SELECT 1 FROM _tabularium.steps)',
    '(SELECT name FROM system.tables LIMIT 1)',
    'COLUMNS(*)',
  ],
  forbiddenExpressions: [`getSetting('max_threads')`, `file('/etc/passwd')`, 'hostName()'],
};

const kinds = {
  duckdb: {
    engine: () => testEngine,
    dialect: {
      nextId: 'id::BIGINT + 1',
      refusedExpressions: ['EXISTS (FROM "c ""1""".__tabularium.steps)', 'unnest([1, 2])', 'COLUMNS(*)'],
      forbiddenExpressions: [`getenv('HOME')`, `read_text('/etc/passwd')`, `current_setting('threads')`],
    },
  },
  oneServer: { engine: () => newClusterEngine(1, 'shards'), dialect: clusterDialect },
  /** Each server has a part of the rows. */
  shards: { engine: () => newClusterEngine(2, 'shards'), dialect: clusterDialect },
  /** Each server has all rows. */
  copies: { engine: () => newClusterEngine(2, 'copies'), dialect: clusterDialect },
  /** Of the oldest version, and replicated by ZooKeeper. */
  replicas: { engine: replicatedEngine, dialect: clusterDialect },
  /** That of the user (CLICKHOUSE_TEST_URLS). */
  given: { engine: givenEngine, dialect: clusterDialect },
  sqlite: {
    engine: newSqliteEngine,
    dialect: {
      nextId: `CASE WHEN id GLOB '*[^0-9]*' THEN id ELSE id + 1 END`,
      refusedExpressions: ['EXISTS (SELECT 1 FROM steps)', '(SELECT sql FROM sqlite_master)', 'id IN steps'],
      forbiddenExpressions: [`load_extension('x')`, `sqlite_source_id()`, 'randomblob(1000000000)'],
    },
  },
} satisfies Readonly<Record<string, { readonly engine: () => TestedEngine; readonly dialect: Dialect }>>;
type Kind = keyof typeof kinds;

export interface EngineUnderTest extends Dialect {
  readonly engine: TestedEngine;
  /** Defines a test that needs the capability. Where the engine lacks it, there is nothing to test: the reason is printed instead. */
  readonly testOf: (capability: EngineCapability) => (name: string, run: () => Promise<void>) => void;
}

/** An engine whose process, if it has one, is of this suite only. */
export function engineOf(url: string): EngineUnderTest {
  const kind = kinds[(new URL(url).searchParams.get('engine') ?? 'duckdb') as Kind];
  const engine: TestedEngine = kind.engine();
  const testOf: EngineUnderTest['testOf'] = (capability) => (name, run) => {
    if (engine.capabilities[capability]) test(name, run);
    else console.log(`not on the engine ${engine.name}, which lacks ${capability}: ${name}`);
  };
  return { engine, testOf, ...kind.dialect };
}

/** Runs test files on another engine than DuckDB, one after the other. Call it once in a file. */
export function suitesOnEngine(kind: Kind, urls: readonly URL[]): void {
  for (const url of urls)
    describe(`${basename(url.pathname)} on ${kind}`, async () => void (await import(`${url.href}?engine=${kind}`)));
}
