// `load` and `export` of a gigabyte on a terminal, broken off in the middle: the server is killed, a disk is full, the reader of a pipe ends,
// Ctrl-C comes. Each ends with its exit code and what to do, in flat memory and with a right bar, and leaves nothing half done; repeated, each ends
// with every row exactly once.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createReadStream, createWriteStream, linkSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type CommandLine, newCommandLine, signIn } from '../cli/remote/command_process.ts';
import { peakMiB } from '../cli/remote/transfer/measured_command.ts';
import { header, numberedRows, type RowSums } from '../cli/remote/transfer/numbered_rows.ts';
import { eventually } from '../deadline.ts';
import type { Random } from '../random.ts';
import { type ServerProcess, startProcess } from '../server.ts';
import { bytesShown, onTerminal, type Shown, type TerminalCommand } from './terminal_streams.ts';

/** More than a command takes for a file of some megabytes: its parts in flight, and garbage. */
const commandMiBMax = 350;
/** How much more memory the server may take than before its first transfer; DuckDB is a process of its own. */
const serverGrowthMiBMax = 256;
const smallBytes = 10_000_000;

interface World {
  readonly line: CommandLine;
  /** Another one after each kill. */
  server: ServerProcess;
  /** The size of the file. */
  readonly bytes: number;
  readonly sums: RowSums;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

export interface BrokenReport {
  readonly ended: readonly string[];
  readonly commandMiB: number;
  readonly serverGrowthMiB: number;
}

/** `bytes`: at least, of the file. `log` gets a line for each command. */
export async function breakStreams(
  random: Random,
  bytes: number,
  problems: string[],
  log: (text: string) => void,
): Promise<BrokenReport> {
  const line = newCommandLine();
  const ended: string[] = [];
  let [commandMiB, serverGrowthMiB] = [0, 0];
  const server = await startProcess([], join(line.directory, 'data'));
  let world: World = { line, server, bytes, sums: { rows: 0, amount: 0 }, columns: columnsOfRows };
  try {
    const file = join(line.directory, 'rows.csv');
    await pipeline(numberedRows(random.seed, bytes, world.sums), createWriteStream(file));
    world = { ...world, bytes: statSync(file).size };
    await pipeline(
      numberedRows(random.seed, smallBytes, { rows: 0, amount: 0 }),
      createWriteStream(join(line.directory, 'few.csv')),
    );
    await prepare(world);
    for (const [name, work] of cells) {
      const beganMs = Date.now();
      const { pid } = world.server.child;
      const before = peakMiB(pid) ?? 0;
      try {
        const shown = await work(world);
        for (const each of shown) commandMiB = Math.max(commandMiB, each.peakMiB);
        const peak = Math.max(0, ...shown.map((each) => each.peakMiB));
        assert.ok(peak <= commandMiBMax, `the command took ${peak} MiB`);
        // A server that was killed had no less than the one after it.
        if (world.server.child.pid === pid) serverGrowthMiB = Math.max(serverGrowthMiB, (peakMiB(pid) ?? 0) - before);
        assert.ok(serverGrowthMiB <= serverGrowthMiBMax, `the server took ${serverGrowthMiB} MiB more`);
        ended.push(`${name}: ${shown.map(({ code }) => code).join(', ')}`);
        log(`${name}: ${Date.now() - beganMs} ms, exit codes ${shown.map(({ code }) => code).join(', ')}, ${peak} MiB`);
      } catch (error) {
        problems.push(`${name}: ${(error as Error).message}`);
        log(`${name}: WRONG: ${(error as Error).message}`);
      }
    }
  } finally {
    await world.server.close();
    line.remove();
  }
  return { ended, commandMiB, serverGrowthMiB };
}

const columnsOfRows = [
  { name: 'id', type: 'BIGINT' },
  { name: 'amount', type: 'BIGINT' },
  { name: 'label', type: 'STRING' },
  { name: 'note', type: 'STRING' },
];

async function prepare({ line, server, columns }: World): Promise<void> {
  await signIn(line, server);
  await server.client.databases.create({ name: 'streams' });
  await server.client.databases('streams').tables.create({ name: 'rows', columns }).done();
  const small = await onTerminal(line, {
    feed: 'few.csv',
    words: 'load - --name few.csv -d streams -t few --create',
  });
  assert.equal(small.code, 0, small.shown);
}

async function requireRows({ server }: Pick<World, 'server'>, expected: RowSums): Promise<void> {
  const [row] = await server.rows('streams', 'SELECT count(*), coalesce(sum(amount), 0), count(DISTINCT id) FROM rows');
  assert.deepEqual((row as readonly unknown[]).map(Number), [expected.rows, expected.amount, expected.rows]);
}

const none: RowSums = { rows: 0, amount: 0 };
const uploads = ({ server }: Pick<World, 'server'>) => server.client.uploads.list().all();
const exports = ({ server }: Pick<World, 'server'>) => server.client.tasks.search({ type: 'export' }).all();

const load = (label: string): TerminalCommand => ({
  feed: 'rows.csv',
  words: `load - --name rows.csv -d streams -t rows --label ${label}`,
});
const exportTo = (rest: string): TerminalCommand => ({
  words: `export -d streams -t rows --format csv ${rest}`,
});

/** Bars never go back, count no more than there is, and the share is that of the bytes. */
function requireBar({ shown }: Shown, totalBytes: number): void {
  const bars = bytesShown(shown);
  assert.ok(bars.length > 2, `a bar is shown: ${shown.slice(-300)}`);
  // Megabytes have one decimal.
  const inexact = 60_000;
  for (const [i, { bytes, percent }] of bars.entries()) {
    assert.ok(bytes <= totalBytes + inexact, `${bytes} of ${totalBytes} bytes`);
    assert.ok(bytes >= (bars[i - 1]?.bytes ?? 0), 'a bar goes back');
    if (percent === undefined) continue;
    assert.ok(Math.abs(percent - (100 * bytes) / totalBytes) <= 1.5, `${percent} % of ${bytes} of ${totalBytes} bytes`);
  }
}

/** Resolves when the bar shows that a share of the bytes was transferred. */
const isAt = (share: number, { bytes }: World) => ({
  until: (shown: string) => (bytesShown(shown).at(-1)?.bytes ?? 0) >= share * bytes,
});

async function restart(world: World): Promise<void> {
  const { port } = new URL(world.server.url);
  world.server = await startProcess([`--port=${port}`], join(world.line.directory, 'data'));
}

async function killServer({ server }: World): Promise<void> {
  server.child.kill('SIGKILL');
  await server.exited;
}

/** A file system in memory. Only root can mount one. */
function mount(options: string, directory: string): void {
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
}

const cells: readonly (readonly [string, (world: World) => Promise<Shown[]>])[] = [
  ['load, the server killed', loadWithKilledServer],
  ['load, Ctrl-C', loadInterrupted],
  ['load, the disk of the server full', loadOntoFullDisk],
  ['load, the reader of its output gone', loadWithoutReader],
  ['load, repeated', loadRepeated],
  ['export, the server killed', exportWithKilledServer],
  ['export, Ctrl-C', exportInterrupted],
  ['export, the disk full', exportOntoFullDisk],
  ['export | head', exportIntoHead],
  ['export, repeated', exportRepeated],
];

async function loadWithKilledServer(world: World): Promise<Shown[]> {
  const broken = await onTerminal(world.line, {
    ...load('once'),
    ...isAt(0.4, world),
    act: () => killServer(world),
  });
  await restart(world);
  requireBar(broken, world.bytes);
  assert.equal(broken.code, 3, broken.shown);
  assert.match(broken.shown, /NO_ANSWER: .*\r?\n.*check that the server runs/);
  await requireRows(world, none);
  // What a lost server kept counts towards the quota until it expires; nothing reads it.
  for (const { uploadId } of await uploads(world)) await world.server.client.uploads(uploadId).delete();
  return [broken];
}

async function loadInterrupted(world: World): Promise<Shown[]> {
  const broken = await onTerminal(world.line, { ...load('once'), ...isAt(0.5, world), act: 'Ctrl-C' });
  requireBar(broken, world.bytes);
  assert.equal(broken.code, 130, broken.shown);
  assert.deepEqual(await uploads(world), []);
  await requireRows(world, none);
  return [broken];
}

/** A server of its own on a file system of half of the file, which is made larger afterwards. */
async function loadOntoFullDisk(world: World): Promise<Shown[]> {
  const line = newCommandLine();
  const disk = join(line.directory, 'disk');
  mkdirSync(disk);
  const size = (factor: number) => `size=${Math.round(factor * world.bytes)}`;
  mount(size(0.5), disk);
  const server = await startProcess([], join(disk, 'data'));
  const own: World = { ...world, line, server };
  try {
    for (const name of ['rows.csv', 'few.csv']) linkSync(join(world.line.directory, name), join(line.directory, name));
    await prepare(own);
    const broken = await onTerminal(line, load('once'));
    requireBar(broken, world.bytes);
    assert.equal(broken.code, 3, broken.shown);
    assert.match(broken.shown, /STORAGE_FULL: .*\r?\n.*[Ff]ree space/);
    assert.deepEqual(await uploads(own), []);
    await requireRows(own, none);
    assert.equal(spawnSync('mount', ['-o', `remount,${size(6)}`, disk]).status, 0);
    const repeated = await onTerminal(line, load('once'));
    assert.equal(repeated.code, 0, repeated.shown);
    await requireRows(own, world.sums);
    return [broken, repeated];
  } finally {
    await server.close();
    spawnSync('umount', [disk]);
    line.remove();
  }
}

/** What it says about its success is lost, and its rows are not. */
async function loadWithoutReader(world: World): Promise<Shown[]> {
  const ended = await onTerminal(world.line, { ...load('once'), into: 'true' });
  requireBar(ended, world.bytes);
  assert.equal(ended.code, 141, ended.shown);
  await requireRows(world, world.sums);
  assert.deepEqual(await uploads(world), []);
  return [ended];
}

/** Nothing is sent again. */
async function loadRepeated(world: World): Promise<Shown[]> {
  const ended = await onTerminal(world.line, load('once'));
  assert.equal(ended.code, 0, ended.shown);
  assert.match(ended.shown, /loaded before with this label/);
  assert.deepEqual(bytesShown(ended.shown), []);
  await requireRows(world, world.sums);
  return [ended];
}

const filesOf = ({ line }: World) => readdirSync(line.directory).filter((name) => name.includes('out.csv'));

async function exportWithKilledServer(world: World): Promise<Shown[]> {
  const broken = await onTerminal(world.line, {
    ...exportTo('-o out.csv'),
    ...isAt(0.4, world),
    act: () => killServer(world),
  });
  await restart(world);
  assert.equal(broken.code, 3, broken.shown);
  requireBar(broken, world.bytes);
  assert.match(broken.shown, /NO_ANSWER: .*\r?\n.*check that the server runs/);
  assert.deepEqual(filesOf(world), []);
  await requireRows(world, world.sums);
  for (const { taskId } of await exports(world)) await world.server.client.tasks(taskId).delete();
  return [broken];
}

async function exportInterrupted(world: World): Promise<Shown[]> {
  const broken = await onTerminal(world.line, {
    ...exportTo('-o out.csv'),
    ...isAt(0.4, world),
    act: 'Ctrl-C',
  });
  assert.equal(broken.code, 130, broken.shown);
  requireBar(broken, world.bytes);
  assert.deepEqual([filesOf(world), await exports(world)], [[], []]);
  return [broken];
}

async function exportOntoFullDisk(world: World): Promise<Shown[]> {
  const disk = join(world.line.directory, 'small');
  mkdirSync(disk);
  mount(`size=${Math.round(world.bytes / 4)}`, disk);
  try {
    const broken = await onTerminal(world.line, exportTo('-o small/out.csv'));
    assert.equal(broken.code, 1, broken.shown);
    requireBar(broken, world.bytes);
    assert.match(broken.shown, /cannot be written \(the disk is full: make room, or choose another place\)/);
    assert.deepEqual([readdirSync(disk), await exports(world)], [[], []]);
    return [broken];
  } finally {
    spawnSync('umount', [disk]);
  }
}

async function exportIntoHead(world: World): Promise<Shown[]> {
  const broken = await onTerminal(world.line, {
    ...exportTo(''),
    into: `head --bytes=${Math.round(world.bytes / 3)} > head.csv`,
  });
  assert.equal(broken.code, 141, broken.shown);
  requireBar(broken, world.bytes);
  await eventually('nothing of the export is left', async () => (await exports(world)).length === 0);
  return [broken];
}

async function exportRepeated(world: World): Promise<Shown[]> {
  const ended = await onTerminal(world.line, exportTo('-o out.csv'));
  assert.equal(ended.code, 0, ended.shown);
  requireBar(ended, world.bytes);
  const found: RowSums = { rows: 0, amount: 0 };
  let rest = '';
  for await (const chunk of createReadStream(join(world.line.directory, 'out.csv'), 'latin1')) {
    const lines = (rest + (chunk as string)).split('\n');
    rest = lines.pop() ?? '';
    for (const text of lines) {
      if (`${text}\n` === header) continue;
      found.rows++;
      found.amount += Number(text.split(',', 2)[1]);
    }
  }
  assert.deepEqual([found, rest], [world.sums, '']);
  assert.equal(statSync(join(world.line.directory, 'out.csv')).size, world.bytes);
  return [ended];
}
