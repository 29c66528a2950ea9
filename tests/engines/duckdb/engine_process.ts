// A warehouse on DuckDB with its real process, for tests: one catalog `lake` with a database `d`, in a directory of its own.
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { CatalogRef } from '../../../src/engines/port/refs.ts';
import type {
  ExecuteOptions,
  Statement,
  StatementParameters,
  StatementResult,
} from '../../../src/engines/port/statements.ts';
import type { WarehouseSpec } from '../../../src/model/records.ts';
import { parseType } from '../../../src/model/types.ts';
import type { EngineEvent } from '../../../src/observe/observations.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { parseJson } from '../../../src/standard/json/parse_json.ts';
import { admissionRequest } from '../../admission_request.ts';
import { deadlineMs } from '../../deadline.ts';
import { plain } from '../../table_definition.ts';
import { testEngine } from '../engine_under_test.ts';

const mebibyte = 1024 * 1024;

export const spec: WarehouseSpec = {
  engine: 'duckdb',
  suspended: false,
  threads: 2,
  memoryLimitBytes: 1024 * mebibyte,
  spillLimitBytes: 1024 * mebibyte,
  autoSuspendSeconds: 0,
  autoResume: true,
  queriesMax: 16,
  queueMax: 64,
  statementTimeoutSeconds: 60,
};

export interface TestWarehouse {
  readonly engine: EngineWarehouse;
  readonly catalog: CatalogRef;
  readonly events: EngineEvent[];
  readonly root: string;
  /** Analyzes and runs, like the query path. */
  run(sql: string, options?: RunOptions): Promise<StatementResult>;
  /** The rows as JSON values; numbers that a double cannot hold keep their text. */
  rows(sql: string, parameters?: StatementParameters): Promise<unknown>;
  apply(change: Change, step?: string): Promise<unknown>;
  createTable(
    name: string,
    columns: Readonly<Record<string, string>>,
    primaryKey?: readonly string[],
  ): Promise<unknown>;
  statement(sql: string, parameters?: StatementParameters): Statement;
  pid(): number;
  close(): Promise<void>;
}

export type RunOptions = Partial<ExecuteOptions> & {
  readonly parameters?: StatementParameters | undefined;
  readonly database?: string | undefined;
};

export async function openWarehouse(
  changes: Partial<WarehouseSpec> = {},
  engineOf: Engine = testEngine,
): Promise<TestWarehouse> {
  const root = mkdtempSync(join(tmpdir(), 'tabularium-engine-'));
  mkdirSync(join(root, 'spool'));
  const catalog: CatalogRef = { id: randomUUID(), name: 'lake' };
  const events: EngineEvent[] = [];
  const engine = engineOf.open({
    name: 'test',
    spec: { ...spec, ...changes },
    dataDirectory: root,
    spoolDirectory: join(root, 'spool'),
    observe: (event) => events.push(event),
    catalogs: async () => [catalog],
  });
  await engine.start();
  const { signal } = new AbortController();
  let results = 0;
  const statement = (sql: string, parameters?: StatementParameters): Statement => ({
    sql,
    parameters,
    catalog,
    database: 'd',
  });
  const apply = (change: Change, step: string = randomUUID()) => engine.apply(change, { step, signal });
  const run = async (sql: string, { parameters, database = 'd', ...options }: RunOptions = {}) => {
    const request = { ...statement(sql, parameters), database };
    const analysis = options.analysis ?? (await engine.analyze(request, admissionRequest));
    return engine.execute(request, {
      analysis,
      numbers: 'number',
      timeoutMs: deadlineMs(30_000),
      signal,
      resultPath: join(root, 'spool', `r${++results}`),
      pageBytesMax: 8 * mebibyte,
      ...options,
    });
  };
  await apply({ kind: 'createCatalog', catalog });
  await apply({ kind: 'createDatabase', database: { catalog, database: 'd' } });
  return {
    engine,
    catalog,
    events,
    root,
    run,
    rows: async (sql, parameters) => parseJson(`[${textOf(await run(sql, { parameters }))}]`),
    apply,
    createTable: (name, columns, primaryKey = []) =>
      apply({
        kind: 'createTable',
        table: { catalog, database: 'd', table: name },
        definition: {
          columns: Object.entries(columns).map(([column, type]) => ({
            name: column,
            type: parseType(type),
            nullable: !primaryKey.includes(column),
          })),
          ...plain,
          primaryKey,
        },
      }),
    statement,
    pid: () => events.findLast((event) => event.kind === 'engineStarted')?.pid ?? 0,
    close: async () => {
      await engine.stop();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** All pages of a result, joined as in a response. */
export function textOf({ rows }: StatementResult): string {
  return rows.kind === 'text' ? rows.text : readFileSync(rows.path, 'utf8').replace(/,\n$/, '');
}

/** The code of the failure with which `work` ends; anything but a Failure is rethrown. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return 'none';
  } catch (error) {
    if (error instanceof Failure) return error.code;
    throw error;
  }
}
