// A result of many rows that scrolls through an interactive session: its last row arrives, and the memory of the command stays within bounds.
import assert from 'node:assert/strict';
import { eventually } from '../../deadline.ts';
import type { Terminal } from './terminal.ts';
import { peakMiB } from './transfer/measured_command.ts';

/**
 * Pages of 8 MiB are a text, then values, then garbage until it is collected: about 300,000 rows of this result. More rows take no more.
 */
const growthMiBMax = 320;

export interface Scrolled {
  readonly rows: number;
  readonly seconds: number;
  /** The most that the command had in memory before, and at the end. */
  readonly beforeMiB: number;
  readonly peakMiB: number;
}

/** `terminal`: with a session that waits for a statement. */
export async function scrollResult(terminal: Terminal, rows: number, timeoutMs: number): Promise<Scrolled> {
  const beforeMiB = peakMiB(terminal.pid()) ?? Number.NaN;
  const began = performance.now();
  terminal.enter(`SELECT range AS n, 'row ' || range AS text FROM range(${rows});`);
  const end = new RegExp(`^ *${rows - 1} │ row ${rows - 1}\\n\\(${rows} rows\\)$`, 'm');
  await eventually(`row ${rows - 1} is shown`, () => end.test(terminal.screen()), timeoutMs);
  const peak = peakMiB(terminal.pid()) ?? Number.NaN;
  assert.ok(peak <= beforeMiB + growthMiBMax, `${peak} MiB for ${rows} rows; ${beforeMiB} MiB before`);
  return { rows, seconds: Math.round(performance.now() - began) / 1000, beforeMiB, peakMiB: peak };
}
