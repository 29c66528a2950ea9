// Child processes of a test's own process, and which of them is busy: in an engine that is otherwise idle, the one that analyzes a
// text.
import { readdirSync, readFileSync } from 'node:fs';
import { eventually } from './deadline.ts';

/** More than an idle process uses between two samples, in hundredths of a second of processor time. */
const workTicks = 20;

/** `except`: the process of the engine that runs statements. */
export const childPids = (exceptPid?: number): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== exceptPid && statOf(pid)[1] === String(process.pid));

/** One that is busy, and has been for some time. */
export function busyChild(exceptPid?: number): Promise<number> {
  const before = new Map(childPids(exceptPid).map((pid) => [pid, ticksOf(pid)]));
  return eventually(
    'a process that works',
    () => [...before].find(([pid, ticks]) => ticksOf(pid) > ticks + workTicks)?.[0],
  );
}

/** The fields of /proc/<pid>/stat after the name of the program: its state, its parent, ... */
function statOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
  } catch {
    return [];
  }
}

const ticksOf = (pid: number) => Number(statOf(pid)[11] ?? 0) + Number(statOf(pid)[12] ?? 0);
