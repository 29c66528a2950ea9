// `If-Match` of tokens, grants, tasks, statements and uploads was checked before the transaction that deletes or cancels them: an object
// that another request created or changed in between was deleted or cancelled too. Here the state changes after the check.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { noTrail } from '../../../src/access/audit/audit_log.ts';
import { Tokens, versionOfToken } from '../../../src/access/authentication/tokens.ts';
import { Directory } from '../../../src/access/authorization/directory.ts';
import { Grants, versionOfGrant } from '../../../src/access/authorization/grants.ts';
import { BlobPlaces } from '../../../src/files/blobs/blob_places.ts';
import { DirectoryBlobs } from '../../../src/files/blobs/directory_blobs.ts';
import { versionOfUpload } from '../../../src/files/file_rows.ts';
import { FileStore } from '../../../src/files/file_store.ts';
import type { Actor, ObjectVersion } from '../../../src/model/principal.ts';
import { QueryHistory } from '../../../src/query/statements/history.ts';
import { type QueryEntry, versionOfQuery } from '../../../src/query/statements/history_entry.ts';
import { ObjectChanged } from '../../../src/standard/expected_version.ts';
import { ChangeFeed } from '../../../src/store/changes/change_feed.ts';
import type { Store } from '../../../src/store/store.ts';
import { versionOfTask } from '../../../src/tasks/task.ts';
import { Tasks } from '../../../src/tasks/tasks.ts';
import { deadlineMs } from '../../deadline.ts';
import { storesOf } from '../../stores.ts';

const root = mkdtempSync(join(tmpdir(), 'tabularium-conditions-'));
let store: Store;
let changes: ChangeFeed;
before(async () => {
  ({ store } = await storesOf(import.meta.url).open());
  changes = await ChangeFeed.open({ store, serverId: 'test', observe });
  const object = { name: 'ann', folded_name: 'ann', state: 'ready', state_reason: null, spec: '{}' } as const;
  const times = { created_at: 1, created_by: '', updated_at: 1, updated_by: '' };
  const row = { id: 'u', category: 'users', parent_id: null, folded_comment: null, owner: 'u', version: 1 };
  await store.db
    .insertInto('objects')
    .values({ ...row, ...object, ...times })
    .execute();
});
after(async () => {
  await store.close();
  rmSync(root, { recursive: true });
});

const user = { id: 'u', name: 'ann' };
/** A request that found the object in this state. */
const actorExpecting = (version: ObjectVersion): Actor => ({ ...user, expectedVersion: version });
const actorOfNoObject = (version: ObjectVersion): Actor => actorExpecting({ ...version, objectId: '', version: 0 });
const observe = () => undefined;

test('a token that was deleted and created again is not revoked', async () => {
  const tokens = new Tokens({ store, changes, directory: new Directory(), trail: noTrail, observe });
  const createToken = async () =>
    (await tokens.create({ userId: 'u', name: 'nightly', scopes: undefined, expiresAt: undefined }, user)).row;
  const first = await createToken();
  assert.equal(await tokens.remove(first, user), true);
  const second = await createToken();
  await assert.rejects(tokens.remove(second, actorExpecting(versionOfToken(first))), ObjectChanged);
  await assert.rejects(tokens.remove(second, actorOfNoObject(versionOfToken(first))), ObjectChanged);
  assert.equal((await tokens.find('u', 'nightly'))?.token_id, second.token_id);
  assert.equal(await tokens.remove(second, actorExpecting(versionOfToken(second))), true);
});

test('a grant that was revoked and created again is not revoked', async () => {
  let now = 1;
  const grants = new Grants({ store, changes, trail: noTrail, clock: () => now++ });
  const createTask = async () => {
    const grant = await grants.create('u', 'read', ['/'], user);
    assert.equal(grant?.created, true);
    return grant.grant;
  };
  const first = await createTask();
  assert.equal(await grants.remove(first, user), true);
  const second = await createTask();
  // The directory that the request used may be slightly outdated.
  await assert.rejects(grants.remove(first, actorExpecting(versionOfGrant(first))), ObjectChanged);
  assert.equal(await grants.remove(second, actorExpecting(versionOfGrant(second))), true);
  assert.equal(await grants.remove(second, actorExpecting(versionOfGrant(second))), false);
});

