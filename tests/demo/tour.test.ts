// The tour of the README, pasted block by block into one shell against a real server: each block answers with the codes, and where it
// is no JSON with the lines, that the README shows below it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { startProcess } from '../server.ts';

interface Step {
  readonly commands: string;
  /** As the README shows it; undefined: it shows nothing. */
  readonly shown: string | undefined;
}

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');

function tour(): Step[] {
  const part = readme.slice(readme.indexOf('## A tour'), readme.indexOf('## Where to read on'));
  const blocks = [...part.matchAll(/^```\n(.*?)^```$/gms)].map(([, block]) => block as string);
  const isCommands = (block: string) => /^(?:curl|export|printf|[A-Z]+=)/.test(block);
  return blocks.flatMap((block, i) => {
    if (!isCommands(block)) return [];
    const next = blocks[i + 1];
    return [{ commands: block, shown: next !== undefined && !isCommands(next) ? next : undefined }];
  });
}

/** What a reader can rely on: of an answer its code, of any other line the line. */
const telling = (output: string): string[] =>
  output
    .replace(/\}(?=[{a-z])/g, '}\n')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('['))
    .map((line) => /^\{"code":"\w+"/.exec(line)?.[0] ?? line);

test('the tour of the README does what it shows', async (t) => {
  const server = await startProcess();
  t.after(() => server.close());
  const home = mkdtempSync(join(tmpdir(), 'tabularium-tour-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const steps = tour();
  assert.ok(steps.length >= 10, `${steps.length} steps`);
  const end = '-- the end of a step --';
  const script = steps.map(({ commands }) => `${commands}printf '\\n${end}\\n'\n`).join('');
  const here = script.replaceAll('http://127.0.0.1:8030', server.url).replace('$(cat data/root.token)', server.token);
  const shell = spawn('bash', ['-s'], { cwd: home, stdio: ['pipe', 'pipe', 'inherit'] });
  shell.stdin.end(here);
  const [output] = await Promise.all([text(shell.stdout), once(shell, 'exit')]);
  const outputs = output.split(`${end}\n`).slice(0, -1);
  assert.equal(outputs.length, steps.length);
  for (const [i, { commands, shown }] of steps.entries()) {
    // Of some steps only the last answers are shown; the others went well.
    const told = telling(outputs[i] as string);
    const last = telling(shown ?? '');
    const before = told.slice(0, Math.max(0, told.length - last.length));
    assert.deepEqual(told, [...before.map(() => '{"code":"0"'), ...last], commands);
  }
});
