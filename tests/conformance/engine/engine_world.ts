// A warehouse of the port on a real engine in a directory of its own, for the suites that test statements and limits.
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BackendStatus } from '../../../src/engines/port/backends.ts';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { CatalogRef } from '../../../src/engines/port/refs.ts';
import {
  type ExecuteOptions,
  StaleAnalysis,
  type Statement,
  type StatementAnalysis,
  type StatementParameters,
  type StatementResult,
} from '../../../src/engines/port/statements.ts';
import type { ColumnDefinition, TableDefinition, WarehouseSpec } from '../../../src/model/records.ts';
import { parseType } from '../../../src/model/types.ts';
import type { EngineEvent } from '../../../src/observe/observations.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { parseJson } from '../../../src/standard/json/parse_json.ts';
import { admissionRequest } from '../../admission_request.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { testEngine } from '../../engines/engine_under_test.ts';
import { plain } from '../../table_definition.ts';

export const MiB = 1024 * 1024;

export const spec: WarehouseSpec = {
  engine: testEngine.name,
  suspended: false,
  threads: 2,
  memoryLimitBytes: 512 * MiB,
  spillLimitBytes: 256 * MiB,
  autoSuspendSeconds: 0,
  autoResume: true,
  queriesMax: 8,
  queueMax: 8,
  statementTimeoutSeconds: 60,
};

/** Of the first backend, which does the work in these tests. */
export const statusOf = (engine: EngineWarehouse, { backends: [backend] } = testEngine): BackendStatus =>
  engine.status(backend?.name ?? '');

/** Waits until as many statements run in the process that executes them, because each is analyzed first. */
export const statementsRun = (engine: EngineWarehouse, count: number) =>
  eventually(`${count} statements run`, () => statusOf(engine).runningQueries >= count);

export interface RunOptions extends Partial<Omit<ExecuteOptions, 'analysis'>> {
  readonly parameters?: StatementParameters | undefined;
  readonly analysis?: StatementAnalysis;
  /** Undefined: the default of the suite; null: none. */
  readonly database?: string | null;
}

export interface TestedEngine extends Engine {
  /** A name for the catalog of a world, where other catalogs may be that are none of the tests. */
  readonly catalogName?: () => string;
}

export interface EngineWorld {
  readonly engine: EngineWarehouse;
  readonly catalog: CatalogRef;
  readonly catalogs: CatalogRef[];
  readonly database: string;
  readonly directory: string;
  readonly spool: string;
  readonly events: EngineEvent[];
  readonly change: (change: Change) => Promise<unknown>;
  readonly table: (
    name: string,
    columns: Readonly<Record<string, string>>,
    keys?: Partial<TableDefinition>,
  ) => Promise<TableDefinition>;
  readonly statement: (sql: string, options?: RunOptions) => Statement;
  /** Analyses and executes, as query/statements/queries.ts does. */
  readonly run: (sql: string, options?: RunOptions) => Promise<StatementResult>;
  readonly close: () => Promise<void>;
}

export async function openEngine(
  limits: Partial<WarehouseSpec> = {},
  engineOf: TestedEngine = testEngine,
): Promise<EngineWorld> {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-éngine '));
  const spool = join(directory, "spool's 'ü");
  mkdirSync(spool);
  const catalog: CatalogRef = { id: randomUUID(), name: engineOf.catalogName?.() ?? 'c "1"' };
  const catalogs = [catalog];
  const events: EngineEvent[] = [];
  const database = 'd é';
  const engine = engineOf.open({
    name: 'w',
    spec: { ...spec, engine: engineOf.name, ...limits },
    dataDirectory: directory,
    spoolDirectory: spool,
    observe: (event) => events.push(event),
    catalogs: async () => catalogs,
  });
  await engine.start();
  const change = (request: Change) =>
    engine.apply(request, { step: randomUUID(), signal: new AbortController().signal });
  await begun(() => change({ kind: 'createCatalog', catalog }));
  await begun(() => change({ kind: 'createDatabase', database: { catalog, database } }));
  const statement: EngineWorld['statement'] = (sql, options = {}) => ({
    sql,
    parameters: options.parameters,
    catalog,
    database: options.database === null ? undefined : (options.database ?? database),
  });
  return {
    engine,
    catalog,
    catalogs,
    database,
    directory,
    spool,
    events,
    change,
    statement,
    async table(name, columns, keys = {}) {
      const definition = definitionOf(columns, keys);
      await change({ kind: 'createTable', table: { catalog, database, table: name }, definition });
      return definition;
    },
    async run(sql, options = {}) {
      const call = statement(sql, options);
      const { parameters: _, database: __, ...rest } = options;
      for (let attempt = 0; ; attempt++) {
        try {
          return await engine.execute(call, {
            numbers: 'number',
            timeoutMs: deadlineMs(20_000),
            signal: new AbortController().signal,
            resultPath: join(spool, randomUUID()),
            pageBytesMax: MiB,
            ...rest,
            analysis: options.analysis ?? (await engine.analyze(call, admissionRequest)),
          });
        } catch (error) {
          if (!(error instanceof StaleAnalysis) || options.analysis || attempt > 5) throw error;
        }
      }
    },
    async close() {
      await engine.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export function definitionOf(
  columns: Readonly<Record<string, string>>,
  keys: Partial<TableDefinition> = {},
): TableDefinition {
  const definitions: ColumnDefinition[] = Object.entries(columns).map(([name, type]) => ({
    name,
    type: parseType(type),
    nullable: !keys.primaryKey?.includes(name),
  }));
  return { columns: definitions, ...plain, ...keys };
}

/** The failure with which the work ends, as one record to compare. */
export async function failureOf(
  work: Promise<unknown>,
): Promise<{ code: string; message: string; result: Record<string, unknown> }> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { code: error.code, message: error.message, result: { ...error.result } };
  }
  return { code: '0', message: 'it succeeded', result: {} };
}

/** The rows of a result, all pages joined as in a response; numbers that a double cannot hold keep their text. */
export async function rowsOf(world: EngineWorld, sql: string, options: RunOptions = {}): Promise<unknown> {
  const { rows } = await world.run(sql, options);
  const text = rows.kind === 'text' ? rows.text : readFileSync(rows.path, 'utf8').replace(/,\n$/, '');
  return parseJson(`[${text}]`);
}

/** On a busy machine, not all servers of a cluster may have answered when its engine has started. */
async function begun(change: () => Promise<unknown>): Promise<void> {
  const isTaken = (error: unknown) => {
    if (error instanceof Failure && error.code === 'NOT_ENOUGH_BACKENDS') return false;
    throw error;
  };
  await eventually('the engine takes changes', () => change().then(() => true, isTaken));
}
