// The confined engine process sees only its program and its data, can write only its data, and has no network, no privileges and none of
// the server's variables. Where the platform does not support that, the log says so, and with `required` no engine starts.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { duckdbWith } from '../../src/engines/duckdb/duckdb.ts';
import {
  Confinement,
  type ConfinementMode,
  confinedCommand,
  inactiveOf,
  sandboxedCommand,
} from '../../src/engines/duckdb/sandbox/sandbox.ts';
import { type SandboxMeasure, sandboxMeasures } from '../../src/engines/duckdb/sandbox/sandbox_exec.ts';
import { systemCalls } from '../../src/engines/duckdb/sandbox/system_calls.ts';
import type { ConfinementMeasure } from '../../src/engines/port/backends.ts';
import type { EngineWarehouse } from '../../src/engines/port/engine.ts';
import type { EngineEvent } from '../../src/observe/observations.ts';
import { Failure } from '../../src/standard/failure.ts';
import { spec } from '../conformance/engine/engine_world.ts';
import { analysisTimeoutMs, eventually } from '../deadline.ts';
import { startProcess } from '../server.ts';

const directory = mkdtempSync(join(tmpdir(), 'sandbox 0é%d \\ '));
const data = join(directory, 'data');
const places = { data, writable: [join(data, 'catalogs'), join(data, 'spool')] };
process.env.TABULARIUM_CANARY = 'c4n4ry';
let confinement: readonly ConfinementMeasure[];
/** The reason why the platform does not support namespaces; null if it does. */
let obstacle: string | null;
let engine: EngineWarehouse;
let events: EngineEvent[];

function open(mode: ConfinementMode): { engine: EngineWarehouse; events: EngineEvent[] } {
  const events: EngineEvent[] = [];
  const warehouse = duckdbWith({ confinement: new Confinement(mode), analysisTimeoutMs }).open({
    name: 'w',
    spec,
    dataDirectory: data,
    spoolDirectory: join(data, 'spool'),
    observe: (event) => events.push(event),
    catalogs: async () => [],
  });
  return { engine: warehouse, events: events };
}

const pidIn = (events: readonly EngineEvent[]) =>
  events.flatMap((event) => (event.kind === 'engineStarted' ? [event.pid] : [])).at(-1) as number;

before(async () => {
  ({ confinement } = await new Confinement('auto').launch(places));
  obstacle = confinement.find(({ measure }) => measure === 'namespaces')?.reason ?? null;
  writeFileSync(join(data, 'root.token'), 'secret');
  ({ engine, events } = open('auto'));
  await engine.start();
});
after(async () => {
  await engine.stop();
  rmSync(directory, { recursive: true, force: true });
});

test('no variable of the server reaches the engine', { skip: process.platform !== 'linux' }, () => {
  const variables = readFileSync(`/proc/${pidIn(events)}/environ`, 'utf8')
    .split('\0')
    .filter(Boolean);
  const names = variables.map((variable) => variable.split('=', 1)[0]).sort();
  const workingModes =
    /^(?:PATH|LANG|LANGUAGE|LC_\w+|TZ|LD_LIBRARY_PATH|UV_THREADPOOL_SIZE|OPENSSL_CONF|NODE_CHANNEL_\w+|NODE_COMPILE_CACHE|PWD|OLDPWD|SHLVL|_)$/;
  assert.deepEqual(
    names.filter((name) => !workingModes.test(name as string)),
    [],
  );
  assert.doesNotMatch(variables.join(), /c4n4ry/);
});

test('if the platform does not allow it, this is logged once', async () => {
  const logged = events.filter(({ kind }) => kind === 'engineUnconfined');
  assert.equal(logged.length, inactiveOf(confinement) === '' ? 0 : 1);
  assert.deepEqual(engine.status('embedded').confinement, confinement);
  const off = open('off');
  await off.engine.start();
  await off.engine.stop();
  await off.engine.start();
  await off.engine.stop();
  assert.deepEqual(
    off.events.map(({ kind }) => kind),
    ['engineUnconfined', 'engineStarted', 'engineStopped', 'engineStarted', 'engineStopped'],
  );
});

