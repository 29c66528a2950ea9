// Uploads: files that callers send, for loads to read. The bytes themselves go to the link of the record (http/files.ts).

import { nullable, searchFields } from '../../api/fields.ts';
import { stateField } from '../../api/states.ts';
import { basisOfUpload, type StoredFile } from '../../files/file_store.ts';
import { fileNotFound } from '../../files/parts.ts';
import { dayMs } from '../../model/durations.ts';
import type { Category } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { basisOf } from '../../standard/record_version.ts';
import { Type } from '../../standard/type.ts';
import { defined, invalid } from '../records/fields.ts';
import {
  type Context,
  create,
  created,
  deleted,
  found,
  get,
  list,
  listed,
  remove,
  requireOnCollection,
  segment,
} from '../records/handler_context.ts';
import { type Page, searchBy } from '../records/search.ts';

/** An upload is kept so long. */
const uploadLifetimeMs = dayMs;
const nameCharactersMax = 255;

const Timestamp = Type.String({ format: 'date-time' });
const uuid = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
const UploadId = Type.String({
  pattern: uuid,
  description: 'A UUID in lower case, of which the client makes sure that it is new; without it the service makes one.',
});
const isUuid = new RegExp(uuid);
const Name = Type.String({
  minLength: 1,
  maxLength: nameCharactersMax,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  description: 'What the file is called; its ending says what is in it, where a load is not told.',
});
const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256 of the whole file, in hexadecimal.' });

const UploadRecord = Type.Object({
  uploadId: Type.String(),
  name: Name,
  state: stateField({ receiving: 'bytes are still missing', ready: 'all bytes are here' }),
  bytes: nullable(Bytes),
  receivedBytes: Type.Integer({ description: 'How many bytes are on the disk for good: from there it goes on.' }),
  sha256: nullable(Sha256),
  link: Type.Optional(
    Type.String({
      description:
        'Where the bytes are to be sent by `PUT`, and once it is ready where they are read by `GET`; for an hour.',
    }),
  ),
  expiresAt: Timestamp,
  createdAt: Timestamp,
  createdBy: Type.String(),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
  version: Type.Integer(),
  uri: Type.String(),
});

const time = (ms: number) => new Date(ms).toISOString();

function record(file: StoredFile, context: Context) {
  const { fileId, name, state, bytes, receivedBytes, sha256, createdBy } = file;
  const basis = basisOfUpload(file);
  return {
    uploadId: fileId,
    name,
    state,
    bytes,
    receivedBytes,
    sha256,
    link: context.files.link(file, state === 'ready' ? 'read' : 'write'),
    expiresAt: time(file.expiresAt),
    createdAt: time(file.createdAt),
    createdBy,
    updatedAt: time(file.updatedAt),
    updatedBy: createdBy,
    version: basis.version,
    uri: uriOf(context.call.version, [segment('uploads', fileId)]),
    [basisOf]: basis,
  };
}

/** An upload is its user's, and of who owns that user. Throws FORBIDDEN, whether it is there or not. */
export async function permittedUpload(uploadId: string, context: Context): Promise<StoredFile | undefined> {
  const { access, call, files } = context;
  const { principal } = call;
  const found = await files.find(uploadId);
  const file = found?.kind === 'upload' ? found : undefined;
  const isOwn =
    file !== undefined &&
    access.authorizer.isSubmitter(principal, {
      id: file.owner,
      name: file.createdBy,
      ...defined({ scopes: file.scopes }),
    });
  const user = file && context.directory.users.get(file.owner);
  // Asked of nothing too: how much is done for a refusal does not tell whether the upload is there.
  const at = { category: 'users', path: [segment('users', user?.name ?? '')] };
  const ownsUser = !isOwn && (await access.authorizer.isAllowed(principal, 'own', at)) && user !== undefined;
  if (!isOwn && !ownsUser) await requireOnCollection('own', 'uploads', context);
  call.permitted = true;
  return file;
}

async function uploadsPage(
  { after, limit }: Page,
  sought: { readonly namePattern?: string | undefined; readonly state?: StoredFile['state'] | undefined },
  context: Context,
) {
  const { reach, principal } = context.call;
  const owner = reach === 'within' ? principal.id : undefined;
  const files = await context.files.list({ kind: 'upload', owner, after, limit: limit + 1, ...sought });
  const page = files.slice(0, limit);
  // A token that is confined is shown what it, or one like it, has made.
  const mine = page.filter(
    (file) => owner === undefined || principal.scopes === undefined || isSameScopes(file, principal.scopes),
  );
  return listed(
    mine.map((file) => record(file, context)),
    files.length > limit ? page.at(-1)?.fileId : undefined,
  );
}

