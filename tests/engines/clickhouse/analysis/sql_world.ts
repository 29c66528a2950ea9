// A warehouse on one ClickHouse node of this machine with tables and views that the tests name, made as the adapter makes them.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { clickhouseWith } from '../../../../src/engines/clickhouse/clickhouse.ts';
import { HttpServer } from '../../../../src/engines/clickhouse/connection/http_server.ts';
import { namesOf, storedDatabase } from '../../../../src/engines/clickhouse/names.ts';
import { databaseComment } from '../../../../src/engines/clickhouse/owned_databases.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../../../../src/engines/clickhouse/sql/identifiers.ts';
import type { EngineWarehouse } from '../../../../src/engines/port/engine.ts';
import type { Statement, StatementAnalysis } from '../../../../src/engines/port/statements.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { spec } from '../../../conformance/engine/engine_world.ts';
import { accessTo } from '../engine.ts';
import { startRing } from '../ring/ring.ts';

const clickhouse = clickhouseWith();

export const catalog = { id: 'c1', name: 'shop' };

export interface SqlWorld {
  readonly engine: EngineWarehouse;
  /** The node itself, without the engine. */
  readonly server: HttpServer;
  statement(sql: string, more?: Partial<Statement>): Statement;
  analyze(sql: string, more?: Partial<Statement>): Promise<StatementAnalysis>;
  /** `main.t`, `other.s.p` for what is read; `>main.t` for what is written; `view main.v`. In order. */
  uses(sql: string, more?: Partial<Statement>): Promise<string[]>;
  failure(sql: string, more?: Partial<Statement>): Promise<Failure>;
  raw(sql: string): Promise<string>;
  close(): Promise<void>;
}

/** Tables by catalog, database and name. */
export const tables: readonly (readonly [string, string, string, string])[] = [
  ['shop', 'main', 't', 'id Int64, k Nullable(Int32), d Nullable(Float64), v Nullable(String)'],
  ['shop', 'main', 'u', 'id Int64, k Nullable(Int32), v Nullable(String)'],
  ['shop', 'main', 'secret', 'id Int64, v Nullable(String)'],
  ['shop', 'main', 'Mixed Case', 'id Int64, k Nullable(Int32)'],
  ['shop', 'main', 'größe.ü', 'id Int64, "a.b" Nullable(Int32)'],
  [
    'shop',
    'main',
    'd',
    "id Int64, x Nullable(Decimal(9, 2)), big Nullable(Decimal(38, 10)), at Nullable(DateTime64(6, 'Etc/UTC')), day Nullable(Date32), ok Nullable(Bool)",
  ],
  // A tree has the same name for both.
  ['shop', 'main', 'x.hidden', 'id Int64'],
  ['shop', 'main.x', 'hidden', 'id Int64'],
  ['shop', 's', 'p', 'id Int64, k Nullable(Int32)'],
  ['other', 's', 'p', 'id Int64, k Nullable(Int32)'],
  ['other', 'system', 'users', 'id Int64'],
];
/** Views of `main`, with the text of the servers. */
const views: readonly (readonly [string, string])[] = [
  ['of dotted table', 'SELECT id FROM `shop__main`.`x.hidden`'],
  ['of dotted database', 'SELECT id FROM `shop__main.x`.`hidden`'],
  ['of both', 'SELECT a.id FROM `shop__main.x`.`hidden` AS a, `shop__main`.`x.hidden` AS b'],
  ['v1', 'SELECT id, k FROM `shop__main`.`t` AS t'],
  ['v2', 'SELECT v1.id, (SELECT max(k) FROM `shop__s`.`p` AS p) AS m FROM `shop__main`.`v1` AS v1'],
  [
    'v3',
    'WITH tabularium_cte_q AS (SELECT * FROM `shop__main`.`v2` AS v2) SELECT q.id FROM tabularium_cte_q AS q, `other__s`.`p` AS p WHERE p.id IN (SELECT id FROM `shop__main`.`secret` AS secret)',
  ],
];

const catalogs = [catalog, { id: 'c2', name: 'other' }];

export async function openSqlWorld(): Promise<SqlWorld> {
  const ring = await startRing(1);
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-clickhouse-analysis-'));
  const engine = clickhouse.open({
    name: 'w',
    spec: { ...spec, engine: clickhouse.name },
    cluster: accessTo(ring.nodes),
    dataDirectory: directory,
    spoolDirectory: directory,
    observe: () => undefined,
    catalogs: async () => catalogs,
  });
  await engine.start();
  const credentials = async () => ({ user: 'default', password: '' });
  const server = new HttpServer({ name: 'node', url: ring.nodes[0]?.url ?? '', credentials });
  const raw = (sql: string) => server.text({ sql, timeoutMs: 60_000 });
  const databases = new Map(tables.map(([root, database]) => [storedDatabase(root, database), root]));
  for (const [database, root] of databases) {
    const { id } = catalogs.find(({ name }) => name === root) ?? catalog;
    await raw(`CREATE DATABASE ${quoteIdentifier(database)} COMMENT ${quoteLiteral(databaseComment(id))}`);
  }
  for (const [root, database, table, columns] of tables)
    await raw(
      `CREATE TABLE ${qualifiedName(namesOf({ catalog: root, database, table }))} (${columns}) ENGINE = MergeTree ORDER BY id`,
    );
  for (const [view, query] of views)
    await raw(`CREATE VIEW ${qualifiedName(namesOf({ catalog: 'shop', database: 'main', table: view }))} AS ${query}`);
  const statement: SqlWorld['statement'] = (sql, more) => ({ sql, catalog, database: 'main', caller: 'ada', ...more });
  const analyze: SqlWorld['analyze'] = (sql, more) => engine.analyze(statement(sql, more), admissionRequest);
  return {
    engine,
    server,
    statement,
    analyze,
    async uses(sql, more) {
      const { reads, writes, views: expanded } = await analyze(sql, more);
      const name = ({ catalog: root, database, table }: (typeof reads)[number]) =>
        `${root === catalog.name ? '' : `${root}.`}${database}.${table}`;
      return [
        ...reads.map(name),
        ...writes.map((table) => `>${name(table)}`),
        ...expanded.map((view) => `view ${name(view)}`),
      ].sort();
    },
    async failure(sql, more) {
      try {
        await analyze(sql, more);
      } catch (error) {
        assert.ok(error instanceof Failure, `${sql}: ${error instanceof Error ? error.stack : String(error)}`);
        return error;
      }
      throw new assert.AssertionError({ message: `it was allowed: ${sql.slice(0, 200)}` });
    },
    raw,
    async close() {
      await engine.stop();
      await server.close();
      await ring.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
