// Errors that prevent a start have a message that says what to do, and an exit code: each through the real command.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
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
  await server.client.databases.create({ name: 'd' });
  await server.close();
});
after(() => rm(root, { recursive: true, force: true }));

interface Case {
  readonly name: string;
  /** Further flags. */
  readonly flags?: readonly string[];
  /** Instead of the directory that is prepared. */
  readonly directory?: string;
  /** The exit code; 1 by default. */
  readonly code?: number;
  readonly prepare?: (dataDirectory: string) => void;
  /** Options of a tmpfs over the data directory; and a shell command that runs after the mount. */
  readonly mount?: { readonly options: string; readonly command?: string };
  readonly message: RegExp;
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
    message:
      /contains \d+ catalogs? but no metadata store .* is not created in its place\.\nPut .* back\. .*--data-dir.*restore/s,
  },
  {
    name: 'a directory in the place of the token of root',
    prepare: (dataDir) => {
      rmSync(join(dataDir, 'root.token'));
      mkdirSync(join(dataDir, 'root.token'));
    },
    message: /^the token of root cannot be read from .*root\.token \(it is a directory\); put the file back, or remove/,
  },
  {
    name: 'a damaged header of the store',
    prepare: (dataDir) => overwrite(store(dataDir), 3, Buffer.from('xxxx')),
    message: /metadata\.sqlite is damaged: page 1 differs from what was written\.\nput an undamaged copy .* back/,
  },
  {
    name: 'a damaged page of the store',
    prepare: (dataDir) => overwrite(store(dataDir), 100, Buffer.alloc(64, 0xff)),
    message: /metadata\.sqlite is damaged: page 1 differs from what was written\.\nput an undamaged copy .* back/,
  },
  {
    name: 'a store that was cut',
    prepare: (dataDir) => truncateSync(store(dataDir), 5000),
    message: /metadata\.sqlite is damaged/,
  },
  {
    name: 'a missing key file',
    prepare: (dataDir) => rmSync(join(dataDir, 'secret.key')),
    message: /secret\.key does not exist: .*restore it/,
  },
  {
    name: 'an empty file of the token of root',
    prepare: (dataDir) => truncateSync(join(dataDir, 'root.token'), 0),
    message: /root\.token contains no usable token; delete it and restart the server, which creates a new one/,
  },
  {
    name: 'a file in the place of the directory',
    prepare: (dataDir) => {
      rmSync(dataDir, { recursive: true });
      writeFileSync(dataDir, '');
    },
    message: /is not a directory: choose another with --data-dir/,
  },
  {
    // procfs refuses with ENOENT, as for a missing parent.
    name: 'a directory that the file system does not create',
    directory: '/proc/tabularium/data',
    message: /^the data directory \/proc\/tabularium\/data cannot be created there: choose another with --data-dir$/m,
    skip: onLinux,
  },
  {
    name: 'a read-only directory',
    mount: { options: 'ro' },
    message: /mounted read-only: mount it writable, or choose another with --data-dir/,
    skip: onLinux,
  },
  {
    name: 'a directory without space',
    mount: { options: 'size=8k', command: 'head -c 8192 /dev/zero > "$0/ballast" 2>/dev/null;' },
    message: /no disk space left for the data directory .*: free some/,
    skip: onLinux,
  },
];

/** Something else where the server expects a file of its own or of the operator, or a directory. */
const replaced = (
  [
    [
      'metadata.sqlite',
      'directory',
      /metadata\.sqlite is a directory where the server keeps a file: move it away, and put back/,
    ],
    ['metadata.sqlite-wal', 'directory', /sqlite-wal is a directory where the server keeps a file: move it away/],
    ['metadata.sqlite-sums', 'pipe', /sqlite-sums is a named pipe where the server keeps a file: move it away/],
    ['metadata.sqlite', 'pipe', /metadata\.sqlite is a named pipe where the server keeps a file: move it away/],
    ['audit.journal', 'directory', /audit\.journal is a directory where the server keeps a file: move it away/],
    ['disk.reserve', 'directory', /disk\.reserve is a directory where the server keeps a file: move it away/],
    [
      'disk.reserve',
      'loop',
      /disk\.reserve cannot be used \(it is a symbolic link that leads to itself\): move it away/,
    ],
    ['results', 'file', /results is a file where the server keeps a directory: move it away/],
    ['files', 'file', /files is a file where the server keeps a directory: move it away/],
    ['catalogs', 'file', /catalogs is a file where the server keeps a directory: move it away/],
    [
      'secret.key',
      'directory',
      /the key of the secrets .*secret\.key \(it is a directory\); put the file back, or name another/,
    ],
    ['secret.key', 'pipe', /secret\.key \(it is a named pipe\); put the file back/],
    ['secret.key', 'loop', /secret\.key \(it is a symbolic link that leads to itself\); put the file/],
    ['secret.key', 'large', /secret\.key \(it has 2000000 bytes; at most 4096 are expected\); put the file/],
    [
      'root.token',
      'pipe',
      /^the token of root cannot be read from .*root\.token \(it is a named pipe\); put the file back/,
    ],
    ['root.token', 'large', /root\.token \(it has 2000000 bytes; at most 1048576 are expected\); put the file back/],
    ['config.json', 'directory', /^the configuration file .*config\.json \(it is a directory\); put a JSON file/],
  ] as const
).map(
  ([file, kind, says]): Case => ({
    name: `${kind} in the place of ${file}`,
    code: file === 'config.json' ? 2 : 1,
    prepare: (dataDir) => makeEntry(join(dataDir, file), kind),
    message: says,
  }),
);

