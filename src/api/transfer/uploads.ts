// The declaration of `uploads`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { category, create, get, list, remove } from '../declare.ts';
import { nullable, recordFields, searchFields, Timestamp } from '../fields.ts';
import { searchBy } from '../search.ts';
import { stateField } from '../states.ts';

const nameCharactersMax = 255;

export const uuid = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';

const UploadId = Type.String({
  pattern: uuid,
  description: 'A new UUID in lower case, chosen by the client; by default the service generates one.',
});

const Name = Type.String({
  minLength: 1,
  maxLength: nameCharactersMax,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  description: 'The name of the file. Its extension determines the format of a load that does not state one.',
});

const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256 of the whole file, in hexadecimal.' });

const UploadRecord = Type.Object({
  uploadId: Type.String(),
  name: Name,
  state: stateField({ receiving: 'some bytes have not been received', ready: 'all bytes were received' }),
  bytes: nullable(Bytes),
  receivedBytes: Type.Integer({
    description: 'The number of bytes that are durably stored. An interrupted upload continues at this offset.',
  }),
  sha256: nullable(Sha256),
  link: Type.Optional(
    Type.String({
      description:
        'The link to which the bytes are sent by `PUT`, and from which they are read by `GET` once it is ready; valid for an hour.',
    }),
  ),
  expiresAt: Timestamp,
  ...recordFields,
});

export const uploadsApi = category({
  name: 'uploads',
  singular: 'upload',
  title: 'Uploads',
  doc: 'Files for loads: the caller sends their bytes to the `link` of the record. They are stored for a day.',
  parameter: 'uploadId',
  idField: 'uploadId',
  record: UploadRecord,
  example: {
    uploadId: '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
    name: 'flights.csv.gz',
    state: 'receiving',
    bytes: 1048576,
    receivedBytes: 0,
    sha256: null,
    link: '/files/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d?expires=1769857200&signature=Yr8mDgW4Qw1b0uXzv2h1m3n4o5p6q7r8s9t0u1v2w3x',
    expiresAt: '2026-02-01T10:00:00.000Z',
    createdAt: '2026-01-31T10:00:00.000Z',
    createdBy: 'ann',
    updatedAt: '2026-01-31T10:00:00.000Z',
    updatedBy: 'ann',
    version: 1,
    uri: '/api/v2/uploads/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  },
  endpoints: {
    list: list({
      summary: 'Lists uploads by id; ids that the service generates are in the order of creation.',
      description: 'Lists the uploads of the caller, or all uploads if the caller has `own` on them.',
      permission: { privilege: 'own', on: 'parent', orWithin: true },
    }),
    get: get({
      summary: 'Returns an upload, with a link that is valid for an hour.',
      permission: { privilege: 'own', on: 'target', orSelf: true },
    }),
    create: create({
      summary: 'Begins an upload. Its bytes are then sent to `link` by `PUT`.',
      description:
        'Send all bytes in one `PUT`, or parts of them in several, with `Content-Range`; `Content-Digest` is checked. An interrupted upload continues at `receivedBytes`.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['FILE_QUOTA_EXCEEDED', 'BODY_TOO_LARGE', 'CHANGE_IN_PROGRESS'],
      nameField: 'uploadId',
      nameOptional: true,
      secretFields: ['link'],
      body: strictObject({
        uploadId: Type.Optional(UploadId),
        name: Type.Optional(Name),
        bytes: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: Number.MAX_SAFE_INTEGER,
            description: 'The announced size, for which space is reserved.',
          }),
        ),
        sha256: Type.Optional(Sha256),
      }),
      example: { body: { name: 'flights.csv.gz', bytes: 1048576 } },
    }),
    delete: remove({
      summary: 'Deletes an upload and its bytes.',
      permission: { privilege: 'own', on: 'target', orSelf: true },
    }),
    search: searchBy({
      category: 'uploads',
      summary: 'Finds uploads by name pattern and state.',
      permission: { privilege: 'own', on: 'parent', orWithin: true },
      fields: {
        namePattern: searchFields.namePattern,
        state: Type.Optional(Type.Union([Type.Literal('receiving'), Type.Literal('ready')])),
      },
      record: UploadRecord,
      example: { namePattern: '%.csv', state: 'ready' },
    }),
  },
});
