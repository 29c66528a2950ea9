// The handlers of `query`, `profile` and `explain`.

import type { SharedHandlers } from '../../api/handlers.ts';
import type { QueryBody, QueryResult, sqlActionsApi } from '../../api/queries/sql_actions.ts';
import type { ResultColumn } from '../../engines/port/statements.ts';
import type { QueryRequest, QueryRun } from '../../query/statements/queries.ts';
import {
  confirmedRun,
  profileResult,
  type QueryAnswer,
  type Submission,
} from '../../query/statements/query_submission.ts';
import { type Segment, segment, uriOf } from '../../standard/paths.ts';
import { type BodyPiece, JsonText } from '../../standard/record_body.ts';
import { requireCapabilityOfPath } from '../records/engine_capabilities.ts';
import { fileFormatOf, requireFormat } from '../records/file_format.ts';
import type { Context } from '../records/handler_context.ts';
import { done } from '../records/outcomes.ts';
import { requireQueueCapacity, type TaskBody, taskOptions, waitSecondsOf } from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';
import { linkedFiles } from '../tasks/result_links.ts';

type StatementRequest = Pick<QueryRequest, 'sql' | 'parameters' | 'rowsMax' | 'warehouse'> &
  Partial<Pick<QueryRequest, 'numbers'>> & {
    readonly format?: QueryBody['format'];
    readonly compression?: QueryBody['compression'];
  };

function requestOf(
  { sql, parameters, rowsMax, numbers = 'number', warehouse, format = 'json', compression }: StatementRequest,
  [root, database]: readonly [Segment, ...Segment[]],
): QueryRequest {
  const request = { sql, parameters, rowsMax, numbers, catalog: root.name, database: database?.name, warehouse };
  if (format !== 'json') return { ...request, into: { format: fileFormatOf({ format, compression }) } };
  requireFormat(compression === undefined, '/compression', format);
  return request;
}

export const sqlHandlers: SharedHandlers<ReturnType<typeof sqlActionsApi>, Context> = {
  query: async ({ segments, body }, context) => {
    const { applied } = context.call.actor.guard ?? {};
    if (applied) return done({ ...countsOnly, ...confirmedRun(applied) });
    const answer = await context.submitter.submit(await submission(body, segments, context));
    if (answer.kind === 'task') return accepted(answer.task, context);
    if (answer.kind === 'begun') return done(begunText(answer, context), null);
    const { run } = answer;
    if (answer.kind === 'files') return done(filesResult(answer, context), null);
    const result = rowsText(run, answer.rows, answer.pages, context);
    if (run.kind === 'select') return done(result, null);
    const { columns, rowCount } = run.result;
    const { statistics, queryId } = run;
    const counts = { ...countsOnly, columns, rowCount, statistics, queryId };
    if (run.result.repeated) return done(counts);
    return done(result, run.result.returned ? counts : result);
  },
  profile: async ({ segments, body }, context) => {
    const answer = await context.submitter.profile(await submission(body, segments, context));
    if (answer.kind === 'task') return accepted(answer.task, context);
    if (answer.kind === 'begun') throw new Error('a profile has no pages');
    return done(profileResult(answer.run));
  },
  explain: async ({ segments, body }, context) =>
    done({ plan: await context.queries.explain(requestOf(body, segments), context.call) }),
};

/** Waits as long as the caller requested. */
async function submission(
  body: StatementRequest & TaskBody & { readonly waitSeconds?: number },
  segments: readonly [Segment, ...Segment[]],
  context: Context,
): Promise<Submission> {
  const waitSeconds = waitSecondsOf(body);
  const request = requestOf(body, segments);
  if (request.into) await requireCapabilityOfPath('exports', segments, context);
  await requireQueueCapacity(waitSeconds, segments, context);
  const { principal, actor, signal, caller, version } = context.call;
  return {
    ...(await taskOptions(body, context)),
    request,
    principal,
    actor,
    signal,
    caller,
    waitSeconds,
    target: uriOf(version, segments),
  };
}

/** The result of a statement that an earlier attempt applied. Rows that it returned are not stored. */
const countsOnly = { columns: [], rows: null, truncated: false, pageCount: 1 };

/** The result of a query whose rows are in files. */
function filesResult({ taskId, result }: Extract<QueryAnswer, { kind: 'files' }>, context: Context) {
  const { expiresAt, files, ...rest } = result;
  const task = uriOf(context.call.version, [segment('tasks', taskId)]);
  return { ...rest, files: linkedFiles(files, expiresAt, context), task };
}

/** The result as JSON text: the rows are the engine's bytes, unchanged. */
function rowsText(
  run: QueryRun,
  rows: BodyPiece,
  pages: { readonly taskId: string; readonly pageCount: number } | undefined,
  context: Context,
): JsonText<QueryResult> {
  const { columns, rowCount, truncated } = run.result;
  return pageText(columns, rows, {
    rowCount,
    truncated,
    ...(pages ? { nextPage: pageUri(context, pages.taskId, 1) } : {}),
    pageCount: pages?.pageCount ?? 1,
    statistics: run.statistics,
    queryId: run.queryId,
  });
}

/** The first page of a result of which later pages are computed. */
function begunText({ run, rows, taskId }: Extract<QueryAnswer, { kind: 'begun' }>, context: Context) {
  const { columns, statistics, queryId } = run;
  const unknown = { rowCount: null, truncated: null, pageCount: null };
  return pageText(columns, rows, { ...unknown, nextPage: pageUri(context, taskId, 1), statistics, queryId });
}

const pageText = (columns: readonly ResultColumn[], rows: BodyPiece, rest: Omit<QueryResult, 'columns' | 'rows'>) =>
  new JsonText<QueryResult>(
    `{"columns":${JSON.stringify(columns)},"rows":[`,
    rows,
    `],${JSON.stringify(rest).slice(1)}`,
  );

export function pageUri(context: Context, taskId: string, page: number): string {
  return uriOf(context.call.version, [
    { category: 'tasks', name: taskId },
    { category: 'pages', name: String(page) },
  ]);
}
