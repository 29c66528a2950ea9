// The engine process is shut in: it sees its program and its data, writes its data only, has no network, no rights and none of the
// server's variables. Where the platform does not allow that, the log says so, and who requires it gets no engine.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Confinement, type ConfinementMode, confinedCommand } from '../../src/engines/duckdb/confinement.ts';
import { duckdbWith } from '../../src/engines/duckdb/duckdb.ts';
import type { EngineEvent, EngineWarehouse } from '../../src/engines/engine.ts';
import { Failure } from '../../src/standard/failure.ts';
import { spec } from '../conformance/engine_world.ts';
import { eventually } from '../deadline.ts';
import { startProcess } from '../server.ts';

const directory = mkdtempSync(join(tmpdir(), 'sandbox 0é%d \\ '));
const data = join(directory, 'data');
const places = { data, writable: [join(data, 'catalogs'), join(data, 'spool')] };
process.env.TABULARIUM_CANARY = 'c4n4ry';
/** Why the platform does not allow it; undefined where it does. */
let obstacle: string | undefined;
let engine: EngineWarehouse;
let events: EngineEvent[];

function open(mode: ConfinementMode): { engine: EngineWarehouse; events: EngineEvent[] } {
  const seen: EngineEvent[] = [];
  const made = duckdbWith({ confinement: new Confinement(mode) }).open({
    name: 'w',
    spec,
    dataDirectory: data,
    spoolDirectory: join(data, 'spool'),
    observe: (event) => seen.push(event),
    catalogs: async () => [],
  });
  return { engine: made, events: seen };
}

const pidIn = (seen: readonly EngineEvent[]) =>
  seen.flatMap((event) => (event.kind === 'engineStarted' ? [event.pid] : [])).at(-1) as number;

before(async () => {
  ({ unconfined: obstacle } = await new Confinement('auto').launch(places));
  writeFileSync(join(data, 'root.token'), 'secret');
  ({ engine, events } = open('auto'));
  await engine.start();
});
after(async () => {
  await engine.stop();
  rmSync(directory, { recursive: true, force: true });
});

test('none of the variables of the server reach the engine', { skip: process.platform !== 'linux' }, () => {
  const variables = readFileSync(`/proc/${pidIn(events)}/environ`, 'utf8')
    .split('\0')
    .filter(Boolean);
  const names = variables.map((one) => one.split('=', 1)[0]).sort();
  const known =
    /^(?:PATH|LANG|LANGUAGE|LC_\w+|TZ|LD_LIBRARY_PATH|UV_THREADPOOL_SIZE|NODE_CHANNEL_\w+|NODE_COMPILE_CACHE|PWD|OLDPWD|SHLVL|_)$/;
  assert.deepEqual(
    names.filter((name) => !known.test(name as string)),
    [],
  );
  assert.doesNotMatch(variables.join(), /c4n4ry/);
});

test('where the platform does not allow it, this is told once', async () => {
  const told = events.filter(({ kind }) => kind === 'engineUnconfined');
  assert.equal(told.length, obstacle === undefined ? 0 : 1);
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

test('who requires it gets it, or no engine', async () => {
  const required = open('required');
  if (obstacle === undefined) {
    await required.engine.start();
    await required.engine.stop();
    return;
  }
  await assert.rejects(
    required.engine.start(),
    (error) => error instanceof Failure && error.code === 'WAREHOUSE_FAILED',
  );
});

/** In the namespaces of an engine, started as it is. */
function inside(script: string): { output: string; complaint: string } {
  const { command, args } = confinedCommand(places, ['sh', '-c', script, 'test', ...places.writable]);
  const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return { output: stdout, complaint: stderr };
}

/** What is proved where the platform allows it; elsewhere the tests above say what happens. */
const whereItWorks = (name: string, prove: () => void | Promise<void>) =>
  test(name, async (t) => {
    if (obstacle === undefined) return prove();
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
  const writable = points.flatMap((one) => (one.writable ? [one.path] : []));
  assert.deepEqual(writable.sort(), places.writable.toSorted());
  // Of the machine there are only parts, and of the data directory only what is the engine's.
  const seen = points.map(({ path }) => path);
  for (const path of ['/home', '/root', '/var', '/sys', '/etc', '/tmp', data]) assert.ok(!seen.includes(path), path);
});

whereItWorks('nothing is written outside the directories of the engine', () => {
  const { output, complaint } = inside(`
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
  const { output } = inside(`
    cat /etc/passwd /etc/shadow "${process.env.HOME}"/.* '${data.replaceAll("'", "'\\''")}/root.token' /proc/${process.pid}/environ 2>/dev/null
    ls /proc/${process.pid}/root /proc/${process.pid}/cwd/ 2>/dev/null
    for file in /proc/${process.pid}/fd/*; do (: <"$file") 2>/dev/null && echo "opened $file"; done
    ls -A "$1/.." | sort
    exit 0`);
  assert.equal(output, 'catalogs\nspool\n');
});

whereItWorks('it has no network, no rights, and leaves no core', () => {
  const pid = pidIn(events);
  const { output } = inside('cut -d: -f1 /proc/net/dev | tail -n +3; ulimit -c');
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
      (await server.put('/api/v2/databases/d')).is(201);
      const [pid] = childrenOf(server.child.pid as number);
      assert.match(readFileSync(`/proc/${pid}/cmdline`, 'utf8'), /worker\.[tj]s/);
      // In the middle of work that hears of nothing.
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
  const theirs = join(directory, 'theirs');
  const other = { data: theirs, writable: [join(theirs, 'catalogs')] };
  for (const path of [theirs, ...other.writable]) mkdirSync(path, { mode: 0o755 });
  chownSync(other.writable[0] as string, 65534, 65534);
  const { command, args } = confinedCommand(other, ['true']);
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  assert.equal(status, 1);
  assert.match(stderr, /belongs to another user/);
});
