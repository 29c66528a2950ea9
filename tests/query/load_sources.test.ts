// Uploads as sources of loads, with a real file store: what a failure leaves in the directory for temporary files, which is nothing.
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { noTrail } from '../../src/access/audit/audit_log.ts';
import { FileStore } from '../../src/files/file_store.ts';
import { hostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { LoadProgress } from '../../src/query/loads/load_progress.ts';
import { LoadFiles } from '../../src/query/loads/load_sources.ts';
import type { Store } from '../../src/store/store.ts';
import { fileStoreOf } from '../file_stores.ts';
import { storesOf } from '../stores.ts';

const owner = 'ann';
let root: string;
let store: Store;
let files: FileStore;
let upload: string;
// Another server of the store, which is lost while it sends the file.
const other = createServer((_, outgoing) => {
  outgoing.writeHead(200, { 'content-length': '1000' });
  outgoing.write('a,b\n', () => outgoing.destroy());
});

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-load-sources-'));
  ({ store } = await storesOf(import.meta.url).open());
  files = new FileStore({
    store,
    blobs: await fileStoreOf(import.meta.url).places(join(root, 'files')),
    linkKey: Buffer.alloc(32, 7),
    limits: { principalFileBytesMax: 1000, uploadBytesMax: 1000 },
    trail: noTrail,
    isLinkAllowed: () => true,
  });
  await files.start();
  const { file } = await files.create({ kind: 'upload', owner, name: 'a.csv', expiresInMs: 3_600_000 });
  const content = async function* () {
    yield Buffer.from('a,b\n1,2\n');
  };
  await files.append(file.fileId, content(), { offset: 0, total: 8 });
  upload = file.fileId;
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
});
after(async () => {
  other.close();
  await store.close();
  await rm(root, { recursive: true, force: true });
});

const spooled = () => readdir(join(root, 'spool', 'loads'));

function prepare(serverOfFile?: () => string, bytesMax = 1000) {
  const load = new LoadFiles({
    directories: [],
    spoolDirectory: join(root, 'spool'),
    bytesMax,
    hosts: hostAllowlist('loadHosts', ''),
    fetchMs: 60_000,
    files,
    serverOfFile,
  });
  return (signal = new AbortController().signal) => {
    const progress = new LoadProgress(['fetching', 'reading'], () => {});
    return load.prepare({ upload }, 'none', { principal: { id: owner, name: owner }, signal, progress });
  };
}

test('an upload is copied, and removed with the load', async () => {
  const file = await prepare()();
  assert.equal(file.bytes, 8);
  assert.equal((await spooled()).length, 1);
  await file.remove();
  assert.deepEqual(await spooled(), []);
});

const otherUrl = () => `http://127.0.0.1:${(other.address() as AddressInfo).port}`;

test('of an upload that another server does not send to its end, nothing remains', async () => {
  await assert.rejects(prepare(otherUrl)(), { code: 'REMOTE_UNAVAILABLE' });
  assert.deepEqual(await spooled(), []);
});

test('a load that is cancelled while it fetches an upload ends as cancelled', async () => {
  await assert.rejects(prepare(otherUrl)(AbortSignal.abort()), { code: 'STATEMENT_CANCELLED' });
  assert.deepEqual(await spooled(), []);
});

test('of an upload that is larger than a load may be, nothing remains', async () => {
  await assert.rejects(prepare(undefined, 7)(), ({ message }) => /7 bytes/.test(message));
  assert.deepEqual(await spooled(), []);
});
