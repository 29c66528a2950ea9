// Runs of `apply` that a signal breaks off at a random step, until one ends by itself. With TEST_BUDGET=all each run is broken off after its
// first step or two.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import type { Random } from '../../random.ts';
import { main } from '../remote/command_process.ts';
import type { ApplyWorld } from './apply_world.ts';

type Broken = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly steps: number;
  readonly stderr: string;
};

/** Runs the command and sends it a signal some time after it has begun its step number `at`. */
async function brokenOff(
  { files, line }: ApplyWorld,
  signal: NodeJS.Signals,
  at: number,
  delayMs: number,
): Promise<Broken> {
  const child = spawn(process.execPath, [main, 'apply', files, '--prune', '--yes'], {
    cwd: line.directory,
    env: line.env,
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: deadlineMs(60_000),
  });
  let stderr = '';
  let steps = 0;
  let isSent = false;
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk;
    const begun = [...stderr.matchAll(/^\d+ of (\d+): /gm)];
    steps = Number(begun[0]?.[1] ?? 0);
    // Once: a second Ctrl-C would end the command before it says how to continue.
    if (isSent || begun.length < at) return;
    isSent = true;
    setTimeout(() => child.kill(signal), delayMs);
  });
  const [code, ended] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal: ended, steps, stderr };
}

/** `stepsAtOnce`: a run is broken off at one of so many steps. @returns how many runs were broken off. */
export async function untilDone(
  t: TestContext,
  world: ApplyWorld,
  random: Random,
  stepsAtOnce: number,
): Promise<number> {
  for (let count = 0; ; count++) {
    const signal = random.chance(0.25) ? 'SIGINT' : 'SIGKILL';
    const at = runsAll ? 1 + random.below(2) : 1 + random.below(stepsAtOnce);
    const run = await brokenOff(world, signal, at, random.below(40));
    t.diagnostic(`${signal} at step ${at} of ${run.steps}: ${run.signal ?? run.code}`);
    if (run.code === 0) return count;
    if (run.signal === 'SIGKILL') continue;
    assert.equal(run.code, 130, run.stderr);
    assert.match(run.stderr, /run the same command again: it continues from what the server has\n/);
  }
}
