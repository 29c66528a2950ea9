// The declaration of `drafts`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { category, create, get, list, remove, update } from '../declare.ts';
import { describedBody, exampleFields, PropertiesField, recordFields } from '../fields.ts';
import { ready, readyState } from '../states.ts';
import { uuid } from '../transfer/uploads.ts';
import { queryChange, queryExample, queryFields } from './query_fields.ts';

const Title = Type.String({ maxLength: 128, description: 'A title, which need not be unique.' });

const DraftId = Type.String({
  pattern: uuid,
  description: 'A new UUID in lower case, chosen by the client; by default the service generates one.',
});

const DraftRecord = Type.Object({
  draftId: Type.String(),
  name: Title,
  ...queryFields,
  properties: PropertiesField,
  ...readyState,
  ...recordFields,
});

const change = { name: Type.Optional(Title), ...queryChange, properties: describedBody.properties };

const exampleId = '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d';

/** Nobody but their user has access to them. */
const permission = { privilege: 'own', on: 'caller' } as const;

export const draftsApi = category({
  name: 'drafts',
  singular: 'draft',
  title: 'Drafts',
  doc: 'The texts of open editors. Drafts are private: no privilege gives access to those of other users. Deleting a user deletes its drafts.',
  parameter: 'draftId',
  idField: 'draftId',
  record: DraftRecord,
  example: {
    draftId: exampleId,
    name: 'Revenue',
    ...queryExample,
    properties: {},
    ...ready,
    ...exampleFields(`/api/v2/drafts/${exampleId}`),
  },
  endpoints: {
    list: list({ summary: 'Lists the drafts of the caller by id.', permission }),
    get: get({ summary: 'Shows a draft.', permission }),
    create: create({
      summary: 'Creates a draft.',
      permission,
      codes: ['DRAFT_QUOTA_EXCEEDED', 'CHANGE_IN_PROGRESS'],
      nameField: 'draftId',
      nameOptional: true,
      body: strictObject({ draftId: Type.Optional(DraftId), ...change }),
      example: { body: { name: 'Revenue', sql: queryExample.sql, database: 'ssb' } },
      cost: 5,
    }),
    update: update({
      summary: 'Saves a draft.',
      description:
        'With `If-Match`, a text that was saved elsewhere in the meantime is not overwritten. Earlier texts remain available as versions.',
      permission,
      codes: ['DRAFT_QUOTA_EXCEEDED', 'CHANGE_IN_PROGRESS'],
      body: strictObject(change),
      example: { body: { sql: 'SELECT count(*) FROM lineorder' } },
      cost: 5,
    }),
    delete: remove({
      summary: 'Deletes a draft and its versions.',
      permission,
      codes: ['CHANGE_IN_PROGRESS'],
    }),
  },
});
