// How an engine process is started: with only the environment variables that it needs and, on Linux, restricted in what it can see
// and do. See namespace_script.ts for the namespaces, sandbox_exec.ts for Landlock and the system call filter.
import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ConfinementMeasure } from '../../port/backends.ts';
import { compileCache } from '../process/compile_cache.ts';
import { namespaceScript } from './namespace_script.ts';
import { channelVariable, type SandboxReport, type SandboxRequest, sandboxMeasures } from './sandbox_exec.ts';

/** `auto`: as far as the platform allows; `required`: the engine does not start without namespaces; `off`: no confinement. */
export type ConfinementMode = 'auto' | 'required' | 'off';

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly confinement: readonly ConfinementMeasure[];
}

export interface EngineDirectories {
  /** Contains the others, and files that the engine must not see. */
  readonly data: string;
  /** Directories to which the engine writes. */
  readonly writable: readonly string[];
  /** Paths that it reads besides its program. */
  readonly readable?: readonly string[];
}

type Measure = ConfinementMeasure['measure'];
/** Why a measure is not available; absent if it is. */
type Obstacles = Readonly<Partial<Record<Measure, string>>>;

interface Command {
  readonly command: string;
  readonly args: readonly string[];
}

const measures: readonly Measure[] = ['namespaces', ...sandboxMeasures];
/** Threads of the engine's bindings: more than the statements that can run at a time, so that none waits for another. */
const threadPoolSize = 64;
/** Long, because the result must not depend on how busy the machine is at the start. */
const trialTimeoutMsDefault = 120_000;
const passedVariables = /^(?:PATH|LANG|LANGUAGE|LC_\w+|TZ|LD_LIBRARY_PATH)$/;
/** What a program on Linux needs to run, across distributions. Missing paths are skipped. */
const system = '/usr /lib /lib64 /bin /nix/store /gnu/store /etc/ld.so.cache /etc/localtime /dev/null /dev/urandom';
/** System-wide statistics that the C library, Node.js and the engine's allocator read. */
const statistics = '/proc/cpuinfo /proc/meminfo /proc/stat /proc/version /proc/sys/vm/overcommit_memory';

/** What it may read of the machine without namespaces; in namespaces most of these paths do not exist. */
const machine = '/proc /sys/fs/cgroup /sys/devices/system/cpu';

const thisFile = fileURLToPath(import.meta.url);
const adapterDirectory = dirname(dirname(thisFile));
const program = (path: string) => join(adapterDirectory, `${path}${thisFile.endsWith('.ts') ? '.ts' : '.js'}`);
const worker = program('process/worker');
const launcher = program('sandbox/sandbox_exec');

/** The environment of the server may contain secrets: only variables that are known to be needed are passed on. */
function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => passedVariables.test(name))),
    UV_THREADPOOL_SIZE: String(threadPoolSize),
    // Node.js exits if the machine's OpenSSL configuration exists and cannot be read.
    OPENSSL_CONF: '/dev/null',
  };
}

/**
 * Runs after the kernel was asked to kill this process when its parent ends: a parent that ended before is not reported. Without this
 * check, an engine whose server was killed while it started could run forever: Node.js does not return from the creation of a compile
 * cache in a directory that was removed, and so never finds that the server is gone.
 */
const parentCheck = '[ "$PPID" = "$1" ] || exit 1; shift; exec "$@"';

/** Wraps the command in new namespaces. The process id does not change, so signals reach the command. */
export function confinedCommand(directories: EngineDirectories, command: readonly string[]): Command {
  const { data, writable } = pathsOf(directories);
  const namespaces = ['--user', '--map-root-user', '--mount', '--net', '--ipc', '--uts', '--propagation', 'private'];
  const read = topmost([...pathsOf(directories).readable, ...existing(statistics)]);
  const script = namespaceScript({ data, readable: read, writable });
  const whileServerRuns = ['sh', '-c', parentCheck, 'engine', String(process.pid)];
  return {
    command: 'unshare',
    args: [...namespaces, 'sh', '-c', script, 'engine', ...whileServerRuns, ...command],
  };
}

