// The command `serve`: starts the server, says where it is, stops it when told to; with `--demo`, shows what it can. How a
// server is made is handed in by main.ts.
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
  /** Stops taking requests, ends or hands back what runs, closes everything. Idempotent. */
  close(): Promise<void>;
}

export interface ServeOptions {
  readonly start: (settings: Settings) => Promise<RunningServer>;
  /** In the data directory. */
  readonly rootTokenFileName: string;
}

export function serveCommand(options: ServeOptions): Command {
  return {
    name: defaultCommand,
    doc: 'Serves the warehouse over REST; what is done when no command is named.',
    run: (settings, say) => serve(options, settings, say),
  };
}

const stopSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/** A terminal signals the whole process group, and npm and the launcher forward the same signal: so soon, it is not a second request. */
const repeatedSignalMs = 1_000;

/** Calls `stop` with the first signal; a later SIGTERM or SIGINT ends the process at once. */
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

/** How long after the start there is time for what nobody waits for. */
const afterStartMs = 1_000;

/**
 * The validators are loaded, so that only a request within the first second waits for them. Compiled code is written for the next start.
 * Loading leaves a heap that is half empty: one collection returns a fifth of the process's memory, and V8 does not do it by itself while
 * nothing is allocated.
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

async function serve({ start, rootTokenFileName }: ServeOptions, settings: Settings, say: (line: string) => void) {
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
  // Before it is said to be ready: whoever waits for that may send a signal at once.
  onStopSignal(stop);
  // A terminal that was closed fails every further write; the server still has to end in order.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  say(`Tabularium ${release} is ready.`);
  say(`  URL    ${server.url}`);
  say(`  data   ${server.dataDirectory}`);
  say(`  token  ${join(server.dataDirectory, rootTokenFileName)} (principal root)`);
  afterStart();
  if (!settings.demo) return;
  const { url, token, dataDirectory: dataDir } = server;
  try {
    const { runDemo } = await import('../demo/demo.ts');
    await runDemo({ url, token, scale: settings.scale, dataDir, out: say, signal: stopDemo.signal });
    say(`The server goes on at ${url}; Ctrl-C stops it.`);
  } catch (error) {
    if (stopDemo.signal.aborted) return;
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 1;
    stop('SIGTERM');
  }
}
