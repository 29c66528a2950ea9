// The handlers of `queries`: the history of statements, including running ones.
import { queriesApi } from '../../api/queries/queries.ts';
import type { Principal } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import { type QueryEntry, versionOfQuery } from '../../query/statements/history_entry.ts';
import { sqlCharactersMax } from '../../query/statements/history_rows.ts';
import type { QueryFilter } from '../../query/statements/history_search.ts';
import type { QueryRequest } from '../../query/statements/queries.ts';
import { Failure, objectNotFound } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { objectVersion } from '../../standard/record_version.ts';
import { defined, timeOf } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { type Page, pageOf } from '../records/list_page.ts';
import { deleted, done, found } from '../records/outcomes.ts';
import { requireOnCollection } from '../records/permissions.ts';
import { searchWith } from '../records/search.ts';

const time = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());

function record(entry: QueryEntry, context: Context) {
  const { queryId, sql, kind, state, warehouse, catalog, database, elapsedMs, queuedMs, rowCount, resultBytes } = entry;
  const submittedAt = new Date(entry.submittedAt).toISOString();
  const version = versionOfQuery(entry);
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
    queuePosition: context.history.queuePositionOf(entry),
    rowCount,
    resultBytes,
    error: entry.errorCode === null ? null : { code: entry.errorCode, message: entry.errorMessage ?? '' },
    task: entry.taskId === null ? null : uriOf(context.call.version, [segment('tasks', entry.taskId)]),
    createdAt: submittedAt,
    createdBy: entry.submittedBy,
    updatedAt: time(entry.endedAt ?? entry.startedAt) ?? submittedAt,
    updatedBy: entry.submittedBy,
    version: version.version,
    uri: uriOf(context.call.version, [segment('queries', queryId)]),
    [objectVersion]: version,
  };
}

const completeRecord = (entry: QueryEntry, context: Context) => ({ ...record(entry, context), plan: entry.plan });

function missing(queryId: string): Failure {
  return objectNotFound('queries', queryId, `there is no query ${JSON.stringify(queryId)}`);
}

/**
 * A statement belongs to its submitter; others need the privilege on all statements. Throws FORBIDDEN whether or not the statement
 * exists.
 */
async function permitQuery(privilege: Privilege, queryId: string, context: Context): Promise<void> {
  const entry = await context.history.get(queryId);
  const { call } = context;
  if (!entry || entry.owner !== ownHistory(call.principal, context))
    await requireOnCollection(privilege, 'queries', context);
  call.permitted = true;
}

/** The owner whose history the caller may see without a privilege. Tokens with scopes do not see the texts of their user's statements. */
function ownHistory({ id, scopes }: Principal, context: Context): string {
  return scopes === undefined && context.directory.users.has(id) ? id : 'nobody';
}

async function queriesPage(context: Context, page: Page, filter: QueryFilter) {
  const { reach, principal } = context.call;
  const owner = reach === 'within' ? ownHistory(principal, context) : undefined;
  const read = (after: string | undefined, limit: number) => context.history.list({ ...filter, owner, after, limit });
  return pageOf(page, 'queryId', read, (entry) => record(entry, context));
}

export const queries = implement(queriesApi, {
  list: ({ page }, context) => queriesPage(context, page, {}),
  get: async ({ path: { queryId } }, context) => {
    await permitQuery('read', queryId, context);
    const entry = await context.history.get(queryId);
    if (!entry) throw missing(queryId);
    return found(completeRecord(entry, context));
  },
  delete: async ({ path: { queryId } }, context) => {
    await permitQuery('drop', queryId, context);
    return deleted(await context.history.remove(queryId, context.call.actor));
  },
  cancel: async ({ path: { queryId } }, context) => {
    await permitQuery('operate', queryId, context);
    const entry = await context.history.cancel(queryId, context.call.actor);
    if (!entry) throw missing(queryId);
    return done(completeRecord(entry, context));
  },
  explain: async ({ path: { queryId }, body: { parameters } }, context) => {
    await permitQuery('read', queryId, context);
    const entry = await context.history.get(queryId);
    if (!entry) throw missing(queryId);
    const { sql, catalog, database } = entry;
    if (sql.length >= sqlCharactersMax)
      throw new Failure('SQL_NOT_SUPPORTED', 'the text is too long: only its beginning is stored');
    const request: QueryRequest = {
      sql,
      parameters,
      numbers: 'number',
      catalog,
      database: database ?? undefined,
    };
    return done({ plan: await context.queries.explain(request, context.call) });
  },
  search: searchWith(({ from, to, ...filter }, { page }, context) => {
    const times = { submittedFrom: timeOf(from, '/from'), submittedBefore: timeOf(to, '/to') };
    return queriesPage(context, page, defined({ ...filter, ...times }));
  }),
});