test('a task that has begun meanwhile is not cancelled', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const kinds = [{ type: 'work', attemptsMax: 1, run: () => promise }];
  const tasks = new Tasks({ store, kinds, runnersMax: 1, retentionDays: 1, observe });
  t.after(() => tasks.stop(600));
  const pending = await tasks.submit({ type: 'work', principal: user, target: '/api/v2/x', request: {} });
  await tasks.start();
  while ((await tasks.get(pending.taskId))?.state !== 'running') await new Promise((resolve) => setTimeout(resolve, 5));
  await assert.rejects(tasks.cancel(pending.taskId, actorExpecting(versionOfTask(pending))), ObjectChanged);
  await assert.rejects(tasks.remove(pending.taskId, actorExpecting(versionOfTask(pending))), ObjectChanged);
  assert.equal((await tasks.get(pending.taskId))?.state, 'running');
  resolve();
  const ended = await tasks.wait(pending.taskId, deadlineMs(5000));
  assert.equal(ended?.state, 'succeeded');
  assert.equal(await tasks.remove(pending.taskId, actorExpecting(versionOfTask(ended))), true);
});

test('a statement that has ended meanwhile is neither cancelled nor deleted', async () => {
  const history = new QueryHistory({ db: store.db, entriesMax: 10, observe });
  const entry = { queryId: 'q', sql: 'SELECT 1', state: 'running', startedAt: 1, submittedAt: 1, endedAt: null };
  const rest = { kind: 'select', warehouse: 'w', catalog: 'c', database: null, submittedBy: 'ann', owner: 'u' };
  const noStatistics = { elapsedMs: null, queuedMs: null, rowCount: null, resultBytes: null, errorCode: null };
  const running = { ...entry, ...rest, ...noStatistics, errorMessage: null, taskId: null, plan: null } as QueryEntry;
  let isCancelled = false;
  history.begin(running, () => {
    isCancelled = true;
  });
  const queued = { ...running, startedAt: null };
  await assert.rejects(history.cancel('q', actorExpecting(versionOfQuery(queued))), ObjectChanged);
  await assert.rejects(history.remove('q', actorExpecting(versionOfQuery(queued))), ObjectChanged);
  history.end('q', { state: 'succeeded', endedAt: 2 });
  await assert.rejects(history.cancel('q', actorExpecting(versionOfQuery(running))), ObjectChanged);
  await assert.rejects(history.remove('q', actorExpecting(versionOfQuery(running))), ObjectChanged);
  assert.equal(isCancelled, false);
  const ended = await history.get('q');
  assert.ok(ended);
  assert.equal(await history.remove('q', actorExpecting(versionOfQuery(ended))), true);
});

test('an upload that was completed or replaced meanwhile is not deleted', async () => {
  let now = 1_800_000_000_000;
  const limits = { principalFileBytesMax: 1000, uploadBytesMax: 1000 };
  const linkKey = Buffer.alloc(32);
  const blobs = new BlobPlaces(new DirectoryBlobs(join(root, 'files')), undefined);
  await blobs.directory.create();
  const mayUse = () => true;
  const files = new FileStore({
    store,
    blobs,
    linkKey,
    limits,
    trail: noTrail,
    isLinkAllowed: mayUse,
    clock: () => now++,
  });
  await files.start();
  const fileId = '0f4b2d9e-7c1e-4d3a-9c55-0f6c1a2b3c4d';
  const createUpload = async () =>
    (await files.create({ fileId, kind: 'upload', owner: 'u', name: 'a.csv', expiresInMs: 86_400_000 })).file;
  const first = await createUpload();
  const content = async function* () {
    yield Buffer.from('abc');
  };
  const complete = await files.append(fileId, content(), { offset: 0, total: 3 });
  assert.equal(complete.state, 'ready');
  await assert.rejects(files.remove(fileId, actorExpecting(versionOfUpload(first))), ObjectChanged);
  assert.equal(await files.remove(fileId, actorExpecting(versionOfUpload(complete))), true);
  const second = await createUpload();
  await assert.rejects(files.remove(fileId, actorExpecting(versionOfUpload(first))), ObjectChanged);
  assert.equal(await files.remove(fileId, actorExpecting(versionOfUpload(second))), true);
  await files.stop();
});