test('if it is required, the engine is confined or does not start', async () => {
  const required = open('required');
  if (obstacle === null) {
    await required.engine.start();
    await required.engine.stop();
    return;
  }
  await assert.rejects(
    required.engine.start(),
    (error) => error instanceof Failure && error.code === 'WAREHOUSE_FAILED',
  );
});

/** Runs in namespaces like those of an engine. */
function runConfined(script: string): { output: string; complaint: string } {
  const { command, args } = confinedCommand(places, ['sh', '-c', script, 'test', ...places.writable]);
  const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return { output: stdout, complaint: stderr };
}

/** Tests for platforms that support it; the tests above cover the others. */
const whereItWorks = (name: string, prove: () => void | Promise<void>) =>
  test(name, async (t) => {
    if (obstacle === null) return prove();
    t.diagnostic(`not confined here: ${obstacle}`);
  });

whereItWorks('the running engine has its own directories writable, and no more', () => {
  const mounts = readFileSync(`/proc/${pidIn(events)}/mountinfo`, 'utf8')
    .trim()
    .split('\n');
  const points = mounts.map((line) => {
    const [, , , , point = '', options = ''] = line.split(' ');
    const path = point.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));
    return { path, writable: !options.split(',').includes('ro') };
  });
  const writable = points.flatMap((candidate) => (candidate.writable ? [candidate.path] : []));
  assert.deepEqual(writable.sort(), places.writable.toSorted());
  // Only parts of the machine are visible, and of the data directory only what belongs to the engine.
  const mountPoints = points.map(({ path }) => path);
  for (const path of ['/home', '/root', '/var', '/sys', '/etc', '/tmp', data])
    assert.ok(!mountPoints.includes(path), path);
});

whereItWorks('readable mounts keep the options that a namespace may not remove', () => {
  const mounted = join(directory, 'mounted');
  mkdirSync(mounted);
  const source = `
    import { spawnSync } from 'node:child_process';
    import { confinedCommand } from ${JSON.stringify(import.meta.resolve('../../src/engines/duckdb/sandbox/sandbox.ts'))};
    const { places, mounted } = JSON.parse(process.argv[1]);
    const { command, args } = confinedCommand({ ...places, readable: [mounted] }, ['cat', '/proc/self/mountinfo']);
    const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
    console.log(stdout, stderr);`;
  const script = 'mount -t tmpfs -o nosuid,nodev,noexec,noatime x "$1" && shift && exec "$@"';
  const namespaces = ['--user', '--map-root-user', '--mount', 'sh', '-c', script, 'test', mounted];
  const node = [process.execPath, '--input-type=module', '-e', source, JSON.stringify({ places, mounted })];
  const { stdout } = spawnSync('unshare', [...namespaces, ...node], { encoding: 'utf8' });
  const options = stdout
    .split('\n')
    .map((line) => line.split(' '))
    .find(([, , , , point]) => point?.endsWith('/mounted'))?.[5];
  assert.deepEqual(options?.split(',').sort(), ['noatime', 'nodev', 'noexec', 'nosuid', 'ro'], stdout);
});

whereItWorks('nothing is written outside the directories of the engine', () => {
  const { output, complaint } = runConfined(`
    for path in / /tmp /usr /etc /dev /proc /lib /var/tmp '${process.cwd()}' '${data.replaceAll("'", "'\\''")}' "$HOME"; do
      if [ -n "$path" ] && touch "$path/escaped" 2>/dev/null; then echo "wrote in $path"; fi
    done
    for path in "$@"; do
      if touch "$path/x" && rm "$path/x"; then echo may; fi
    done
    mount -o remount,bind,rw /usr 2>/dev/null && echo remounted
    mount -t tmpfs x /usr 2>/dev/null && echo mounted
    unshare --user --map-root-user true 2>/dev/null && unshare --user --map-root-user mount -o remount,bind,rw /usr 2>/dev/null && echo again
    echo 1 >/proc/self/oom_score_adj && echo tuned
    chmod 777 /usr/bin/env 2>/dev/null && echo changed
    exit 0`);
  assert.equal(output, 'may\nmay\n', complaint);
});

