// The program that becomes the engine: applies Landlock and a system call filter to its own process, then replaces itself with the
// given command, which is restricted from its first instruction on and in every thread.
import { readFileSync } from 'node:fs';
import { applyLandlock, type LandlockPaths } from './landlock.ts';
import { applySeccomp } from './seccomp.ts';
import { passOn, systemCalls } from './system_calls.ts';

/** In the order in which they are applied. */
export const sandboxMeasures = ['landlock', 'seccomp'] as const;
export type SandboxMeasure = (typeof sandboxMeasures)[number];

/** The first argument of the program, as JSON. The other arguments are the command. */
export interface SandboxRequest extends Pick<LandlockPaths, 'readable' | 'writable'> {
  /** Each must succeed, except in a trial, which writes a `SandboxReport` to standard output instead. */
  readonly measures: readonly SandboxMeasure[];
  readonly isTrial?: boolean;
}

/** Why a measure could not be applied; absent if it was. */
export type SandboxReport = { [K in SandboxMeasure]?: string };

/** Holds the value of NODE_CHANNEL_FD until the command runs: if it were set, this program would read the command's messages. */
export const channelVariable = 'ENGINE_CHANNEL_FD';

const devices = ['/dev/null'];

/** The executable of Node.js, which also runs the command, and the dynamic loader. */
function executables(): string[] {
  const loaders = readFileSync('/proc/self/maps', 'utf8').match(/\/.*\/ld[-.][^/\n]*$/gm) ?? [];
  return [process.execPath, ...new Set(loaders)];
}

async function restrict({ measures, isTrial = false, readable, writable }: SandboxRequest): Promise<void> {
  const report: SandboxReport = {};
  for (const measure of measures) {
    try {
      const calls = await systemCalls();
      if (measure === 'seccomp') applySeccomp(calls, process.pid);
      else applyLandlock(calls, { readable, writable, devices, executable: executables() });
    } catch (error) {
      const { message } = error as Error;
      if (!isTrial) throw new Error(`${measure} cannot be applied: ${message}`, { cause: error });
      report[measure] = message;
    }
  }
  if (isTrial) process.stdout.write(`${JSON.stringify(report)}\n`);
}

if (import.meta.main && process.argv.length > 2) {
  const [request = '', command = '', ...args] = process.argv.slice(2);
  await restrict(JSON.parse(request) as SandboxRequest);
  const { [channelVariable]: channel, ...env } = process.env;
  if (channel) {
    passOn((await systemCalls()).call, Number(channel));
    env.NODE_CHANNEL_FD = channel;
  }
  process.execve?.(command, [command, ...args], env);
}
