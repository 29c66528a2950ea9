// How the engine process is started: with nothing of the server's environment that it does not need and, on Linux, restricted in what it
// sees and may do. In the namespaces: confinement_script.ts. Landlock and the filter of system calls: sandbox_exec.ts.
import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ConfinementMeasure } from '../../engine.ts';
import { compileCache } from '../process/compile_cache.ts';
import { namespaceScript } from './namespace_script.ts';
import { channelVariable, type SandboxReport, type SandboxRequest, sandboxMeasures } from './sandbox_exec.ts';

/** `auto`: what the platform allows; `required`: the engine does not start without namespaces; `off`: nothing. */
export type ConfinementMode = 'auto' | 'required' | 'off';

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly confinement: readonly ConfinementMeasure[];
}

export interface EngineDirectories {
  /** Holds the others, and things that are not the engine's. */
  readonly data: string;
  /** Where the engine writes. */
  readonly writable: readonly string[];
  /** What it reads besides its program. */
  readonly readable?: readonly string[];
}

type Measure = ConfinementMeasure['measure'];
/** Why a measure is not available; absent: it is. */
type Obstacles = Readonly<Partial<Record<Measure, string>>>;

interface Command {
  readonly command: string;
  readonly args: readonly string[];
}

const measures: readonly Measure[] = ['namespaces', ...sandboxMeasures];
/** Threads of the engine's bindings: more than statements can run at a time, or one would wait for another. */
const threadPoolSize = 64;
/** What the platform allows must not depend on how busy the machine is at the start. */
const trialTimeoutMsDefault = 120_000;
const passedOn = /^(?:PATH|LANG|LANGUAGE|LC_\w+|TZ|LD_LIBRARY_PATH)$/;
/** What a program on Linux needs to run, wherever a distribution keeps it. What is not there is passed over. */
const system = '/usr /lib /lib64 /bin /nix/store /gnu/store /etc/ld.so.cache /etc/localtime /dev/null /dev/urandom';
/** What it reads of all processes together: the C library, Node.js and the allocator of the engine adapt to it. */
const statistics = '/proc/cpuinfo /proc/meminfo /proc/stat /proc/version /proc/sys/vm/overcommit_memory';

/** What it reads of the machine without namespaces; in them the rest of these paths does not exist. */
const machine = '/proc /sys/fs/cgroup /sys/devices/system/cpu';

const here = fileURLToPath(import.meta.url);
const adapter = dirname(dirname(here));
/** In a clone the sources run; in a package, what was compiled from them. */
const program = (room: string, name: string) => join(adapter, room, `${name}${here.endsWith('.ts') ? '.ts' : '.js'}`);
const worker = program('process', 'worker');
const launcher = program('sandbox', 'sandbox_exec');

/** Secrets may be among the variables of the server: only what is known to be needed is passed on. */
export function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => passedOn.test(name))),
    UV_THREADPOOL_SIZE: String(threadPoolSize),
    // Node.js ends where the machine's configuration of OpenSSL exists and cannot be read.
    OPENSSL_CONF: '/dev/null',
  };
}

/** The command in namespaces of its own. Its process stays the one that was started: same id, same signals. */
export function confinedCommand(directories: EngineDirectories, command: readonly string[]): Command {
  const { data, writable } = pathsOf(directories);
  const namespaces = ['--user', '--map-root-user', '--mount', '--net', '--ipc', '--uts', '--propagation', 'private'];
  const read = topmost([...pathsOf(directories).readable, ...existing(statistics)]);
  const places = [data, ...read, '--', ...writable, '--'];
  return {
    command: 'unshare',
    args: [...namespaces, 'sh', '-c', namespaceScript, 'engine', ...places, ...command],
  };
}