whereItWorks('nothing of the machine is read but the program and the data', () => {
  const { output } = runConfined(`
    cat /etc/passwd /etc/shadow "${process.env.HOME}"/.* '${data.replaceAll("'", "'\\''")}/root.token' /proc/${process.pid}/environ 2>/dev/null
    ls /proc/${process.pid}/root /proc/${process.pid}/cwd/ 2>/dev/null
    for file in /proc/${process.pid}/fd/*; do (: <"$file") 2>/dev/null && echo "opened $file"; done
    ls -A "$1/.." | sort
    exit 0`);
  assert.equal(output, 'catalogs\nspool\n');
});

whereItWorks('it has no network, no rights, and leaves no core', () => {
  const pid = pidIn(events);
  const { output } = runConfined('cut -d: -f1 /proc/net/dev | tail -n +3; ulimit -c');
  assert.deepEqual(
    output
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean),
    ['lo', '0'],
  );
  for (const kind of ['user', 'mnt', 'net', 'ipc'])
    assert.notEqual(readlinkSync(`/proc/${pid}/ns/${kind}`), readlinkSync(`/proc/self/ns/${kind}`), kind);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
    assert.match(status, new RegExp(`${set}:\\s0+\\n`));
  assert.match(status, /NoNewPrivs:\s1/);
  assert.match(readFileSync(`/proc/${pid}/limits`, 'utf8'), /Max core file size\s+0\s+0/);
});

whereItWorks(
  'its process is the one that was started: a signal reaches it, and it does not outlive its server',
  async () => {
    assert.match(readFileSync(`/proc/${pidIn(events)}/cmdline`, 'utf8'), /worker\.[tj]s/);
    const first = pidIn(events);
    process.kill(first, 'SIGKILL');
    await eventually('another engine', () => engine.running && pidIn(events) !== first);
    assert.ok(!existsSync(`/proc/${first}/exe`));

    const server = await startProcess();
    try {
      await server.client.databases.create({ name: 'd' });
      const [pid] = childrenOf(server.child.pid as number);
      assert.match(readFileSync(`/proc/${pid}/cmdline`, 'utf8'), /worker\.[tj]s/);
      // In the middle of work during which it processes no messages.
      void server.query('d', `SELECT levenshtein(repeat('ab', 1000000), repeat('ba', 1000000))`).catch(() => undefined);
      server.child.kill('SIGKILL');
      await eventually('the end of the engine', () => !existsSync(`/proc/${pid}/exe`));
    } finally {
      await server.close();
    }
  },
);

const childrenOf = (pid: number) =>
  execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' })
    .trim()
    .split(/\s+/);

whereItWorks('data of another user is not written, and said to be the reason', () => {
  if (process.getuid?.() !== 0) return;
  const otherDirectory = join(directory, 'theirs');
  const other = { data: otherDirectory, writable: [join(otherDirectory, 'catalogs')] };
  for (const path of [otherDirectory, ...other.writable]) mkdirSync(path, { mode: 0o755 });
  chownSync(other.writable[0] as string, 65534, 65534);
  const { command, args } = confinedCommand(other, ['true']);
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  assert.equal(status, 1);
  assert.match(stderr, /belongs to another user/);
});

whereItWorks('of the processes of the machine the engine sees its own alone', () => {
  const { output } = runConfined(
    'ls /proc | grep -c "^[0-9]"; ls -d /proc/1; [ "$(readlink /proc/self)" = "$$" ] && echo own',
  );
  assert.equal(output, '1\nown\n');
});

