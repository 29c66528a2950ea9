// The handlers of `audit_events`, the audit trail of changes and refusals. It can only be read: events are written with the changes
// that they record.
import type { AuditEvent } from '../../access/audit/audit_log.ts';
import type { AuditFilter } from '../../access/audit/audit_reader.ts';
import { auditEventsApi, type filterFields } from '../../api/identity/audit_events.ts';
import { Failure } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import type { Static, TObject } from '../../standard/type.ts';
import { timeOf } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { type Page, pageOf } from '../records/list_page.ts';
import { done, found } from '../records/outcomes.ts';
import { idsOf, targetOf } from './grant_target.ts';

/** The id of no object. */
const noObject = '';

function record(event: AuditEvent, context: Context) {
  const details: unknown = event.details === null ? null : JSON.parse(event.details);
  const at = new Date(event.at).toISOString();
  const by = event.principal ?? 'nobody';
  return {
    eventId: event.event_id,
    at,
    action: event.action,
    outcome: event.outcome,
    principal: event.principal,
    principalId: event.principal_id,
    requestId: event.request_id,
    address: event.address,
    target: event.target,
    objectId: event.object_id,
    details,
    serverId: event.server_id,
    sequence: event.sequence,
    digest: event.digest,
    state: 'recorded' as const,
    createdAt: at,
    createdBy: by,
    updatedAt: at,
    updatedBy: by,
    version: 1,
    uri: uriOf(context.call.version, [segment('audit_events', event.event_id)]),
  };
}

async function eventsPage(context: Context, page: Page, filter: AuditFilter) {
  const read = (after: string | undefined, limit: number) => context.auditReader.list({ ...filter, after, limit });
  return pageOf(page, 'event_id', read, (event) => record(event, context));
}

async function filterOf({ from, to, object, ...rest }: Static<TObject<typeof filterFields>>, context: Context) {
  const times = { from: timeOf(from, '/from'), to: timeOf(to, '/to') };
  if (object === undefined) return { ...rest, ...times };
  const objectId = (await idsOf(targetOf(object, '/object'), context))?.at(-1) ?? noObject;
  return { ...rest, objectId, ...times };
}

export const auditEvents = implement(auditEventsApi, {
  list: ({ page }, context) => eventsPage(context, page, {}),
  get: async ({ path: { eventId } }, context) => {
    const event = await context.auditReader.find(eventId);
    if (!event) {
      const result = { category: 'audit_events', name: eventId };
      throw new Failure('OBJECT_NOT_FOUND', `there is no audit event ${JSON.stringify(eventId)}`, result);
    }
    return found(record(event, context));
  },
  search: async ({ body: { pageSize: _size, pageToken: _token, ...filter }, page }, context) =>
    eventsPage(context, page, await filterOf(filter, context)),
  verify: async (_input, context) => done(await context.auditReader.verify()),
});