const makeEntry = (path: string, kind: 'directory' | 'file' | 'pipe' | 'loop' | 'large') => {
  rmSync(path, { force: true, recursive: true });
  if (kind === 'directory') mkdirSync(path);
  else if (kind === 'pipe') assert.equal(spawnSync('mkfifo', [path]).status, 0);
  else if (kind === 'loop') symlinkSync(path, path);
  else writeFileSync(path, Buffer.alloc(kind === 'large' ? 2_000_000 : 0));
};

/** Files that a setting names. */
const named: readonly Case[] = [
  {
    name: 'a directory as --config',
    flags: ['--config=/'],
    code: 2,
    message: /^the configuration file cannot be read from \/ \(it is a directory\); give another with --config$/m,
  },
  {
    name: 'a directory as certificate',
    flags: ['--tls-cert-file=/', '--tls-key-file=/'],
    code: 2,
    message: /cannot be read from \/ \(it is a directory\); check tlsCertFile and tlsKeyFile/,
  },
  {
    name: 'a key file that does not exist',
    flags: ['--secret-key-file=/nowhere/key'],
    message: /\/nowhere\/key does not exist: .*restore it/,
  },
];

for (const { name, flags = [], directory, code = 1, prepare, mount, message: says, skip = false } of [
  ...cases,
  ...replaced,
  ...named,
]) {
  test(`${name}: a message and exit code ${code}`, { skip }, async () => {
    const dataDir = join(root, 'case');
    await rm(dataDir, { recursive: true, force: true });
    cpSync(join(root, 'base'), dataDir, { recursive: true });
    prepare?.(dataDir);
    const command = [process.execPath, main, '--port=0', `--data-dir=${directory ?? dataDir}`, ...flags];
    const script = `mount -t tmpfs -o ${mount?.options} tmpfs "$0" && { ${mount?.command ?? ''} exec "$@"; }`;
    const [program, ...args] = mount
      ? ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script, dataDir, ...command]
      : command;
    const ended = spawnSync(program as string, args, { encoding: 'utf8', timeout: startMsMax });
    assert.equal(ended.status, code, ended.stderr);
    assert.ok(ended.stderr.trim().split('\n').length <= 2, ended.stderr);
    assert.match(ended.stderr, says);
    assert.doesNotMatch(ended.stderr, /^\s+at /m, 'a stack trace');
    assert.doesNotMatch(ended.stdout, /is ready/);
    if (name.startsWith('no metadata store')) assert.equal(existsSync(store(dataDir)), false);
  });
}

test('an address that cannot be used: a message and exit code 1', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  t.after(() => other.close());
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const used = new RegExp(`^another program listens on port ${port} of 127\\.0\\.0\\.1: stop it, or .* --port$`, 'm');
  for (const [flags, says] of [
    [[`--port=${port}`], used],
    [['--port=0', '--insecure', '--host=192.0.2.1'], /^192\.0\.2\.1 is not an address of this machine: .* --host$/m],
    [['--port=0', '--insecure', '--host=name.invalid'], /^name\.invalid has no address: .* --host$/m],
  ] as const) {
    const command = [main, `--data-dir=${join(root, 'base')}`, '--log-level=fatal', ...flags];
    const ended = spawnSync(process.execPath, command, { encoding: 'utf8', timeout: startMsMax });
    assert.equal(ended.status, 1, ended.stderr);
    assert.match(ended.stderr, says);
    assert.doesNotMatch(ended.stderr, /^\s+at /m, 'a stack trace');
  }
});
