// Reads the text of a statement in a thread of its own, as an engine does before it knows anything else of it.
import { workerData } from 'node:worker_threads';
import { RewrittenStatement } from '../../src/engines/clickhouse/sql/rewrite_query.ts';
import { scanTableNames as namesOnClickhouse } from '../../src/engines/clickhouse/sql/table_names.ts';
import { tokensOf } from '../../src/engines/clickhouse/sql/tokens.ts';
import { scanTableNames } from '../../src/engines/duckdb/sql/table_name_scan.ts';

const { engine, sql }: { engine: string; sql: string } = workerData;
if (engine === 'duckdb') scanTableNames(sql);
else {
  const tokens = tokensOf(sql);
  const context = { catalog: 'c', database: 'd', caller: 'u', typeText: () => 'T', parameters: undefined };
  const options = { ...context, qualifiedName: ({ parts }: { parts: readonly string[] }) => parts.join('.') };
  new RewrittenStatement(sql, tokens, namesOnClickhouse(tokens), options).text();
}
