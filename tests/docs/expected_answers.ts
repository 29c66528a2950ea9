// What a document shows of the responses to its commands, compared with the actual ones: codes and fields in comments, or output without what
// differs from run to run.
import assert from 'node:assert/strict';
import type { Answer } from './pasting.ts';

interface Shown {
  readonly code: string;
  /** The names of fields, at any depth. */
  readonly fields: readonly string[];
}

const fieldsIn = (text: string): string[] => [...text.matchAll(/"(\w+)":/g)].map(([, name]) => name as string);

/** The expected result of each curl of a block, in order: comments below a curl are its response. */
export function shownIn(block: string): Shown[] {
  const curls: string[] = [];
  for (const line of block.split('\n')) {
    if (/^#/.test(line)) curls.push(`${curls.pop()}${line.replace(/^# */, '')}`);
    else if (/(?:^|\()curl /.test(line)) curls.push('');
  }
  return curls.map((text) => ({ code: /"code":"(\w+)"/.exec(text)?.[1] ?? '0', fields: fieldsIn(text) }));
}

/** A file is returned as it is, with a status and no code. */
export function requireShown({ status, body }: Answer, { code, fields }: Shown, block: string): void {
  const got = body.startsWith('{"code"') ? (JSON.parse(body) as { code: string }).code : status === 200 ? '0' : status;
  assert.equal(got, code, `${block}${body}`);
  const shownFields = new Set(fieldsIn(body));
  assert.deepEqual(
    fields.filter((field) => !shownFields.has(field)),
    [],
    `fields that the document shows and the answer has not: ${block}${body}`,
  );
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

/** The parts of the expected text, between its ellipses, appear in the output in this order; responses before the shown ones succeeded. */
export function requireOutput(output: string, shown: string, commands: string): void {
  const summaries = telling(output);
  const last = telling(shown);
  const before = summaries.slice(0, Math.max(0, summaries.length - last.length));
  assert.deepEqual(summaries, [...before.map(() => '{"code":"0"'), ...last], commands);
  let rest = comparable(output);
  for (const piece of shown.split(/ \.\.\.(?=\s)/).map((text) => comparable(text).trim())) {
    const position = rest.indexOf(piece);
    assert.notEqual(position, -1, `${commands}\nthe document shows\n${piece}\nwhich is not in\n${rest}`);
    rest = rest.slice(position + piece.length);
  }
}
