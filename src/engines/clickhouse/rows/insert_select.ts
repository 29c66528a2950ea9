// INSERT ... SELECT: its rows are written to staging tables, which nobody reads, and published from there, so that all of them are inserted or
// none, and once for each step.
import { randomUUID } from 'node:crypto';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import { isUncounted, picksMax, serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import {
  createStaging,
  loadNumber,
  type StagedLoad,
  type StagedSize,
  sizeOfStaged,
  stagingName,
} from '../load/staging.ts';
import { namesOf } from '../names.ts';
import type { BoundWrite, WriteRun } from '../query/bound_statement.ts';
import { watchProgress } from '../query/progress.ts';
import { readSettings } from '../query/statement_settings.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { stepsOf } from '../steps/recorded_write.ts';
import { checkedConversion } from '../types/checked_conversion.ts';
import { mayBeNull } from '../types/type_mapping.ts';
import { toViolation } from './insert_block.ts';
import { publishStaged } from './staged_rows.ts';

type InsertSelect = WriteRun<Extract<BoundWrite, { readonly kind: 'insert' }>>;

/** @returns the number of rows. Throws CONSTRAINT_VIOLATED. */
export async function insertSelect(context: WarehouseContext, work: InsertSelect): Promise<number> {
  const { load, number, rowCount, partitions } = await staged(context, work);
  const step = work.takeStep();
  const { attempt = '' } = work;
  // Partitions are published one by one.
  const isInParts = partitions > 1;
  const recorded = stepsOf(context, step === undefined ? [] : [{ step, rowCount }], { rowCount, attempt, isInParts });
  await publishStaged(context, work.write.table.catalog, { load, number }, recorded);
  return rowCount;
}

/** In tables of their own for each attempt: another one follows if a server has picked a replica that does not count for the query. */
async function staged(context: WarehouseContext, work: InsertSelect) {
  const { catalog, database, table } = work.write.table;
  const names = namesOf({ catalog: catalog.name, database, table });
  const avoided = new Set<string>();
  for (let picks = 1; ; picks++) {
    const id = randomUUID();
    const number = loadNumber(id);
    const staging = stagingName(id, id);
    const load: StagedLoad = { staging, database: names.database, localTable: names.localTable, mode: 'append' };
    try {
      return { load, number, ...(await stage(context, work, { load, table: names.table, number, avoided })) };
    } catch (error) {
      await context.endedStaging.drop(staging);
      if (!isUncounted(error) || picks === picksMax) throw error;
    }
  }
}

/** Nothing of this is seen by anybody: whatever fails, nothing was inserted. */
async function stage(
  context: WarehouseContext,
  work: InsertSelect,
  staging: {
    readonly load: StagedLoad;
    readonly table: string;
    readonly number: string;
    readonly avoided: Set<string>;
  },
): Promise<StagedSize> {
  const { cluster } = context;
  try {
    await cluster.onAny(
      async (server) => {
        const target = await targetColumns(server, staging.load, work.write.columns);
        const into = await createStaging(cluster, server, staging, work.signal);
        const query = await convertedQuery(server, work, target);
        const queryId = randomUUID();
        const watch = watchProgress(server, queryId, work.progress);
        const inserted = server.text({
          queryId,
          sql: `INSERT INTO ${into} (${work.write.columns.map(quoteIdentifier).join(', ')})\n${query}`,
          parameters: work.parameters,
          settings: { ...readSettings(cluster, server, work.reads), max_partitions_per_insert_block: 0 },
          timeoutMs: work.timeoutMs,
          isOfCaller: true,
          signal: work.signal,
        });
        await inserted.finally(watch.stop);
      },
      { avoided: staging.avoided },
    );
    return await sizeOfStaged(cluster, staging.load, work.signal);
  } catch (error) {
    const failure = serverFailure(error);
    throw withOutcome(work.toFailure(toViolation(failure, 'nothing was inserted')), 'notApplied');
  }
}

/** The types of the columns. Throws CONSTRAINT_VIOLATED if a column without nulls and default is left out. */
async function targetColumns(
  server: ClickHouseServer,
  { database, localTable }: StagedLoad,
  columns: readonly string[],
): Promise<readonly string[]> {
  const all = await server.rows<{ name: string; type: string; defaultKind: string }>({
    sql: `SELECT name, type, default_kind AS defaultKind FROM system.columns
      WHERE database = ${quoteLiteral(database)} AND table = ${quoteLiteral(localTable)}`,
    timeoutMs: 10_000,
  });
  const omitted = all.find(
    ({ name, type, defaultKind }) => defaultKind === '' && !columns.includes(name) && !mayBeNull(type),
  );
  if (omitted)
    throw new Failure(
      'CONSTRAINT_VIOLATED',
      `the column "${omitted.name}" is not nullable and has no default; nothing was inserted`,
    );
  return columns.map((column) => all.find(({ name }) => name === column)?.type ?? '');
}

/** Values that the columns cannot hold are refused. */
async function convertedQuery(
  server: ClickHouseServer,
  { write, parameters }: InsertSelect,
  types: readonly string[],
): Promise<string> {
  const described = await server.rows<{ type: string }>({
    sql: `DESCRIBE (\n${write.query}\n)`,
    parameters,
    settings: { describe_compact_output: 1 },
    timeoutMs: 10_000,
    isOfCaller: true,
  });
  const values = described.map(({ type }, i) =>
    checkedConversion(type, types[i] ?? type, `v${i}`, write.columns[i] ?? ''),
  );
  if (described.length !== write.columns.length) return `SELECT * FROM (\n${write.query}\n)`;
  // Servers of 24.8 refuse an INSERT of a query in parentheses.
  if (values.every((value, i) => value === `v${i}`) && !write.query.startsWith('(')) return write.query;
  // The first query names the columns, whose own names may repeat.
  const named = described.map(({ type }, i) => `defaultValueOfTypeName(${quoteLiteral(type)}) AS v${i}`).join(', ');
  return `SELECT ${values.join(', ')} FROM (SELECT ${named} WHERE 0 UNION ALL (\n${write.query}\n))`;
}
