// Queries: the history of statements, those that run included.

import { nullable } from '../../api/fields.ts';
import { explainCodes, Plan, Parameters as StatementParameters } from '../../api/queries/statement_fields.ts';
import { stateField } from '../../api/states.ts';
import type { Principal } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import { type QueryEntry, sqlCharactersMax } from '../../query/statements/history.ts';
import { basisOfQuery } from '../../query/statements/history_entry.ts';
import type { QueryFilter } from '../../query/statements/history_search.ts';
import type { QueryRequest } from '../../query/statements/queries.ts';
import type { Category } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { basisOf } from '../../standard/record_version.ts';
import { Type } from '../../standard/type.ts';
import { defined, timeOf } from '../records/fields.ts';
import {
  action,
  type Context,
  deleted,
  done,
  found,
  get,
  list,
  remove,
  requireOnCollection,
  segment,
} from '../records/handler_context.ts';
import { type Page, pageOf, searchBy } from '../records/search.ts';

const Timestamp = Type.String({ format: 'date-time' });
const State = Type.Union([
  Type.Literal('queued'),
  Type.Literal('running'),
  Type.Literal('succeeded'),
  Type.Literal('failed'),
  Type.Literal('cancelled'),
]);

const QueryRecord = Type.Object({
  queryId: Type.String(),
  sql: Type.String({ description: 'The text; the first 64 Ki characters of a longer one.' }),
  kind: nullable(
    Type.String({ description: '`select`, `insert`, `update`, `delete` or `merge`; null until it is known.' }),
  ),
  state: stateField({
    queued: 'it waits for its turn',
    running: 'it runs',
    succeeded: 'it ended with a result',
    failed: 'it ended with an error',
    cancelled: 'it was stopped',
  }),
  warehouse: Type.String(),
  catalog: Type.String(),
  database: nullable(Type.String()),
  startedAt: nullable(Timestamp),
  endedAt: nullable(Timestamp),
  elapsedMs: nullable(Type.Number()),
  queuedMs: nullable(Type.Number()),
  rowCount: nullable(Type.Integer()),
  resultBytes: nullable(Type.Integer()),
  error: nullable(Type.Object({ code: Type.String(), message: Type.String() })),
  task: nullable(
    Type.String({ description: 'URI of the task that ran it, if one did: pages or files of its rows are there.' }),
  ),
  plan: Type.Optional(
    nullable(
      Type.String({
        description:
          "The engine's plan, with the values of parameters, of a statement that took a quarter of a second or longer; null for others, which `explain` tells of. Not in lists.",
      }),
    ),
  ),
  createdAt: Timestamp,
  createdBy: Type.String(),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
  version: Type.Integer(),
  uri: Type.String(),
});

const part = (of: string) =>
  Type.Optional(Type.String({ maxLength: 1024, description: `A part of ${of}; case does not count.` }));
const name = Type.Optional(Type.String({ maxLength: 128 }));
const least = (of: string) => Type.Optional(Type.Number({ minimum: 0, description: `${of}: at least so many.` }));

const soughtFields = {
  state: Type.Optional(State),
  text: part('the SQL'),
  errorText: part('the message of its error'),
  planText: part('the plan, where one is kept'),
  errorCode: name,
  kind: name,
  warehouse: name,
  catalog: name,
  database: name,
  submittedBy: name,
  from: Type.Optional(Type.String({ format: 'date-time', description: 'When it was submitted.' })),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Not included.' })),
  elapsedMsMin: least('Milliseconds in the engine'),
  queuedMsMin: least('Milliseconds in the queue'),
  rowCountMin: least('Rows'),
  resultBytesMin: least('Bytes of the result'),
};

const example = {
  queryId: '019aa0b4-7c20-7a11-8c34-1e2d3c4b5a69',
  sql: 'SELECT count(*) FROM lineorder',
  kind: 'select',
  state: 'succeeded',
  warehouse: 'default',
  catalog: 'default',
  database: 'ssb',
  startedAt: '2026-01-31T10:00:00.000Z',
  endedAt: '2026-01-31T10:00:00.004Z',
  elapsedMs: 3.8,
  queuedMs: 0,
  rowCount: 1,
  resultBytes: 8,
  error: null,
  task: null,
  createdAt: '2026-01-31T10:00:00.000Z',
  createdBy: 'root',
  updatedAt: '2026-01-31T10:00:00.004Z',
  updatedBy: 'root',
  version: 1,
  uri: '/api/v2/queries/019aa0b4-7c20-7a11-8c34-1e2d3c4b5a69',
};

const time = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());

function record(entry: QueryEntry, context: Context) {
  const { queryId, sql, kind, state, warehouse, catalog, database, elapsedMs, queuedMs, rowCount, resultBytes } = entry;
  const submittedAt = time(entry.submittedAt);
  const basis = basisOfQuery(entry);
  return {
    queryId,
    sql,
    kind,
    state,
    warehouse,
    catalog,
    database,
    startedAt: time(entry.startedAt),
    endedAt: time(entry.endedAt),
    elapsedMs,
    queuedMs,
    rowCount,
    resultBytes,
    error: entry.errorCode === null ? null : { code: entry.errorCode, message: entry.errorMessage ?? '' },
    task: entry.taskId === null ? null : uriOf(context.call.version, [segment('tasks', entry.taskId)]),
    createdAt: submittedAt,
    createdBy: entry.submittedBy,
    updatedAt: time(entry.endedAt ?? entry.startedAt) ?? submittedAt,
    updatedBy: entry.submittedBy,
    version: basis.version,
    uri: uriOf(context.call.version, [segment('queries', queryId)]),
    [basisOf]: basis,
  };
}