/** Runs in a process that is restricted like an engine, and prints the result of each attempt as JSON. */
const attempts = `
import { dlopen, getInt32 } from 'node:ffi';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
const { functions } = dlopen(null, {
  syscall: { return: 'i64', arguments: ['i64', 'i64', 'i64', 'i64', 'i64', 'i64'] },
  __errno_location: { return: 'pointer', arguments: [] },
});
const call = ([number, ...values]) => {
  const words = [number, ...values, 0, 0, 0, 0, 0].slice(0, 6).map(BigInt);
  return functions.syscall(...words) === -1n ? getInt32(functions.__errno_location()) : 0;
};
const tried = (work) => { try { work(); return 'done'; } catch ({ code }) { return code; } };
const { calls, own, others } = JSON.parse(process.argv[1]);
process.stdout.write(JSON.stringify({
  status: readFileSync('/proc/self/status', 'utf8').match(/^(?:NoNewPrivs|Seccomp):\\s*\\d/gm),
  calls: Object.fromEntries(Object.entries(calls).map(([name, call_]) => [name, call(call_)])),
  own: tried(() => { mkdirSync(own + '/x'); writeFileSync(own + '/x/a', 'x'); renameSync(own + '/x/a', own + '/b'); readFileSync(own + '/b'); rmSync(own + '/b'); rmSync(own + '/x', { recursive: true }); }),
  others: others.map((path) => tried(() => { statSync(path); readFileSync(path); })),
  written: others.map((path) => tried(() => writeFileSync(path, 'x'))),
  program: spawnSync('/bin/true').error?.code ?? 'done',
}));
`;

/** Numbers of system calls on x64 and arm64, with harmless arguments. */
type Calls = Readonly<Record<string, readonly [x64: number, arm64: number, ...values: number[]]>>;
/** `pid`: a process that the test started. */
const forbiddenCalls = (pid: number): Calls => ({
  ptrace: [101, 117, 16, 0],
  process_vm_readv: [310, 270, pid],
  unshare: [272, 97, 0x10000000],
  setns: [308, 268, -1],
  mount: [165, 40],
  keyctl: [250, 219, 0, -3],
  bpf: [321, 280],
  userfaultfd: [323, 282],
  perf_event_open: [298, 241],
  io_uring_setup: [425, 425, 1],
  socket: [41, 198, 1, 1, 0],
  memfd_create: [319, 279],
  kexec_load: [246, 104],
  clone: [56, 220, 17],
  kill: [62, 129, pid, 15],
  prlimit64: [302, 261, pid, 7],
  ioctl: [16, 29, 2, 0x5412],
});
const allowedCalls = (pid: number): Calls => ({ getpid: [39, 172], kill: [62, 129, pid, 0] });
const processor = process.arch === 'arm64' ? 1 : 0;
const numbered = (calls: Calls) =>
  Object.fromEntries(
    Object.entries(calls).map(([name, [x64, arm64, ...values]]) => [name, [processor ? arm64 : x64, ...values]]),
  );

interface AttemptResult {
  readonly status: readonly string[];
  readonly calls: Readonly<Record<string, number>>;
  readonly own: string;
  readonly others: readonly string[];
  readonly written: readonly string[];
  readonly program: string;
}

const reasonOf = (measure: string) => confinement.find((candidate) => candidate.measure === measure)?.reason ?? null;

function runAttempt(used: readonly SandboxMeasure[], calls: Calls, isConfined: boolean): AttemptResult {
  // The test's own files: if a measure is missing, the attempts to write succeed.
  const outsideDirectory = mkdtempSync(join(directory, 'outside-'));
  const others = ['secret.txt', 'other.txt'].map((name) => join(outsideDirectory, name));
  for (const path of others) writeFileSync(path, 'not to be read');
  const [own] = places.writable;
  const script = JSON.stringify({ calls: numbered(calls), own, others });
  const node = [
    process.execPath,
    '--disable-warning=ExperimentalWarning',
    '--input-type=module',
    '-e',
    attempts,
    script,
  ];
  const sandboxed = sandboxedCommand(places, { measures: used }, node);
  const [program = '', ...rest] = sandboxed;
  const { command, args } = isConfined ? confinedCommand(places, sandboxed) : { command: program, args: rest };
  const { stdout, stderr } = spawnSync(command, args, {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, OPENSSL_CONF: '/dev/null' },
  });
  assert.match(stdout, /^\{/, stderr);
  return JSON.parse(stdout) as AttemptResult;
}

