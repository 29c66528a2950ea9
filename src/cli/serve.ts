// The command `serve`: starts the server, prints its address, and stops it on a signal; with `--demo`, runs the demo. main.ts provides
// the function that starts a server.
import { flushCompileCache } from 'node:module';
import { constants } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { release } from '../model/release.ts';
import type { Settings } from '../settings/read_settings.ts';
import { validation } from '../standard/validation.ts';
import { type Command, defaultCommand } from './command.ts';

export interface RunningServer {
  readonly url: string;
  readonly token: string;
  readonly dataDirectory: string;
  /** A new one-time link by which the first user signs in to the console on this machine; undefined if that cannot be reached. */
  signInUrl(): string | undefined;
  /** Stops accepting requests, ends running statements, requeues tasks, and closes everything. Idempotent. */
  close(): Promise<void>;
}

export interface ServeOptions {
  readonly start: (settings: Settings) => Promise<RunningServer>;
}

export function serveCommand(options: ServeOptions): Command {
  return {
    name: defaultCommand,
    doc: 'Serves the warehouse over REST; the default command.',
    settings: 'all',
    examples: ['tabularium serve --port 8030 --data-dir /var/lib/tabularium', 'tabularium serve --demo'],
    outlivesReader: true,
    run: async (settings, print) => {
      await serve(options, settings, print);
      return undefined;
    },
  };
}

const stopSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/** A terminal signals the whole process group, and npm and the launcher forward the same signal: within this time it is not a second request. */
const repeatedSignalMs = 1_000;

/** Calls `stop` for the first signal; a later SIGTERM or SIGINT ends the process immediately. */
function onStopSignal(stop: (signal: NodeJS.Signals) => void): void {
  let stoppedAt: number | undefined;
  const received = (signal: (typeof stopSignals)[number]) => {
    if (stoppedAt === undefined) {
      stoppedAt = performance.now();
      stop(signal);
    } else if (signal !== 'SIGHUP' && performance.now() - stoppedAt > repeatedSignalMs)
      process.exit(128 + constants.signals[signal]);
  };
  for (const signal of stopSignals) process.on(signal, received);
}

/** The delay after the start before deferred work begins. */
const afterStartMs = 1_000;

/**
 * Deferred work: loads the validators, so that only a request within the first second waits for them, and writes the compile cache for the
 * next start. Loading leaves a half-empty heap: one garbage collection returns a fifth of the memory of the process, which V8 does not do
 * by itself while nothing is allocated.
 */
function afterStart(): void {
  setTimeout(() => {
    validation();
    flushCompileCache();
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as NodeJS.GCFunction;
    setFlagsFromString('--no-expose-gc');
    void collect({ type: 'major', execution: 'async', flavor: 'last-resort' });
  }, afterStartMs).unref();
}

function printConsole(server: RunningServer, print: (line: string) => void): void {
  const link = server.signInUrl();
  print(`  open   ${link ?? `${server.url}/console/`}`);
  if (link) print('         signs in as root: once, from this machine, within 15 minutes');
}

/**
 * Buffers outside the heap, such as those that are read from sockets, count as part of the heap when V8 decides whether to collect all of it. By
 * itself, V8 collects all of a heap of 30 MB for each 10 MB of such buffers, and a result of 100 MB took twice the processor time.
 */
function collectByWholeMemory(): void {
  setFlagsFromString('--external-memory-accounted-in-global-limit');
}

async function serve({ start }: ServeOptions, settings: Settings, print: (line: string) => void) {
  collectByWholeMemory();
  const server = await start(
    settings.demo && settings.logLevel === 'info' ? { ...settings, logLevel: 'warn' } : settings,
  );
  const stopDemo = new AbortController();
  const stop = (signal: NodeJS.Signals) => {
    stopDemo.abort();
    setTimeout(() => process.exit(1), settings.shutdownTimeoutMs).unref();
    server.close().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`the server did not stop cleanly after ${signal}: ${String(error)}\n`);
        process.exit(1);
      },
    );
  };
  // Before the ready message, because a client that waits for it can send a signal immediately.
  onStopSignal(stop);
  // After the terminal is closed every write fails; the server must still shut down cleanly.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  print(`Tabularium ${release} is ready.`);
  printConsole(server, print);
  print(`  URL    ${server.url}`);
  print(`  data   ${server.dataDirectory}`);
  const { rootTokenFileName } = await import('../access/authentication/root_token.ts');
  print(`  token  ${join(server.dataDirectory, rootTokenFileName)} (principal root)`);
  afterStart();
  if (!settings.demo) return;
  const { url, token, dataDirectory: dataDir } = server;
  try {
    const { runDemo } = await import('../demo/demo.ts');
    await runDemo({ url, token, scale: settings.scale, dataDir, out: print, signal: stopDemo.signal });
    print(`The server is running at ${url}; press Ctrl-C to stop it.`);
  } catch (error) {
    if (stopDemo.signal.aborted) return;
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 1;
    stop('SIGTERM');
  }
}
