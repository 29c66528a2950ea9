// Child processes of a benchmark: their cores, their output, their memory, and that none is left running.
import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

const canPin = availableParallelism() > 1 && spawnSync('taskset', ['-c', '0', 'true']).status === 0;
const stopMs = 15_000;
const running = new Set<ChildProcess>();

/** `core` undefined: all cores, for work that uses all of them. */
export function startNode(
  script: string,
  args: readonly string[],
  options: SpawnOptions & { readonly core?: 0 | 1 | undefined; readonly nodeFlags?: readonly string[] },
): ChildProcess {
  const { core, nodeFlags = [], ...rest } = options;
  const command = [process.execPath, ...nodeFlags, script, ...args];
  const pinned = core !== undefined && canPin ? ['taskset', '-c', String(core), ...command] : command;
  const child = spawn(pinned[0] as string, pinned.slice(1), rest);
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** A program that is not Node.js. */
export function startProgram(program: string, args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: 'ignore' });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

export async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), stopMs);
  await exited;
  clearTimeout(timer);
}

export function killAll(): void {
  for (const child of running) child.kill('SIGKILL');
}

/** One request to a child over its channel, and its response. Rejects if the child exits instead. */
export function ask<Q extends object, A>(child: ChildProcess, question: Q): Promise<A> {
  const { promise, resolve, reject } = Promise.withResolvers<A>();
  const rejectOnExit = (code: number | null) => reject(new Error(`a process of the benchmark ended with ${code}`));
  child.once('exit', rejectOnExit);
  child.once('message', (answer) => {
    child.off('exit', rejectOnExit);
    resolve(answer as A);
  });
  child.send(question);
  return promise;
}

/** Bytes of resident memory; undefined if the system does not report it. */
export function residentBytes(pid: number): number | undefined {
  const kib = statusLine(pid, 'VmRSS');
  return kib === undefined ? undefined : kib * 1024;
}

/** `own`: bytes that no other process has; `proportional`: with its share of the others. Undefined if the system does not report it. */
export function heldBytes(pid: number): { readonly own: number; readonly proportional: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    const kilobytesOf = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(text)?.[1]) * 1024;
    return { own: kilobytesOf('Private_Clean') + kilobytesOf('Private_Dirty'), proportional: kilobytesOf('Pss') };
  } catch {
    return undefined;
  }
}

/** Microseconds of processor time of all threads of a process; undefined if the system does not report it. */
export function computedMicroseconds(pid: number): number | undefined {
  let nanoseconds = 0;
  let threads = 0;
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const spent = threadNanoseconds(`/proc/${pid}/task/${thread}`);
      if (spent === undefined) continue;
      nanoseconds += spent;
      threads++;
    }
  } catch {
    return undefined;
  }
  return threads === 0 ? undefined : nanoseconds / 1000;
}

/** Undefined for a thread that has ended since it was listed. */
function threadNanoseconds(thread: string): number | undefined {
  try {
    return Number(readFileSync(`${thread}/schedstat`, 'utf8').split(' ', 1)[0]);
  } catch {
    return undefined;
  }
}

function statusLine(pid: number, name: string): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(text)?.[1]);
  } catch {
    return undefined;
  }
}

export function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return text === '' ? [] : text.split(' ').map(Number);
  } catch {
    return [];
  }
}

export interface MemoryWatch {
  /** Stops sampling. Returns the bytes before, and the maximum. */
  stop(): Promise<{ readonly before: number; readonly peak: number } | undefined>;
}

const sampleMs = 10;

/** Samples the resident memory of a process until stopped. */
export function watchMemory(pid: number): MemoryWatch {
  const before = residentBytes(pid);
  let peak = before ?? 0;
  let isOn = true;
  const loop = (async () => {
    while (isOn) {
      peak = Math.max(peak, residentBytes(pid) ?? 0);
      await sleep(sampleMs);
    }
  })();
  return {
    stop: async () => {
      isOn = false;
      await loop;
      return before === undefined ? undefined : { before, peak };
    },
  };
}
