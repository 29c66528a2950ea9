// Errors that prevent a start have a message that says what to do, and an exit code: each through the real command.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { deadlineMs } from '../deadline.ts';
import { start } from '../server.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const startMsMax = deadlineMs(60_000);
const onLinux = process.platform !== 'linux' && 'mount namespaces are Linux’s';

let root: string;
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-starts-'));
  const server = await start({ dataDir: join(root, 'base') });
  (await server.put('/api/v2/databases/d')).is(201);
  await server.close();
});
after(() => rm(root, { recursive: true, force: true }));

interface Case {
  readonly name: string;
  readonly prepare?: (dataDirectory: string) => void;
  /** Options of a tmpfs over the data directory; and a shell command that runs after the mount. */
  readonly mount?: { readonly options: string; readonly command?: string };
  readonly says: RegExp;
  readonly skip?: string | false;
}

const store = (dataDirectory: string) => join(dataDirectory, 'metadata.sqlite');
const removeStore = (dataDirectory: string) => {
  for (const end of ['', '-wal', '-shm']) rmSync(`${store(dataDirectory)}${end}`, { force: true });
};
function overwrite(path: string, offset: number, bytes: Buffer): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, offset);
  closeSync(file);
}

const cases: readonly Case[] = [
  {
    name: 'no metadata store beside catalogs',
    prepare: removeStore,
    says: /contains \d+ catalogs? but no metadata store .* is not created in its place\.\nPut .* back\. .*--data-dir.*restore/s,
  },
  {
    name: 'a directory in the place of the token of root',
    prepare: (at) => {
      rmSync(join(at, 'root.token'));
      mkdirSync(join(at, 'root.token'));
    },
    says: /^the token of root cannot be read from .*root\.token \(it is a directory\); put the file back, or remove/,
  },
  {
    name: 'a damaged header of the store',
    prepare: (at) => overwrite(store(at), 3, Buffer.from('xxxx')),
    says: /metadata\.sqlite is damaged: page 1 differs from what was written\.\nput a sound copy .* back/,
  },
  {
    name: 'a damaged page of the store',
    prepare: (at) => overwrite(store(at), 100, Buffer.alloc(64, 0xff)),
    says: /metadata\.sqlite is damaged: page 1 differs from what was written\.\nput a sound copy .* back/,
  },
  { name: 'a store that was cut', prepare: (at) => truncateSync(store(at), 5000), says: /metadata\.sqlite is damaged/ },
  {
    name: 'a missing key file',
    prepare: (at) => rmSync(join(at, 'secret.key')),
    says: /secret\.key does not exist: .*restore it/,
  },
  {
    name: 'an empty file of the token of root',
    prepare: (at) => truncateSync(join(at, 'root.token'), 0),
    says: /root\.token holds no usable token; remove it to have a new one made/,
  },
  {
    name: 'a file in the place of the directory',
    prepare: (at) => {
      rmSync(at, { recursive: true });
      writeFileSync(at, '');
    },
    says: /is not a directory: choose another with --data-dir/,
  },
  {
    name: 'a read-only directory',
    mount: { options: 'ro' },
    says: /mounted read-only: mount it writable, or choose another with --data-dir/,
    skip: onLinux,
  },
  {
    name: 'a directory without space',
    mount: { options: 'size=8k', command: 'head -c 8192 /dev/zero > "$0/ballast" 2>/dev/null;' },
    says: /no disk space left for the data directory .*: free some/,
    skip: onLinux,
  },
];

for (const { name, prepare, mount, says, skip = false } of cases) {
  test(`${name}: a message and exit code 1`, { skip }, async () => {
    const dataDir = join(root, 'case');
    await rm(dataDir, { recursive: true, force: true });
    cpSync(join(root, 'base'), dataDir, { recursive: true });
    prepare?.(dataDir);
    const command = [process.execPath, main, '--port=0', `--data-dir=${dataDir}`];
    const script = `mount -t tmpfs -o ${mount?.options} tmpfs "$0" && { ${mount?.command ?? ''} exec "$@"; }`;
    const [program, ...args] = mount
      ? ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script, dataDir, ...command]
      : command;
    const ended = spawnSync(program as string, args, { encoding: 'utf8', timeout: startMsMax });
    assert.equal(ended.status, 1, ended.stderr);
    assert.match(ended.stderr, says);
    assert.doesNotMatch(ended.stderr, /^\s+at /m, 'a stack trace');
    assert.doesNotMatch(ended.stdout, /is ready/);
    if (name.startsWith('no metadata store')) assert.equal(existsSync(store(dataDir)), false);
  });
}
