// The audit trail: every change and every refusal. It is read here; nothing writes it but what it tells of.
import type { AuditEvent } from '../../access/audit/audit_log.ts';
import type { AuditFilter } from '../../access/audit/audit_reader.ts';
import { nullable } from '../../api/fields.ts';
import { stateField } from '../../api/states.ts';
import type { Category } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { type Static, type TObject, Type } from '../../standard/type.ts';
import { timeOf } from '../records/fields.ts';
import { action, type Context, done, found, get, list, segment } from '../records/handler_context.ts';
import { type Page, pageOf, searchBy } from '../records/search.ts';

const Timestamp = Type.String({ format: 'date-time' });
const EventRecord = Type.Object({
  eventId: Type.String(),
  at: Timestamp,
  action: Type.String({ description: 'The endpoint, such as `tables.create`.' }),
  outcome: Type.String({
    description: '`0` for success, the code of a failure, or `begun` for what an engine was then told to do.',
  }),
  principal: nullable(Type.String({ description: 'Name of the user, as it was; null where nobody was known.' })),
  principalId: nullable(Type.String()),
  requestId: nullable(Type.String()),
  address: nullable(Type.String()),
  target: nullable(Type.String({ description: 'Path of the request.' })),
  objectId: nullable(Type.String()),
  details: Type.Unknown(),
  serverId: Type.String(),
  sequence: Type.Integer({ description: 'Place in the chain of its server.' }),
  digest: Type.String({ description: 'Keyed digest of the line and of the one before.' }),
  state: stateField({ recorded: 'it is in the trail' }),
  createdAt: Timestamp,
  createdBy: Type.String(),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
  version: Type.Integer(),
  uri: Type.String(),
});

const example = {
  eventId: '019aa0b4-7c20-7a11-8c34-1e2d3c4b5a69',
  at: '2026-01-31T10:00:00.000Z',
  action: 'tables.create',
  outcome: '0',
  principal: 'ann',
  principalId: '019aa0b4-0000-7a11-8c34-1e2d3c4b5a69',
  requestId: '6a0f2f8e-6a41-4c25-9c5b-0e6b8a7d1c22',
  address: '10.0.0.7',
  target: '/api/v2/databases/ssb/tables',
  objectId: '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  details: null,
  serverId: '5d0f64f0-2f0a-4d43-b6a4-0c4d3f0c8f11',
  sequence: 42,
  digest: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  state: 'recorded',
  createdAt: '2026-01-31T10:00:00.000Z',
  createdBy: 'ann',
  updatedAt: '2026-01-31T10:00:00.000Z',
  updatedBy: 'ann',
  version: 1,
  uri: '/api/v2/audit_events/019aa0b4-7c20-7a11-8c34-1e2d3c4b5a69',
};

function record(event: AuditEvent, context: Context) {
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
    details: event.details === null ? null : (JSON.parse(event.details) as unknown),
    serverId: event.server_id,
    sequence: event.sequence,
    digest: event.digest,
    state: 'recorded',
    createdAt: at,
    createdBy: by,
    updatedAt: at,
    updatedBy: by,
    version: 1,
    uri: uriOf(context.call.version, [segment('audit_events', event.event_id)]),
  };
}

async function eventsPage(context: Context, page: Page, filter: AuditFilter) {
  const events = await context.auditReader.list({ ...filter, after: page.after, limit: page.limit + 1 });
  return pageOf(
    events,
    page,
    ({ event_id: id }) => id,
    (event) => record(event, context),
  );
}

const exact = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }));
const soughtFields = {
  principal: exact('Name of a user, as it was.'),
  action: exact('Such as `tables.create`.'),
  outcome: exact('`0`, `begun`, or a code.'),
  objectId: exact('Id of an object, as events have it.'),
  requestId: exact('Id of a request.'),
  target: Type.Optional(Type.String({ maxLength: 1024, description: 'A part of the path of the request.' })),
  from: Type.Optional(Timestamp),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Not included.' })),
};

function filterOf({ from, to, ...rest }: Static<TObject<typeof soughtFields>>) {
  return { ...rest, from: timeOf(from, '/from'), to: timeOf(to, '/to') };
}

export const auditEvents: Category<Context> = {
  name: 'audit_events',
  singular: 'audit_event',
  title: 'Audit events',
  doc: 'Every change and every refusal, in the order in which they were written down. Read only.',
  parameter: 'eventId',
  idField: 'eventId',
  record: EventRecord,
  example,
  endpoints: [
    list({
      summary: 'Lists audit events, the newest first.',
      permission: { privilege: 'read', on: 'parent' },
      handle: ({ page }, context) => eventsPage(context, page, {}),
    }),
    get({
      summary: 'Shows an audit event.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) => {
        const eventId = path.eventId as string;
        const event = await context.auditReader.find(eventId);
        if (!event) {
          const result = { category: 'audit_events', name: eventId };
          throw new Failure('OBJECT_NOT_FOUND', `there is no audit event ${JSON.stringify(eventId)}`, result);
        }
        return found(record(event, context));
      },
    }),
    searchBy({
      category: 'audit_events',
      summary: 'Finds audit events by who, what, where, when and how it ended, the newest first.',
      permission: { privilege: 'read', on: 'parent' },
      fields: soughtFields,
      record: EventRecord,
      example: { outcome: 'FORBIDDEN', from: '2026-01-31T00:00:00Z' },
      find: (sought, { page }, context) => eventsPage(context, page, filterOf(sought)),
    }),
    action('verify', {
      on: 'collection',
      summary: 'Goes over the whole trail, to see whether every line is there and as it was written.',
      description: 'The heads are worth keeping elsewhere: with them a cut end is found later.',
      permission: { privilege: 'read', on: 'parent' },
      cost: 1000,
      body: Type.Object({}, { additionalProperties: false }),
      result: Type.Object({
        eventCount: Type.Integer(),
        faults: Type.Array(
          Type.Object({
            serverId: Type.String(),
            sequence: Type.Integer(),
            fault: Type.String({
              description: '`missing`, `changed`, or `end`: it does not begin and end where it should.',
            }),
          }),
          { description: 'The first hundred.' },
        ),
        heads: Type.Array(Type.Object({ serverId: Type.String(), sequence: Type.Integer(), digest: Type.String() })),
      }),
      example: {
        body: {},
        result: {
          eventCount: 42,
          faults: [],
          heads: [{ serverId: example.serverId, sequence: 42, digest: example.digest }],
        },
      },
      handle: async (_input, context) => done(await context.auditReader.verify()),
    }),
  ],
};