/** Wraps the command in a program that applies the measures and then becomes the command. */
export function sandboxedCommand(
  directories: EngineDirectories,
  options: Pick<SandboxRequest, 'measures' | 'isTrial'>,
  command: readonly string[],
): readonly string[] {
  if (options.measures.length === 0) return command;
  const { readable, writable } = pathsOf(directories);
  const request: SandboxRequest = { ...options, readable: [...readable, ...existing(machine)], writable };
  const hideChannel = `export ${channelVariable}="\${NODE_CHANNEL_FD-}"; unset NODE_CHANNEL_FD; exec "$@"`;
  const flags = process.allowedNodeEnvironmentFlags.has('--experimental-ffi') ? ['--experimental-ffi'] : [];
  const node = [process.execPath, '--disable-warning=ExperimentalWarning', ...flags];
  return ['sh', '-c', hideChannel, 'engine', ...node, launcher, JSON.stringify(request), ...command];
}

export class Confinement {
  readonly #mode: ConfinementMode;
  readonly #trialTimeoutMs: number;
  #isReported = false;

  constructor(mode: ConfinementMode, trialTimeoutMs = trialTimeoutMsDefault) {
    this.#mode = mode;
    this.#trialTimeoutMs = trialTimeoutMs;
  }

  /** Returns how to start an engine. Throws if namespaces are required and unavailable. */
  async launch(directories: EngineDirectories): Promise<Launch> {
    for (const path of directories.writable) await mkdir(path, { recursive: true, mode: 0o700 });
    const obstacles = await this.#obstacles(directories);
    if (this.#mode === 'required' && obstacles.namespaces !== undefined)
      throw new Error(`the engine cannot be confined: ${obstacles.namespaces}`);
    const environment = engineEnvironment(process.env);
    const cacheDirectory = await compileCache([worker, launcher], environment);
    const readable = [...(directories.readable ?? []), ...(cacheDirectory === undefined ? [] : [cacheDirectory])];
    const paths = { ...directories, readable };
    const applied = sandboxMeasures.filter((measure) => obstacles[measure] === undefined);
    const sandboxed = sandboxedCommand(paths, { measures: applied }, [process.execPath, worker]);
    const [command = '', ...args] = sandboxed;
    return {
      ...(obstacles.namespaces === undefined ? confinedCommand(paths, sandboxed) : { command, args }),
      env: cacheDirectory === undefined ? environment : { ...environment, NODE_COMPILE_CACHE: cacheDirectory },
      confinement: measures.map((measure) => {
        const reason = obstacles[measure] ?? null;
        return { measure, active: reason === null, reason };
      }),
    };
  }

  /** Calls `report` only once: the result is the same for all engines of a server. */
  reportOnce(report: () => void): void {
    if (!this.#isReported) report();
    this.#isReported = true;
  }

  async #obstacles(directories: EngineDirectories): Promise<Obstacles> {
    if (this.#mode === 'off') return obstacleToAll('engineConfinement is off');
    platform ??= findObstacles(directories, this.#trialTimeoutMs);
    const trial = platform;
    const { obstacles, isCertain } = await trial;
    // A trial timed out on a busy machine: the next start of an engine tries again.
    if (!isCertain && platform === trial) platform = undefined;
    return obstacles;
  }
}

/** Cached once it is certain: if a measure worked, no engine of this server starts without it. */
let platform: Promise<PlatformSupport> | undefined;

interface PlatformSupport {
  readonly obstacles: Obstacles;
  /** No trial timed out. */
  readonly isCertain: boolean;
}

const obstacleToAll = (reason: string, affected: readonly Measure[] = measures): Obstacles =>
  Object.fromEntries(affected.map((measure) => [measure, reason]));

async function findObstacles(directories: EngineDirectories, timeoutMs: number): Promise<PlatformSupport> {
  if (process.platform !== 'linux')
    return { obstacles: obstacleToAll(`not available on ${process.platform}`), isCertain: true };
  const version = [process.execPath, '--version'];
  const trial = sandboxedCommand(directories, { measures: sandboxMeasures, isTrial: true }, version);
  const all = await runTrial(confinedCommand(directories, trial), timeoutMs);
  if (all.report) return { obstacles: all.report, isCertain: true };
  const namespaces = await runTrial(confinedCommand(directories, version), timeoutMs);
  // Outside of namespaces the engine finds files that it cannot read: only the engine itself shows whether it works without them.
  const [command = '', ...args] = sandboxedCommand(
    directories,
    { measures: sandboxMeasures, isTrial: true },
    openingEngine(),
  );
  const sandbox = await runTrial({ command, args }, timeoutMs);
  return {
    obstacles: {
      ...(namespaces.reason === undefined ? {} : { namespaces: namespaces.reason }),
      // A measure that works alone but not inside namespaces is not combined with them.
      ...(namespaces.reason !== undefined && sandbox.report
        ? sandbox.report
        : obstacleToAll(sandbox.reason ?? all.reason ?? '', sandboxMeasures)),
    },
    isCertain: ![all, namespaces, sandbox].some(({ isTimedOut }) => isTimedOut),
  };
}

/** A command that opens an engine without data and then prints the version of Node.js. */
function openingEngine(): readonly string[] {
  const bindings = JSON.stringify(import.meta.resolve('@duckdb/node-api'));
  const text = `import { DuckDBInstance } from ${bindings}; await DuckDBInstance.create(':memory:'); console.log(process.version)`;
  return [process.execPath, '--input-type=module', '-e', text];
}

interface TrialResult {
  /** Present if the trial completed. */
  readonly report?: SandboxReport;
  /** Why the program did not print its version at the end. */
  readonly reason?: string;
  /** The trial was inconclusive. */
  readonly isTimedOut?: boolean;
}

function runTrial({ command, args }: Command, timeoutMs: number): Promise<TrialResult> {
  return new Promise((done) => {
    const options = { timeout: timeoutMs, env: engineEnvironment(process.env) };
    execFile(command, args, options, (error, stdout, stderr) => {
      if (error?.killed) return done({ reason: `its trial timed out after ${timeoutMs} ms`, isTimedOut: true });
      const lines = stdout.trim().split('\n');
      if (!error && lines.at(-1) === process.version)
        return done(lines.length > 1 ? { report: JSON.parse(lines[0] as string) as SandboxReport } : {});
      const complaint = stderr.trim().split('\n', 1)[0];
      const reason = complaint || (error ? error.message.split('\n', 1)[0] : undefined);
      done({ reason: reason || 'the program does not run in the sandbox' });
    });
  });
}

/** The names of the active measures, for logs. */
export const activeOf = (confinement: readonly ConfinementMeasure[]): string =>
  confinement.flatMap(({ measure, active }) => (active ? [measure] : [])).join(', ') || 'none';

/** The inactive measures with their reasons; empty if all are active. */
export const inactiveOf = (confinement: readonly ConfinementMeasure[]): string =>
  confinement.flatMap(({ measure, active, reason }) => (active ? [] : [`${measure}: ${reason}`])).join('; ');

interface Paths {
  readonly data: string;
  readonly readable: readonly string[];
  readonly writable: readonly string[];
}

function pathsOf({ data, writable, readable = [] }: EngineDirectories): Paths {
  return {
    data: resolve(data),
    readable: [...programPaths(), ...readable.filter((path) => existsSync(path))],
    writable: writable.map((path) => resolve(path)),
  };
}

const existing = (paths: string) => paths.split(' ').filter((path) => existsSync(path));

/** The files of the engine's program and its libraries. */
function programPaths(): string[] {
  const modules = dirname(dirname(adapterDirectory));
  const libraries = (process.env.LD_LIBRARY_PATH ?? '').split(':').filter((path) => path.startsWith('/'));
  const paths = [
    process.execPath,
    ...libraries,
    modules,
    join(dirname(modules), 'package.json'),
    ...packageDirectories(),
  ];
  return [...existing(system), ...paths.filter((path) => existsSync(path))];
}

/** Removes paths that lie below another path of the list. */
function topmost(paths: readonly string[]): string[] {
  return [...new Set(paths)].filter((path) => !paths.some((other) => path.startsWith(other + sep)));
}

/** Each node_modules directory in which Node.js resolves packages, and the targets of links in them. */
function packageDirectories(): string[] {
  const found: string[] = [];
  for (let directory = dirname(thisFile); directory !== dirname(directory); directory = dirname(directory))
    found.push(join(directory, 'node_modules'));
  const bindings = realpathSync(fileURLToPath(import.meta.resolve('@duckdb/node-api')));
  const top = bindings.indexOf(`${sep}node_modules${sep}`);
  if (top >= 0) found.push(bindings.slice(0, top + `${sep}node_modules`.length));
  return found;
}