/** The command under the measures: they are applied by a program that then becomes the command. */
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
  #isTold = false;

  constructor(mode: ConfinementMode, trialTimeoutMs = trialTimeoutMsDefault) {
    this.#mode = mode;
    this.#trialTimeoutMs = trialTimeoutMs;
  }

  /** How to start an engine. Throws where it has to be in namespaces and cannot be. */
  async launch(directories: EngineDirectories): Promise<Launch> {
    for (const path of directories.writable) await mkdir(path, { recursive: true, mode: 0o700 });
    const obstacles = await this.#obstacles(directories);
    if (this.#mode === 'required' && obstacles.namespaces !== undefined)
      throw new Error(`it cannot be confined: ${obstacles.namespaces}`);
    const own = engineEnvironment(process.env);
    const compiled = await compileCache([worker, launcher], own);
    const readable = [...(directories.readable ?? []), ...(compiled === undefined ? [] : [compiled])];
    const places = { ...directories, readable };
    const applied = sandboxMeasures.filter((measure) => obstacles[measure] === undefined);
    const sandboxed = sandboxedCommand(places, { measures: applied }, [process.execPath, worker]);
    const [command = '', ...args] = sandboxed;
    return {
      ...(obstacles.namespaces === undefined ? confinedCommand(places, sandboxed) : { command, args }),
      env: compiled === undefined ? own : { ...own, NODE_COMPILE_CACHE: compiled },
      confinement: measures.map((measure) => {
        const reason = obstacles[measure] ?? null;
        return { measure, active: reason === null, reason };
      }),
    };
  }

  /** All engines of a server are in the same case. */
  tellOnce(tell: () => void): void {
    if (!this.#isTold) tell();
    this.#isTold = true;
  }

  async #obstacles(directories: EngineDirectories): Promise<Obstacles> {
    if (this.#mode === 'off') return onAll('engineConfinement is off');
    platform ??= obstaclesTo(directories, this.#trialTimeoutMs);
    const asked = platform;
    const { obstacles, isCertain } = await asked;
    // The machine was busy: the next start of an engine tries again.
    if (!isCertain && platform === asked) platform = undefined;
    return obstacles;
  }
}

/** Retained once it is certain: where a measure worked, no engine of this process starts without it. */
let platform: Promise<Found> | undefined;

interface Found {
  readonly obstacles: Obstacles;
  /** No trial was cut short. */
  readonly isCertain: boolean;
}

const onAll = (reason: string, of: readonly Measure[] = measures): Obstacles =>
  Object.fromEntries(of.map((measure) => [measure, reason]));

async function obstaclesTo(directories: EngineDirectories, timeoutMs: number): Promise<Found> {
  if (process.platform !== 'linux')
    return { obstacles: onAll(`${process.platform} does not have it`), isCertain: true };
  const version = [process.execPath, '--version'];
  const trial = sandboxedCommand(directories, { measures: sandboxMeasures, isTrial: true }, version);
  const all = await tried(confinedCommand(directories, trial), timeoutMs);
  if (all.report) return { obstacles: all.report, isCertain: true };
  const namespaces = await tried(confinedCommand(directories, version), timeoutMs);
  // Outside of them the machine has files that the engine finds and cannot read: only the engine itself shows whether it can do without.
  const [command = '', ...args] = sandboxedCommand(
    directories,
    { measures: sandboxMeasures, isTrial: true },
    openingEngine(),
  );
  const sandbox = await tried({ command, args }, timeoutMs);
  return {
    obstacles: {
      ...(namespaces.reason === undefined ? {} : { namespaces: namespaces.reason }),
      // What works alone and not in the namespaces is not used with them.
      ...(namespaces.reason !== undefined && sandbox.report
        ? sandbox.report
        : onAll(sandbox.reason ?? all.reason ?? '', sandboxMeasures)),
    },
    isCertain: ![all, namespaces, sandbox].some(({ isTimedOut }) => isTimedOut),
  };
}

/** A command that opens an engine without data, and then says the version. */
function openingEngine(): readonly string[] {
  const bindings = JSON.stringify(import.meta.resolve('@duckdb/node-api'));
  const text = `import { DuckDBInstance } from ${bindings}; await DuckDBInstance.create(':memory:'); console.log(process.version)`;
  return [process.execPath, '--input-type=module', '-e', text];
}

interface Tried {
  /** Of a trial that came to its end. */
  readonly report?: SandboxReport;
  /** Why the program did not print its version at the end. */
  readonly reason?: string;
  /** The trial shows nothing of the platform. */
  readonly isTimedOut?: boolean;
}

function tried({ command, args }: Command, timeoutMs: number): Promise<Tried> {
  return new Promise((done) => {
    const options = { timeout: timeoutMs, env: engineEnvironment(process.env) };
    execFile(command, args, options, (error, output, complaint) => {
      if (error?.killed) return done({ reason: `its trial timed out after ${timeoutMs} ms`, isTimedOut: true });
      const lines = output.trim().split('\n');
      if (!error && lines.at(-1) === process.version)
        return done(lines.length > 1 ? { report: JSON.parse(lines[0] as string) as SandboxReport } : {});
      const said = complaint.trim().split('\n', 1)[0];
      const reason = said || (error ? error.message.split('\n', 1)[0] : undefined);
      done({ reason: reason || 'the program does not run there' });
    });
  });
}

/** Names of the measures that are active, for a log. */
export const activeOf = (of: readonly ConfinementMeasure[]): string =>
  of.flatMap(({ measure, active }) => (active ? [measure] : [])).join(', ') || 'none';

/** Those that are not, with their reasons; the empty text: all are. */
export const inactiveOf = (of: readonly ConfinementMeasure[]): string =>
  of.flatMap(({ measure, active, reason }) => (active ? [] : [`${measure}: ${reason}`])).join('; ');

interface Paths {
  readonly data: string;
  readonly readable: readonly string[];
  readonly writable: readonly string[];
}

function pathsOf({ data, writable, readable = [] }: EngineDirectories): Paths {
  return {
    data: resolve(data),
    readable: [...ofProgram(), ...readable.filter((path) => existsSync(path))],
    writable: writable.map((path) => resolve(path)),
  };
}

const existing = (paths: string) => paths.split(' ').filter((path) => existsSync(path));

/** What the engine's program is made of, and the libraries it is told to use. */
function ofProgram(): string[] {
  const modules = dirname(dirname(adapter));
  const libraries = (process.env.LD_LIBRARY_PATH ?? '').split(':').filter((path) => path.startsWith('/'));
  const paths = [process.execPath, ...libraries, modules, join(dirname(modules), 'package.json'), ...packages()];
  return [...existing(system), ...paths.filter((path) => existsSync(path))];
}

/** What lies below another is there already. */
function topmost(all: readonly string[]): string[] {
  return [...new Set(all)].filter((path) => !all.some((other) => path.startsWith(other + sep)));
}

/** Each node_modules where Node looks for a package of ours, and those that links lead to. */
function packages(): string[] {
  const found: string[] = [];
  for (let at = dirname(here); at !== dirname(at); at = dirname(at)) found.push(join(at, 'node_modules'));
  const bindings = realpathSync(fileURLToPath(import.meta.resolve('@duckdb/node-api')));
  const top = bindings.indexOf(`${sep}node_modules${sep}`);
  if (top >= 0) found.push(bindings.slice(0, top + `${sep}node_modules`.length));
  return found;
}
