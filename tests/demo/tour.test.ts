// The tour of the README, pasted block by block into one shell against a real server: each block prints what the README shows below
// it, except ids, times and what is replaced by an ellipsis.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startProcess } from '../server.ts';
import { blocksOf, openShell, textOf } from './pasting.ts';

interface Step {
  readonly commands: string;
  /** The output in the README; undefined: none. */
  readonly shown: string | undefined;
}

function tour(): Step[] {
  const readme = textOf('README.md');
  const blocks = blocksOf(readme.slice(readme.indexOf('## A tour'), readme.indexOf('## Documentation')));
  const isCommands = (block: string) => /^(?:curl|export|printf|[A-Z]+=)/.test(block);
  return blocks.flatMap((block, i) => {
    if (!isCommands(block)) return [];
    const next = blocks[i + 1];
    return [{ commands: block, shown: next !== undefined && !isCommands(next) ? next : undefined }];
  });
}

/** The significant part of a line: of a response its code, of any other line the whole line. */
const telling = (output: string): string[] =>
  output
    .replace(/\}(?=[{a-z])/g, '}\n')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('['))
    .map((line) => /^\{"code":"\w+"/.exec(line)?.[0] ?? line);

/** The text without parts that differ from run to run. */
const comparable = (text: string): string =>
  text
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
    .replaceAll(/"(elapsedMs|queuedMs)":[\d.]+/g, '"$1":0')
    .replaceAll('\n', '');

/** The parts of the expected text, between its ellipses, appear in the output in this order. */
function assertShown(output: string, shown: string, commands: string): void {
  let rest = comparable(output);
  for (const piece of shown.split(/ \.\.\.(?=\s)/).map((text) => comparable(text).trim())) {
    const position = rest.indexOf(piece);
    assert.notEqual(position, -1, `${commands}\nthe README shows\n${piece}\nwhich is not in\n${rest}`);
    rest = rest.slice(position + piece.length);
  }
}

test('the tour of the README shows the actual output', async (t) => {
  const server = await startProcess();
  t.after(() => server.close());
  const shell = openShell(t, server);
  const steps = tour();
  assert.ok(steps.length >= 10, `${steps.length} steps`);
  for (const { commands, shown } of steps) {
    const { output } = await shell.paste(commands);
    // For some steps only the last responses are shown; the others succeeded.
    const summaries = telling(output);
    const last = telling(shown ?? '');
    const before = summaries.slice(0, Math.max(0, summaries.length - last.length));
    assert.deepEqual(summaries, [...before.map(() => '{"code":"0"'), ...last], commands);
    assertShown(output, shown ?? '', commands);
  }
});