test('the reported measures apply to the running engine and all its threads', (t) => {
  if (process.platform !== 'linux') return t.diagnostic('not Linux');
  const pid = pidIn(events);
  const expected = reasonOf('seccomp') === null ? '2' : '0';
  for (const thread of readdirSync(`/proc/${pid}/task`))
    assert.match(
      readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8'),
      new RegExp(`\\nSeccomp:\\s${expected}\\n`),
    );
});

test('a process confined like the engine cannot make the system calls that the filter refuses', (t) => {
  const reason = reasonOf('seccomp');
  if (reason !== null) return t.diagnostic(`no filter here: ${reason}`);
  const child = spawn('sleep', ['300'], { stdio: 'ignore' });
  t.after(() => child.kill('SIGKILL'));
  const pid = child.pid as number;
  for (const isConfined of obstacle === null ? [true, false] : [false]) {
    const { status, calls, own } = runAttempt(['seccomp'], forbiddenCalls(pid), isConfined);
    assert.deepEqual(
      status.map((line) => line.replace(/\s/g, '')),
      ['NoNewPrivs:1', 'Seccomp:2'],
    );
    for (const [name, errno] of Object.entries(calls)) assert.equal(errno, 1, name);
    assert.equal(own, 'done');
    assert.equal(child.exitCode ?? child.signalCode, null);
    assert.deepEqual(runAttempt(['seccomp'], allowedCalls(pid), isConfined).calls, { getpid: 0, kill: 0 });
  }
});

test('a process confined like the engine can open its own files only, and starts no other program', (t) => {
  const reason = reasonOf('landlock');
  if (reason !== null) return t.diagnostic(`no Landlock here: ${reason}`);
  const { own, others, written, program } = runAttempt(['landlock'], {}, false);
  assert.equal(own, 'done');
  assert.deepEqual([...new Set([...others, ...written, program])], ['EACCES']);
  const without = runAttempt([], {}, false);
  assert.deepEqual([...new Set([...without.others, ...without.written])], ['done']);
  assert.equal(without.program, 'done');
});

test('a command does not run if a required measure cannot be applied', () => {
  const brokenPlaces = { ...places, writable: ['/nonexistent'] };
  const [command = '', ...args] = sandboxedCommand(brokenPlaces, { measures: ['landlock'] }, ['/bin/true']);
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  assert.equal(status, 1);
  assert.match(stderr, /landlock cannot be applied/);
});

test('all measures of the kernel are used', async (t) => {
  const { call } = await systemCalls().catch(() => ({ call: undefined }));
  if (process.platform !== 'linux' || !call) return t.diagnostic('not Linux, or no node:ffi');
  const askVersion = [444, 0, 0, 1] as const;
  const versionOf = () => {
    try {
      return call(...askVersion);
    } catch {
      return 0;
    }
  };
  assert.equal(reasonOf('landlock') === null, versionOf() >= 2, String(reasonOf('landlock')));
  const hasFilters = /\nSeccomp:/.test(readFileSync('/proc/self/status', 'utf8'));
  assert.equal(reasonOf('seccomp') === null, hasFilters, String(reasonOf('seccomp')));
});

test('each measure is active, or has the reason why it is not', () => {
  assert.deepEqual(
    confinement.map(({ measure }) => measure),
    ['namespaces', ...sandboxMeasures],
  );
  for (const { active, reason } of confinement) assert.equal(active, reason === null);
  const started = events.find(({ kind }) => kind === 'engineStarted');
  const activeMeasures = confinement.flatMap((status) => (status.active ? [status.measure] : []));
  assert.partialDeepStrictEqual(started, { confinement: activeMeasures.join(', ') || 'none' });
});