export const uploads: Category<Context> = {
  name: 'uploads',
  singular: 'upload',
  title: 'Uploads',
  doc: 'Files that are sent to be loaded: the bytes go to the `link` of the record. They are kept for a day.',
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
  endpoints: [
    list({
      summary: 'Lists uploads by their id; ids that the service makes are in the order in which they were made.',
      description: 'Those of the caller, or all, to who owns all uploads.',
      permission: { privilege: 'own', on: 'parent', orWithin: true },
      handle: ({ page }, context) => uploadsPage(page, {}, context),
    }),
    get({
      summary: 'Shows an upload, with a link that is good for an hour.',
      permission: { privilege: 'own', on: 'target', orSelf: true },
      handle: async ({ path }, context) => {
        const uploadId = path.uploadId as string;
        const file = await permittedUpload(uploadId, context);
        if (!file) throw fileNotFound(uploadId);
        return found(record(file, context));
      },
    }),
    create({
      summary: 'Begins an upload. Its bytes are then sent to `link` by `PUT`.',
      description:
        'One `PUT` takes all bytes, or each of several a part of them by `Content-Range`; `Content-Digest` is checked. One that broke off goes on from `receivedBytes`.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['FILE_QUOTA_EXCEEDED', 'BODY_TOO_LARGE', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'],
      nameField: 'uploadId',
      nameOptional: true,
      secretFields: ['link'],
      body: Type.Object(
        {
          uploadId: Type.Optional(UploadId),
          name: Type.Optional(Name),
          bytes: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: Number.MAX_SAFE_INTEGER,
              description: 'How many will be sent; there is room for them then.',
            }),
          ),
          sha256: Type.Optional(Sha256),
        },
        { additionalProperties: false },
      ),
      example: { body: { name: 'flights.csv.gz', bytes: 1048576 } },
      handle: async ({ body, ifExists }, context) => {
        const { principal, actor } = context.call;
        const { uploadId, name = 'upload', bytes, sha256 } = body;
        if (uploadId !== undefined && !isUuid.test(uploadId))
          throw invalid('/uploadId', 'pattern', 'must be a UUID in lower case');
        const { file, created: isNew } = await context.files.create(
          {
            fileId: uploadId,
            kind: 'upload',
            owner: principal.id,
            createdBy: principal.name,
            scopes: principal.scopes,
            name,
            bytes,
            sha256,
            expiresInMs: uploadLifetimeMs,
          },
          actor,
        );
        // One of the caller's that is there is returned to PUT; of another's, or a file of another kind, nothing is shown.
        const isReturned = isNew || ((await permittedUpload(file.fileId, context)) && ifExists === 'return');
        if (!isReturned) throw alreadyExists(file.fileId);
        const shown = record(file, context);
        return created(shown, isNew, shown.uri);
      },
    }),
    remove({
      summary: 'Deletes an upload and what came of it.',
      permission: { privilege: 'own', on: 'target', orSelf: true },
      handle: async ({ path }, context) => {
        const file = await permittedUpload(path.uploadId as string, context);
        return deleted(file ? await context.files.remove(file.fileId, context.call.actor) : false);
      },
    }),
    searchBy({
      category: 'uploads',
      summary: 'Finds uploads by the pattern of their name and by state.',
      permission: { privilege: 'own', on: 'parent', orWithin: true },
      fields: {
        namePattern: searchFields.namePattern,
        state: Type.Optional(Type.Union([Type.Literal('receiving'), Type.Literal('ready')])),
      },
      record: UploadRecord,
      example: { namePattern: '%.csv', state: 'ready' },
      find: (sought, { page }, context) => uploadsPage(page, sought, context),
    }),
  ],
};

function alreadyExists(uploadId: string): Failure {
  return new Failure('OBJECT_ALREADY_EXISTS', `there is a file ${JSON.stringify(uploadId)}`, {
    category: 'uploads',
    name: uploadId,
  });
}

function isSameScopes(file: StoredFile, scopes: unknown): boolean {
  return JSON.stringify(file.scopes) === JSON.stringify(scopes);
}
