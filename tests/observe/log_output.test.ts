// The log's output if its reader is gone or full: lines are lost, the process continues, and it can exit.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { eventually } from '../deadline.ts';

const module = new URL('../../src/observe/log_output.ts', import.meta.url);
const program = `
  const { LogOutput } = await import(${JSON.stringify(module)});
  const output = new LogOutput(2);
  for (let i = 0; i < 2000; i++) {
    output.write('line ' + i + ' ' + 'x'.repeat(200) + '\\n');
    if (i % 100 === 0) await new Promise((done) => setTimeout(done, 1));
  }
  process.exit(0);
`;
const args = ['--input-type=module', '--eval', program];

test('a reader gets every line in order, including those written at exit', async () => {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const lines = (await text(child.stderr)).trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) => Number(line.split(' ')[1])),
    Array.from({ length: 2000 }, (_, i) => i),
  );
});

test('a reader that closes its end does not end the writer', async () => {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  child.stderr.destroy();
  assert.deepEqual(await once(child, 'exit'), [0, null]);
});

test('a full disk neither ends the writer nor delays its exit', {
  skip: process.platform !== 'linux' && 'needs /dev/full',
}, async () => {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', openSync('/dev/full', 'w')] });
  assert.equal(
    await eventually('the process ends', () => child.exitCode ?? child.signalCode ?? undefined).catch(String),
    0,
  );
});