const whole = (entry: QueryEntry, context: Context) => ({ ...record(entry, context), plan: entry.plan });

function missing(queryId: string): Failure {
  return new Failure('OBJECT_NOT_FOUND', `there is no query ${JSON.stringify(queryId)}`, {
    category: 'queries',
    name: queryId,
  });
}

/** A statement is its submitter's; others need the privilege on all. Throws FORBIDDEN, whether it is there or not. */
async function permitQuery(privilege: Privilege, queryId: string, context: Context): Promise<void> {
  const entry = await context.history.get(queryId);
  const { call } = context;
  if (!entry || entry.owner !== ownHistory(call.principal, context))
    await requireOnCollection(privilege, 'queries', context);
  call.permitted = true;
}

/** Whose history the caller may see of its own right. The texts of a user's statements are not for its confined tokens. */
function ownHistory({ id, scopes }: Principal, context: Context): string {
  return scopes === undefined && context.directory.users.has(id) ? id : 'nobody';
}

async function queriesPage(context: Context, page: Page, sought: QueryFilter) {
  const { reach, principal } = context.call;
  const owner = reach === 'within' ? ownHistory(principal, context) : undefined;
  const entries = await context.history.list({ ...sought, owner, after: page.after, limit: page.limit + 1 });
  return pageOf(
    entries,
    page,
    ({ queryId }) => queryId,
    (entry) => record(entry, context),
  );
}

export const queries: Category<Context> = {
  name: 'queries',
  singular: 'query',
  title: 'Queries',
  doc: 'The history of SQL statements, the newest first; running ones are part of it.',
  parameter: 'queryId',
  idField: 'queryId',
  record: QueryRecord,
  example,
  endpoints: [
    list({
      summary: 'Lists statements, those submitted last first.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      handle: ({ page }, context) => queriesPage(context, page, {}),
    }),
    get({
      summary: 'Shows a statement.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      handle: async ({ path }, context) => {
        await permitQuery('read', path.queryId as string, context);
        const entry = await context.history.get(path.queryId as string);
        if (!entry) throw missing(path.queryId as string);
        return found(whole(entry, context));
      },
    }),
    remove({
      summary: 'Forgets a statement; one that runs is cancelled instead.',
      permission: { privilege: 'drop', on: 'target', orSelf: true },
      handle: async ({ path }, context) => {
        await permitQuery('drop', path.queryId as string, context);
        return deleted(await context.history.remove(path.queryId as string, context.call.actor));
      },
    }),
    action('cancel', {
      freesSpace: true,
      on: 'object',
      summary: 'Stops a running statement. One that has ended stays as it is.',
      permission: { privilege: 'operate', on: 'target', orSelf: true },
      codes: ['OBJECT_NOT_FOUND'],
      body: Type.Object({}, { additionalProperties: false }),
      result: QueryRecord,
      handle: async ({ path }, context) => {
        const queryId = path.queryId as string;
        await permitQuery('operate', queryId, context);
        const entry = await context.history.cancel(queryId, context.call.actor);
        if (!entry) throw missing(queryId);
        return done(whole(entry, context));
      },
    }),
    action('explain', {
      on: 'object',
      summary: 'Shows how the statement would be run now, with the rights of the caller. Runs nothing.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      codes: explainCodes,
      body: Type.Object({ parameters: Type.Optional(StatementParameters) }, { additionalProperties: false }),
      result: Plan,
      example: { body: {}, result: { plan: 'UNGROUPED_AGGREGATE ...' } },
      handle: async ({ path, body }, context) => {
        const queryId = path.queryId as string;
        await permitQuery('read', queryId, context);
        const entry = await context.history.get(queryId);
        if (!entry) throw missing(queryId);
        const { sql, catalog, database } = entry;
        if (sql.length >= sqlCharactersMax)
          throw new Failure('SQL_NOT_SUPPORTED', 'the text is too long: only its beginning is kept');
        const request: QueryRequest = {
          sql,
          parameters: body.parameters as QueryRequest['parameters'],
          numbers: 'number',
          catalog,
          database: database ?? undefined,
        };
        return done({ plan: await context.queries.explain(request, context.call) });
      },
    }),
    searchBy({
      category: 'queries',
      summary:
        'Finds statements by their text, times, sizes, errors and callers, the newest first; all that is given must fit.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      fields: soughtFields,
      record: QueryRecord,
      example: { state: 'failed', text: 'lineorder', from: '2026-01-31T00:00:00Z' },
      find: ({ from, to, ...sought }, { page }, context) => {
        const times = { submittedFrom: timeOf(from, '/from'), submittedBefore: timeOf(to, '/to') };
        return queriesPage(context, page, defined({ ...sought, ...times }));
      },
    }),
  ],
};
