// Child processes of a test's own process, and which of them is busy: in an engine that is otherwise idle, the one that analyzes a
// text.
import { readdirSync, readFileSync } from 'node:fs';
import { eventually } from './deadline.ts';

/** More than an idle process uses between two samples, in hundredths of a second of processor time. */
const workTicks = 20;
/** For how long none may have worked. */
const idleMs = 150;

/** `except`: the process of the engine that runs statements. */
export const childPids = (exceptPid?: number): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== exceptPid && statOf(pid)[1] === String(process.pid));

/** Until none runs or waits for a processor, and none has for some time: one that starts would look like one that analyzes. */
export async function idleChildren(exceptPid?: number): Promise<void> {
  let last = '';
  let since = performance.now();
  await eventually('every process waits', () => {
    const pids = childPids(exceptPid);
    const state = pids.map((pid) => `${pid}: ${ticksOf(pid)}`).join();
    if (state !== last || pids.some(runs)) since = performance.now();
    last = state;
    return performance.now() - since >= idleMs;
  });
}

/** One that is busy, and has been for some time: of those that were there when it was idle. */
export function busyChild(exceptPid?: number): Promise<number> {
  const before = new Map(childPids(exceptPid).map((pid) => [pid, ticksOf(pid)]));
  return eventually(
    'a process that works',
    () => [...before].find(([pid, ticks]) => ticksOf(pid) > ticks + workTicks)?.[0],
  );
}

/** The fields of /proc/<pid>/stat, or of a thread's, after the name of the program: its state, its parent, ... */
function statOf(pid: number | string): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
  } catch {
    return [];
  }
}

/** Whether one of its threads runs, waits for a processor, or waits for the disk. */
function runs(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).some((thread) =>
      ['R', 'D'].includes(String(statOf(`${pid}/task/${thread}`)[0])),
    );
  } catch {
    return false;
  }
}

const ticksOf = (pid: number) => Number(statOf(pid)[11] ?? 0) + Number(statOf(pid)[12] ?? 0);
