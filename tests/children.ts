// Processes that a test's own process started, and which of them works: in an engine that is busy with nothing else, the one in which a
// text is analysed.
import { readdirSync, readFileSync } from 'node:fs';
import { eventually } from './deadline.ts';

/** More than an idle process uses between two looks, in hundredths of a second on the processor. */
const workTicks = 20;

/** `except`: the process of the engine that runs statements. */
export const childrenBut = (except?: number): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== except && statOf(pid)[1] === String(process.pid));

/** One that works, and has done so for some time. */
export function busyChild(except?: number): Promise<number> {
  const before = new Map(childrenBut(except).map((pid) => [pid, ticksOf(pid)]));
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
