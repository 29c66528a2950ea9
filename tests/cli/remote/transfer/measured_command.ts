// Commands with streams of any size at their ends, and how much memory they took.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { type CommandLine, main } from '../command_process.ts';

const sampleEveryMs = 20;

export interface MeasuredOptions {
  readonly input?: AsyncIterable<Uint8Array>;
  /** Gets each part of what the command writes. */
  readonly onOutput?: (chunk: Buffer) => void;
  readonly started?: (kill: (signal: NodeJS.Signals) => void) => void;
  /** What ends the command if it takes longer, in milliseconds. */
  readonly timeoutMs: number;
}

export interface Measured {
  readonly code: number | null;
  readonly stderr: string;
  /** The most that the command had in memory (VmHWM). */
  readonly peakMiB: number;
}

/** VmHWM: the most that a process has had in memory. Undefined once it has ended. */
export function peakMiB(pid: number | undefined): number | undefined {
  try {
    const found = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return found ? Math.round(Number(found[1]) / 1024) : undefined;
  } catch {
    return undefined;
  }
}

export async function runMeasured(
  line: CommandLine,
  words: readonly string[],
  { input, onOutput = () => undefined, started, timeoutMs }: MeasuredOptions,
): Promise<Measured> {
  const child = spawn(process.execPath, [main, ...words], { cwd: line.directory, env: line.env, timeout: timeoutMs });
  started?.((signal) => child.kill(signal));
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  child.stdout.on('data', onOutput);
  // A command that has ended reads no more of its input.
  const sent = input ? pipeline(Readable.from(input), child.stdin).catch(() => undefined) : undefined;
  if (!input) child.stdin.end();
  const ended = once(child, 'close') as Promise<[number | null]>;
  let [peak, hasEnded] = [0, false];
  void ended.then(() => {
    hasEnded = true;
  });
  while (!hasEnded) {
    peak = Math.max(peak, peakMiB(child.pid) ?? 0);
    await Promise.race([ended, pause(sampleEveryMs)]);
  }
  const [code] = await ended;
  await sent;
  return { code, stderr, peakMiB: peak };
}
