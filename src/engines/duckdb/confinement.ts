// How the engine process is started: with nothing of the server's environment that it does not need and, on Linux, in namespaces
// of its own, where it sees its program and its data and no network. What is done in there: confinement_script.ts.
import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compiledCode } from './compiled_code.ts';
import { confinementScript } from './confinement_script.ts';

/** `auto`: where the platform allows it; `required`: the engine does not start without it; `off`: never. */
export type ConfinementMode = 'auto' | 'required' | 'off';

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Where it is not confined: why. */
  readonly unconfined?: string;
}

export interface EngineDirectories {
  /** Holds the others, and things that are not the engine's. */
  readonly data: string;
  /** Where the engine writes. */
  readonly writable: readonly string[];
  /** What it reads besides its program. */
  readonly readable?: readonly string[];
}

/** Threads of the engine's bindings: more than statements can run at a time, or one would wait for another. */
const threadPoolSize = 64;
const probeTimeoutMs = 10_000;
const passedOn = /^(?:PATH|LANG|LANGUAGE|LC_\w+|TZ|LD_LIBRARY_PATH)$/;
/** What a program on Linux needs to run, wherever a distribution keeps it. What is not there is passed over. */
const system =
  '/usr /lib /lib64 /bin /nix/store /gnu/store /etc/ld.so.cache /etc/localtime /dev/null /dev/urandom /proc';

const here = fileURLToPath(import.meta.url);
const worker = join(dirname(here), here.endsWith('.ts') ? 'worker.ts' : 'worker.js');

/** Secrets may be among the variables of the server: only what is known to be needed goes on. */
export function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => passedOn.test(name))),
    UV_THREADPOOL_SIZE: String(threadPoolSize),
  };
}

/** The command in namespaces of its own. Its process stays the one that was started: same id, same signals. */
export function confinedCommand(
  { data, writable, readable = [] }: EngineDirectories,
  command: readonly string[],
): { readonly command: string; readonly args: readonly string[] } {
  const namespaces = ['--user', '--map-root-user', '--mount', '--net', '--ipc', '--propagation', 'private'];
  const read = topmost([...ofProgram(), ...readable.filter((path) => existsSync(path))]);
  const places = [resolve(data), ...read, '--', ...writable.map((path) => resolve(path)), '--'];
  return {
    command: 'unshare',
    args: [...namespaces, 'sh', '-c', confinementScript, 'engine', ...places, ...command],
  };
}

export class Confinement {
  readonly #mode: ConfinementMode;
  #isTold = false;

  constructor(mode: ConfinementMode) {
    this.#mode = mode;
  }

  /** How to start an engine. Throws where it has to be confined and cannot be. */
  async launch(directories: EngineDirectories): Promise<Launch> {
    const program = [process.execPath, worker];
    const own = engineEnvironment(process.env);
    const compiled = await compiledCode(worker, own);
    const env = compiled === undefined ? own : { ...own, NODE_COMPILE_CACHE: compiled };
    const readable = [...(directories.readable ?? []), ...(compiled === undefined ? [] : [compiled])];
    for (const path of directories.writable) await mkdir(path, { recursive: true, mode: 0o700 });
    const unconfined = await this.#obstacle(directories);
    if (unconfined === undefined) return { ...confinedCommand({ ...directories, readable }, program), env };
    if (this.#mode === 'required') throw new Error(`it cannot be confined: ${unconfined}`);
    return { command: process.execPath, args: [worker], env, unconfined };
  }

  /** All engines of a server are in the same case. */
  tellOnce(tell: () => void): void {
    if (!this.#isTold) tell();
    this.#isTold = true;
  }

  async #obstacle(directories: EngineDirectories): Promise<string | undefined> {
    if (this.#mode === 'off') return 'engineConfinement is off';
    platformObstacle ??= obstacleTo(directories);
    return platformObstacle;
  }
}

/** Asked once: where it worked, an engine that cannot be confined any more does not start. */
let platformObstacle: Promise<string | undefined> | undefined;

/** Starts the program in the namespaces, to say its version. */
function obstacleTo(directories: EngineDirectories): Promise<string | undefined> {
  if (process.platform !== 'linux') return Promise.resolve(`${process.platform} has no namespaces`);
  const { command, args } = confinedCommand(directories, [process.execPath, '--version']);
  return new Promise((done) => {
    const options = { timeout: probeTimeoutMs, env: engineEnvironment(process.env) };
    execFile(command, args, options, (error, output, complaint) => {
      if (!error && output.trim() === process.version) return done(undefined);
      const said = complaint.trim().split('\n', 1)[0];
      done(said || (error ? error.message.split('\n', 1)[0] : undefined) || 'the program does not run there');
    });
  });
}

/** What the engine's program is made of, and the libraries it is told to use. */
function ofProgram(): string[] {
  const modules = dirname(dirname(dirname(here)));
  const libraries = (process.env.LD_LIBRARY_PATH ?? '').split(':').filter((path) => path.startsWith('/'));
  const paths = [process.execPath, ...libraries, modules, join(dirname(modules), 'package.json'), ...packages()];
  return [...system.split(' '), ...paths].filter((path) => existsSync(path));
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
