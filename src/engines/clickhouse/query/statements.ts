// Runs statements of callers: those that read here, those that write in writes.ts.
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { EngineWarehouse } from '../../port/engine.ts';
import { type ExecuteOptions, StaleAnalysis, type Statement, type StatementResult } from '../../port/statements.ts';
import { bindRemembered, bindStatement } from '../analysis/analysis.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { exportRows, needsNumbersAsStrings } from '../export/export_rows.ts';
import { unsupported } from '../unsupported.ts';
import { type BoundStatement, LocalReadRefused, type RememberedStatement } from './bound_statement.ts';
import { watchProgress } from './progress.ts';
import { readResult } from './result_stream.ts';
import { rowsFormat, rowsSettings } from './row_lines.ts';
import { RunningWrites } from './running_writes.ts';
import { readSettings } from './statement_settings.ts';
import { executeWrite } from './writes.ts';

export type StatementMethods = Pick<EngineWarehouse, 'execute' | 'recordStep' | 'explain'>;

const explainTimeoutMs = 30_000;

export function statementsOf(context: WarehouseContext): StatementMethods {
  const writes = new RunningWrites();
  return {
    execute: (statement, options) =>
      context.run(options.signal, async (signal) => {
        context.runningStatements++;
        const begun = performance.now();
        try {
          const remembered = await boundAsAnalyzed(context, statement, { ...options, signal });
          const { bound } = remembered;
          if (bound.write !== undefined)
            return await executeWrite(context, { ...bound, write: bound.write }, { ...options, signal }, writes);
          const { result, ran } = await executeSelect(context, remembered, { ...options, signal });
          const isSlow = options.planAfterMs !== undefined && performance.now() - begun >= options.planAfterMs;
          return isSlow ? { ...result, plan: await planOf(context, ran) } : result;
        } finally {
          context.runningStatements--;
        }
      }),
    recordStep: async (resultPath, step) => writes.assign(resultPath, step),
    explain: (statement) =>
      context.run(undefined, async (signal) =>
        planOf(context, await bindStatement(context, statement, { signal, timeoutMs: explainTimeoutMs })),
      ),
  };
}

/** Throws StaleAnalysis. */
async function boundAsAnalyzed(
  context: WarehouseContext,
  statement: Statement,
  options: Pick<ExecuteOptions, 'analysis' | 'timeoutMs' | 'signal'>,
): Promise<RememberedStatement> {
  const remembered = await bindRemembered(context, statement, options);
  if (remembered) return remembered;
  const bound = await bindStatement(context, statement, options);
  if (bound.analysis.token !== options.analysis.token) throw new StaleAnalysis();
  return { bound, confirm: undefined };
}

/** @returns also the form in which it was run. */
async function executeSelect(
  context: WarehouseContext,
  { bound, confirm, distributed }: RememberedStatement,
  options: ExecuteOptions,
): Promise<{ readonly result: StatementResult; readonly ran: BoundStatement }> {
  if (options.profile) return unsupported('profiles of queries');
  const { rowsMax, timeoutMs, into } = options;
  const numbers = into && needsNumbersAsStrings(into) ? 'string' : options.numbers;
  const call: ServerCall = {
    sql: `${bound.sql}\nFORMAT ${rowsFormat}`,
    parameters: bound.parameters,
    settings: rowsSettings({ numbers, rowsMax }),
    timeoutMs,
    isOfCaller: true,
    signal: options.signal,
  };
  let isUnread = true;
  const onPage: ExecuteOptions['onPage'] =
    options.onPage &&
    ((page) => {
      isUnread = false;
      options.onPage?.(page);
    });
  try {
    const read = (server: ClickHouseServer) => {
      const settings = { ...call.settings, ...readSettings(context.cluster, server, bound.analysis.reads) };
      return streamed(server, { ...call, settings }, confirm, { ...options, onPage });
    };
    const result = await context.cluster.onAny(read, { isUnread: () => isUnread });
    return { result, ran: bound };
  } catch (error) {
    if (!distributed || !isOfLocalTable(error)) throw bound.toFailure(error);
  }
  return executeSelect(context, await distributed(), options);
}

/** Errors of names that a server does not know: it may know them of the Distributed table, such as the column `_shard_num`. */
const unknownNames: readonly number[] = [47, 60, 81];

const isOfLocalTable = (error: unknown): boolean =>
  error instanceof LocalReadRefused || (error instanceof ClickHouseError && unknownNames.includes(error.code));

async function streamed(
  server: ClickHouseServer,
  call: ServerCall,
  confirm: RememberedStatement['confirm'],
  options: ExecuteOptions,
): Promise<StatementResult> {
  const queryId = randomUUID();
  const progress = watchProgress(server, queryId, options.progress);
  try {
    const open = () => {
      const sent = { ...call, queryId };
      return confirm ? confirmedRows(server, sent, confirm) : server.stream(sent);
    };
    const { into } = options;
    return into ? await exportRows(open, { ...options, into }) : await readResult(await open(), options);
  } finally {
    progress.stop();
  }
}

/** The statement is sent first: what it waits for is the longer of the two. */
async function confirmedRows(
  server: ClickHouseServer,
  call: ServerCall,
  confirm: (backend: string) => Promise<void>,
): Promise<Readable> {
  const unconfirmed = new AbortController();
  const signal = call.signal ? AbortSignal.any([call.signal, unconfirmed.signal]) : unconfirmed.signal;
  const opened = server.stream({ ...call, signal });
  const confirmed = confirm(server.name);
  confirmed.catch(() => unconfirmed.abort());
  const [rows] = await Promise.allSettled([opened, confirmed]);
  try {
    // Before anything that the server says of names that have another meaning now.
    await confirmed;
    return await opened;
  } catch (error) {
    if (rows.status === 'fulfilled') rows.value.destroy();
    throw error;
  }
}

async function planOf(context: WarehouseContext, bound: BoundStatement): Promise<string> {
  const { write } = bound;
  const query = write === undefined ? bound.sql : write.kind === 'insert' ? write.query : undefined;
  const head = write === undefined ? '' : `${write.kind} ${JSON.stringify(write.table.table)}\n`;
  if (query === undefined) return head;
  const sql = `EXPLAIN PLAN\n${query}\nFORMAT TSVRaw`;
  const settings = { readonly: 1 };
  try {
    const plan = await context.cluster.onAny((server) =>
      server.text({ sql, parameters: bound.parameters, settings, timeoutMs: explainTimeoutMs, isOfCaller: true }),
    );
    return `${head}${plan}`;
  } catch (error) {
    throw bound.toFailure(error);
  }
}
