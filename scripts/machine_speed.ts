// Measures how slow this machine is at the moment, compared with the quiet two-core machine for which the deadlines in tests are
// written: the time to start a process and to compute something in it, in as many processes at once as test files run.
import { spawn } from 'node:child_process';

/** Medians of the reference machine, with two such processes at once. */
const referenceStartMs = 45;
const referenceComputeMs = 60;
/** Beyond this, a longer wait only delays the report of a failure. */
const slownessMax = 10;
/**
 * The least factor for deadlines: a burst of other load between two measurements may delay a test by as much. A deadline whose end
 * fails the test costs nothing while the test passes.
 */
const deadlineFactorMin = 4;
const computation = `const began = performance.now();
const rows = Array.from({ length: 2000 }, (_, i) => ({ id: i, name: 'name ' + i, values: [i, i / 3, String(i)] }));
for (let i = 0; i < 20; i++) JSON.parse(JSON.stringify(rows));
console.log(performance.now() - began);`;

export interface MachineSpeed {
  readonly startMs: number;
  readonly computeMs: number;
  /** 1 (as fast as the reference, or faster) to 10. */
  readonly slowness: number;
}

/** By which the deadlines of tests are multiplied. */
export const deadlineFactor = (slowness: number): number => Math.max(deadlineFactorMin, slowness);

async function measureOne(): Promise<{ startMs: number; computeMs: number }> {
  const startMs = performance.now();
  const child = spawn(process.execPath, ['-e', computation], { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject));
  const computeMs = Number(output);
  return { startMs: performance.now() - startMs - computeMs, computeMs };
}

/** Takes about a tenth of a second on a quiet machine. The slowest of the processes counts. */
export async function measureMachine(processes: number): Promise<MachineSpeed> {
  const all = await Promise.all(Array.from({ length: processes }, measureOne));
  const startMs = Math.max(...all.map((result) => result.startMs));
  const computeMs = Math.max(...all.map((result) => result.computeMs));
  const slowness = Math.max(startMs / referenceStartMs, computeMs / referenceComputeMs);
  return { startMs, computeMs, slowness: Math.min(slownessMax, Math.max(1, slowness)) };
}
