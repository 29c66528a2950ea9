// The handlers of `uploads`: files that callers send for loads. Their bytes are sent to the link in the record (http/files.ts).
import { uploadsApi, uuid } from '../../api/transfer/uploads.ts';
import { type StoredFile, versionOfUpload } from '../../files/file_rows.ts';
import { fileNotFound } from '../../files/parts.ts';
import { dayMs } from '../../model/durations.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { objectVersion } from '../../standard/record_version.ts';
import { defined } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { type Page, pageOf } from '../records/list_page.ts';
import { created, deleted, found } from '../records/outcomes.ts';
import { requireOnCollection } from '../records/permissions.ts';
import { searchWith } from '../records/search.ts';

/** How long an upload is stored. */
const uploadLifetimeMs = dayMs;

const isUuid = new RegExp(uuid);

const time = (ms: number) => new Date(ms).toISOString();

function record(file: StoredFile, context: Context) {
  const { fileId, name, state, bytes, receivedBytes, sha256, createdBy } = file;
  const version = versionOfUpload(file);
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
    version: version.version,
    uri: uriOf(context.call.version, [segment('uploads', fileId)]),
    [objectVersion]: version,
  };
}

/** An upload belongs to its user and to the owner of that user. Throws FORBIDDEN whether or not the upload exists. */
async function permittedUpload(uploadId: string, context: Context): Promise<StoredFile | undefined> {
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
  // Also evaluated for a missing upload, so that the duration of a refusal does not reveal whether it exists.
  const userTarget = { category: 'users', path: [segment('users', user?.name ?? '')] };
  const ownsUser = !isOwn && (await access.authorizer.isAllowed(principal, 'own', userTarget)) && user !== undefined;
  if (!isOwn && !ownsUser) await requireOnCollection('own', 'uploads', context);
  call.permitted = true;
  return file;
}

async function uploadsPage(
  page: Page,
  filter: { readonly namePattern?: string | undefined; readonly state?: StoredFile['state'] | undefined },
  context: Context,
) {
  const { reach, principal } = context.call;
  const owner = reach === 'within' ? principal.id : undefined;
  // A token with scopes sees only uploads created with the same scopes.
  const isSeen = (file: StoredFile) =>
    owner === undefined || principal.scopes === undefined || isSameScopes(file, principal.scopes);
  const read = (after: string | undefined, limit: number) =>
    context.files.list({ kind: 'upload', owner, after, limit, ...filter });
  return pageOf(page, 'fileId', read, (file) => (isSeen(file) ? record(file, context) : undefined));
}

function alreadyExists(uploadId: string): Failure {
  return new Failure('OBJECT_ALREADY_EXISTS', `a file with the id ${JSON.stringify(uploadId)} already exists`, {
    category: 'uploads',
    name: uploadId,
  });
}

function isSameScopes(file: StoredFile, scopes: unknown): boolean {
  return JSON.stringify(file.scopes) === JSON.stringify(scopes);
}

export const uploads = implement(uploadsApi, {
  list: ({ page }, context) => uploadsPage(page, {}, context),
  get: async ({ path: { uploadId } }, context) => {
    const file = await permittedUpload(uploadId, context);
    if (!file) throw fileNotFound(uploadId);
    return found(record(file, context));
  },
  create: async ({ body, ifExists }, context) => {
    const { principal, actor } = context.call;
    const { uploadId, name = 'upload', bytes, sha256 } = body;
    if (uploadId !== undefined && !isUuid.test(uploadId))
      throw invalidParameter('/uploadId', 'pattern', 'must be a UUID in lower case');
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
    // PUT returns an existing upload of the caller; nothing is revealed about uploads of others or files of other kinds.
    const isReturned = isNew || ((await permittedUpload(file.fileId, context)) && ifExists === 'return');
    if (!isReturned) throw alreadyExists(file.fileId);
    return created(record(file, context), isNew);
  },
  delete: async ({ path }, context) => {
    const file = await permittedUpload(path.uploadId, context);
    return deleted(file ? await context.files.remove(file.fileId, context.call.actor) : false);
  },
  search: searchWith((filter, { page }, context) => uploadsPage(page, filter, context)),
});
