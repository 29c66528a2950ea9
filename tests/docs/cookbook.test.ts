// Every command of docs/cookbook.md is executed in the order of the page, as a process of its own, against the server that the page starts; the exit
// code of each is the one that the page gives, and the output is what it shows.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { deadlineMs } from '../deadline.ts';
import { freePorts } from '../engines/clickhouse/ring/free_ports.ts';
import { blocksOf, type CodeBlock, textOf } from './code_blocks.ts';
import { openShell } from './pasting.ts';

const page = 'docs/cookbook.md';
const main = resolve(import.meta.dirname, '../../src/main.ts');
/** What the page calls the directory in which its first command runs, and the address of its server. */
const shownHome = '~';
const shownAddress = '127.0.0.1:8030';

/** The titles of the tasks, by the line of their heading. */
function tasksOf(text: string): { readonly title: string; readonly line: number }[] {
  return text.split('\n').flatMap((line, i) => (line.startsWith('## ') ? [{ title: line.slice(3), line: i + 1 }] : []));
}

/**
 * The command `tabularium`. It appends its exit code to `codes`; of the server, it writes the process id instead. A command that does not end is
 * ended, with the code 124.
 */
function writeCommand(directory: string): void {
  const file = join(directory, 'bin', 'tabularium');
  mkdirSync(join(directory, 'bin'));
  const seconds = Math.ceil(deadlineMs(60_000) / 1000);
  writeFileSync(
    file,
    `#!/usr/bin/env bash
if [ "$1" = serve ]; then echo $$ > '${directory}/server.pid'; exec '${process.execPath}' '${main}' "$@"; fi
timeout --foreground ${seconds} '${process.execPath}' '${main}' "$@"
code=$?
echo $code >> '${directory}/codes'
exit $code
`,
  );
  chmodSync(file, 0o755);
}

/** The exit codes that each command of a block may have, in order. */
function codesOf(block: string): number[][] {
  return block
    .replaceAll('\\\n', '')
    .split('\n')
    .filter((line) => /(?:^|[|(] *| {2})tabularium (?!serve)/.test(line))
    .map((line) =>
      [...(/# exit code (.*)/.exec(line)?.[1]?.matchAll(/\d+/g) ?? [['0']])].map(([code]) => Number(code)),
    );
}

/** Ids and times differ from run to run; lines of CSV end with CRLF. */
const comparable = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>');

/** Where the page has an ellipsis, there may be anything: in a line the rest of a line, alone any number of lines. */
function requireShown({ line, text, shown }: CodeBlock, output: string): void {
  assert.ok(shown, `${page}:${line}: the page does not say what the commands print`);
  const pattern = comparable(shown)
    .trimEnd()
    .split('\n')
    .map((one) => (one === '…' ? '(?:.*\\n)*?' : `${one.split('…').map(RegExp.escape).join('.*')}\\n`))
    .join('');
  assert.match(comparable(output), new RegExp(`^${pattern}$`), `${page}:${line}\n${text}${output}`);
}

/** The file that the page says the reader has. */
function writeLegacyDatabase(path: string): void {
  const database = new DatabaseSync(path);
  database.exec(`CREATE TABLE suppliers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, rating REAL);
    INSERT INTO suppliers VALUES (1, 'Acme', 4.5), (2, 'Globex', NULL);
    CREATE INDEX by_name ON suppliers (name);
    CREATE VIEW good AS SELECT name FROM suppliers WHERE rating > 4`);
  database.close();
}

/** Of a page that failed before it stopped its server. */
function stopServer(directory: string): void {
  const file = join(directory, 'server.pid');
  if (!existsSync(file)) return;
  try {
    process.kill(Number(readFileSync(file, 'utf8')), 'SIGKILL');
  } catch {
    // It has ended.
  }
}

test('the tasks of the cookbook', async (t: TestContext) => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-cookbook-'));
  const codesFile = join(directory, 'codes');
  let isStopped = false;
  t.after(() => {
    if (!isStopped) stopServer(directory);
    rmSync(directory, { recursive: true, force: true });
  });
  writeCommand(directory);
  const [port] = await freePorts(1);
  const address = `127.0.0.1:${port}`;
  const shell = openShell(
    t,
    { url: `http://${address}`, token: '' },
    {
      PATH: `${join(directory, 'bin')}${delimiter}${process.env.PATH}`,
      XDG_CONFIG_HOME: join(directory, '.config'),
      NO_COLOR: '1',
      TABULARIUM_PORT: String(port),
      // Processor time that no command of the page needs.
      TABULARIUM_SPARE_ENGINE: 'false',
      TABULARIUM_WAREHOUSE_THREADS: '1',
      TABULARIUM_URL: undefined,
      TABULARIUM_TOKEN: undefined,
      TABULARIUM_PROFILE: undefined,
    },
  );
  await shell.paste(`exec 2>&1; cd '${directory}'`);
  const blocks = blocksOf(page).filter(({ language }) => language === 'sh');
  const tasks = tasksOf(textOf(page));
  assert.equal(tasks.length, 20);
  for (const [i, { title, line }] of tasks.entries()) {
    const end = tasks[i + 1]?.line ?? Number.POSITIVE_INFINITY;
    const own = blocks.filter((block) => block.line > line && block.line < end);
    assert.ok(own.length > 0, `${title}: no commands`);
    for (const block of own) {
      if (block.text.startsWith('tabularium import')) writeLegacyDatabase(join(directory, 'warehouse', 'legacy.db'));
      writeFileSync(codesFile, '');
      const { output } = await shell.paste(block.text);
      const shownOutput = output.replaceAll(directory, shownHome).replaceAll(address, shownAddress).replace(/^\n/, '');
      const codes = readFileSync(codesFile, 'utf8').trim().split('\n').map(Number);
      const allowed = codesOf(block.text);
      const why = `${title}: exit codes ${codes}\n${block.text}${shownOutput}`;
      assert.equal(codes.length, allowed.length, why);
      for (const [at, code] of codes.entries()) assert.ok(allowed[at]?.includes(code), why);
      requireShown(block, shownOutput);
    }
  }
  isStopped = true;
});
