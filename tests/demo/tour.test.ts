// The tour of the README, pasted block by block into one shell against a real server: each block answers with the codes, and where it
// is no JSON with the lines, that the README shows below it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startProcess } from '../server.ts';
import { blocksOf, openShell, textOf } from './pasting.ts';

interface Step {
  readonly commands: string;
  /** As the README shows it; undefined: it shows nothing. */
  readonly shown: string | undefined;
}

function tour(): Step[] {
  const readme = textOf('README.md');
  const blocks = blocksOf(readme.slice(readme.indexOf('## A tour'), readme.indexOf('## Where to read on')));
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
  const shell = openShell(t, server);
  const steps = tour();
  assert.ok(steps.length >= 10, `${steps.length} steps`);
  for (const { commands, shown } of steps) {
    const { output } = await shell.paste(commands);
    // Of some steps only the last answers are shown; the others went well.
    const told = telling(output);
    const last = telling(shown ?? '');
    const before = told.slice(0, Math.max(0, told.length - last.length));
    assert.deepEqual(told, [...before.map(() => '{"code":"0"'), ...last], commands);
  }
});
