// The declaration of `audit_events`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, get, list } from '../declare.ts';
import { nullable, recordFields, Timestamp } from '../fields.ts';
import { searchBy } from '../search.ts';
import { stateField } from '../states.ts';

const EventRecord = Type.Object({
  eventId: Type.String(),
  at: Timestamp,
  action: Type.String({ description: 'The endpoint, such as `tables.create`.' }),
  outcome: Type.String({
    description: '`0` for success, the code of a failure, or `begun` for a statement that was then sent to an engine.',
  }),
  principal: nullable(Type.String({ description: 'The name of the user at that time; null if unauthenticated.' })),
  principalId: nullable(Type.String()),
  requestId: nullable(Type.String()),
  address: nullable(Type.String()),
  target: nullable(Type.String({ description: 'The path of the request.' })),
  objectId: nullable(Type.String()),
  details: Type.Unknown(),
  serverId: Type.String(),
  sequence: Type.Integer({ description: 'The position in the chain of its server.' }),
  digest: Type.String({ description: 'The keyed digest of the event and of the previous one.' }),
  state: stateField({ recorded: 'the event is in the trail' }),
  ...recordFields,
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

const exact = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }));

export const filterFields = {
  principal: exact('The name of the user at the time of the event.'),
  action: exact('Such as `tables.create`.'),
  outcome: exact('`0`, `begun`, or a code.'),
  objectId: exact('The id of an object, as in `objectId` of an event.'),
  object: Type.Optional(
    Type.String({ minLength: 1, maxLength: 4096, description: 'The URI of an existing object, instead of its id.' }),
  ),
  requestId: exact('The id of a request.'),
  target: Type.Optional(Type.String({ maxLength: 1024, description: 'A substring of the path of the request.' })),
  from: Type.Optional(Timestamp),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Not included.' })),
};

export const auditEventsApi = category({
  name: 'audit_events',
  singular: 'audit_event',
  title: 'Audit events',
  doc: 'Every change and every refusal, in the order in which they were recorded. Read-only.',
  parameter: 'eventId',
  idField: 'eventId',
  record: EventRecord,
  example,
  endpoints: {
    list: list({
      summary: 'Lists audit events, the newest first.',
      permission: { privilege: 'read', on: 'parent' },
    }),
    get: get({
      summary: 'Shows an audit event.',
      permission: { privilege: 'read', on: 'object' },
    }),
    search: searchBy({
      category: 'audit_events',
      summary: 'Finds audit events by user, action, object, request, time and outcome, the newest first.',
      permission: { privilege: 'read', on: 'parent' },
      fields: filterFields,
      record: EventRecord,
      example: { outcome: 'FORBIDDEN', from: '2026-01-31T00:00:00Z' },
    }),
    verify: action('collection', {
      summary: 'Verifies that no event of the trail is missing or changed.',
      description: 'Store the returned `heads` elsewhere: comparing them later detects a truncated chain.',
      permission: { privilege: 'read', on: 'parent' },
      cost: 1000,
      body: strictObject({}),
      result: Type.Object({
        eventCount: Type.Integer(),
        faults: Type.Array(
          Type.Object({
            serverId: Type.String(),
            sequence: Type.Integer(),
            fault: Type.String({
              description: '`missing`, `changed`, or `end`: the chain does not begin or end at the recorded position.',
            }),
          }),
          { description: 'At most the first 100.' },
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
    }),
  },
});
