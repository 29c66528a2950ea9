// Commands of the command line on a terminal, at the ends of pipes: what is shown there, how they end, and how much memory they take.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type CommandLine, main } from '../cli/remote/command_process.ts';
import { peakMiB } from '../cli/remote/transfer/measured_command.ts';

export interface TerminalCommand {
  /** The words after `tabularium`, as a shell reads them. */
  readonly words: string;
  /** A file that another process writes into the input. */
  readonly feed?: string;
  /** A command of the shell that reads the output. */
  readonly into?: string;
  /** By what is shown so far, when to do `act`. */
  readonly until?: (shown: string) => boolean;
  /** `Ctrl-C`: typed into the terminal, so that all processes of the command get the signal. */
  readonly act?: 'Ctrl-C' | (() => Promise<void>);
}

export interface Shown {
  /** Undefined: it did not end by itself. */
  readonly code: number | undefined;
  /** All characters that the terminal got. */
  readonly shown: string;
  /** The most that the command had in memory (VmHWM). */
  readonly peakMiB: number;
}

const sampleEveryMs = 20;
const timeoutMs = 10 * 60_000;

const numberIn = (path: string): number | undefined => {
  try {
    return Number(readFileSync(path, 'utf8')) || undefined;
  } catch {
    return undefined;
  }
};

export async function onTerminal(
  { directory, env }: CommandLine,
  { words, feed, into, until, act }: TerminalCommand,
): Promise<Shown> {
  const [pidFile, codeFile] = [join(directory, 'pid'), join(directory, 'code')];
  for (const file of [pidFile, codeFile]) rmSync(file, { force: true });
  const command = `sh -c 'echo $$ > pid; exec "${process.execPath}" "${main}" ${words}'`;
  // The shell outlives Ctrl-C to say how the command ended; a handler, unlike a signal that is ignored, is not inherited.
  const recorded = `(trap : INT; ${command}; echo $? > code)`;
  const whole = `${feed === undefined ? '' : `cat ${feed} | `}${recorded}${into === undefined ? '' : ` | ${into}`}`;
  const terminal = spawn('script', ['--quiet', '--return', '--command', `trap : INT; ${whole}`, '/dev/null'], {
    cwd: directory,
    env: { ...env, TERM: 'xterm', COLUMNS: '200', SHELL: '/bin/sh' },
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: timeoutMs,
  });
  let [shown, peak, hasEnded] = ['', 0, false];
  let isDue = until !== undefined;
  let done = Promise.resolve();
  terminal.stdout.setEncoding('utf8');
  terminal.stdout.on('data', (text: string) => {
    shown += text;
    if (!isDue || !until?.(shown.slice(-400))) return;
    isDue = false;
    if (act === 'Ctrl-C') terminal.stdin.write('\u0003');
    else if (act) done = act();
  });
  const ended = once(terminal, 'close').then(() => {
    hasEnded = true;
  });
  while (!hasEnded) {
    peak = Math.max(peak, peakMiB(numberIn(pidFile)) ?? 0);
    await Promise.race([ended, pause(sampleEveryMs)]);
  }
  await done;
  const text = readFileSync(codeFile, { encoding: 'utf8', flag: 'a+' }).trim();
  return { code: text === '' ? undefined : Number(text), shown, peakMiB: peak };
}

const units: Readonly<Record<string, number>> = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 };

/** The bars that were shown. */
export function bytesShown(shown: string): { readonly bytes: number; readonly percent: number | undefined }[] {
  const bars = shown.matchAll(/(?:█*░* +(\d+)% )?\S+: ([\d.]+) ([kMG]?B) (?:sent|received), /g);
  return [...bars].map(([, percent, number, unit = 'B']) => ({
    bytes: Number(number) * (units[unit] ?? 1),
    percent: percent === undefined ? undefined : Number(percent),
  }));
}
