// The parts of an interactive session without a terminal: the file of the history, and tables whose later rows are wider than the first.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { namesIn } from '../../../src/cli/remote/dotted_name.ts';
import { writerOf } from '../../../src/cli/remote/output/row_formats.ts';
import { HistoryFile, historyLinesMax, oneLine } from '../../../src/cli/remote/sql/history_file.ts';

const root = mkdtempSync(join(tmpdir(), 'tabularium-session-'));
after(() => rmSync(root, { recursive: true, force: true }));

describe('the history', () => {
  it('has each statement on one line, with the same meaning', () => {
    assert.equal(oneLine('SELECT 1 -- one */\n  , 2;'), 'SELECT 1 /* one * / */ , 2;');
    assert.equal(oneLine('SELECT 1 -- a /* b\n, 2;'), 'SELECT 1 /* a / * b */ , 2;');
    assert.equal(oneLine("SELECT '  a';"), "SELECT '  a';");
    assert.equal(oneLine("SELECT 'a\nb';"), undefined);
  });

  it('is written for its user only, whatever mode the file had', () => {
    const file = join(root, 'mode');
    writeFileSync(file, 'SELECT 0;\n');
    chmodSync(file, 0o644);
    assert.equal(new HistoryFile(file).add('SELECT 1;'), undefined);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(new HistoryFile(file).lines(), ['SELECT 1;', 'SELECT 0;']);
  });

  it('has nothing that could be a secret, and nothing that begins with a space', () => {
    const file = join(root, 'secrets');
    const history = new HistoryFile(file);
    const secrets = [
      "ALTER USER ada PASSWORD 'x';",
      "SELECT * FROM t WHERE api_key = 'x';",
      "SELECT 'https://ada:x@example.com/';",
      'SELECT 1 AS access_token;',
      ' SELECT 2;',
    ];
    for (const text of [...secrets, 'SELECT plain;']) history.add(text);
    assert.equal(readFileSync(file, 'utf8'), 'SELECT plain;\n');
  });

  it('is bounded', () => {
    const file = join(root, 'long');
    writeFileSync(file, Array.from({ length: 3 * historyLinesMax }, (_, i) => `SELECT ${i};\n`).join(''));
    assert.equal(new HistoryFile(file).lines()[0], `SELECT ${3 * historyLinesMax - 1};`);
    assert.equal(readFileSync(file, 'utf8').split('\n').length, historyLinesMax + 1);
  });

  it('that cannot be written is reported once, and ends nothing', () => {
    const history = new HistoryFile(join(root, 'mode', 'below a file'));
    assert.match(history.add('SELECT 1;') ?? '', /^the history is not stored: .* cannot be written \(E/);
    assert.equal(history.add('SELECT 2;'), undefined);
    assert.deepEqual(history.lines(), []);
  });
});

it('a table grows with later rows as far as a line has room', () => {
  const rows = (from: number, count: number) => Array.from({ length: count }, (_, i) => [BigInt(from + i), 'x']);
  const columns = [
    { name: 'n', type: 'BIGINT' },
    { name: 't', type: 'STRING' },
  ];
  const wide = writerOf('table', columns, { width: 40 });
  assert.match(wide.rows(rows(0, 1000)), /^ {2}n │ t\n────┼──\n {2}0 │ x\n/);
  assert.equal(wide.rows(rows(1_234_567, 1)), '1234567 │ x\n');
  const narrow = writerOf('table', columns, { width: 20 });
  narrow.rows(rows(0, 1000));
  assert.equal(narrow.rows([[1n, 'y'.repeat(30)]]), `  1 │ ${'y'.repeat(13)}…\n`);
});

it('names with dots have parts in quotes', () => {
  assert.deepEqual(namesIn('default."My.Shop"."a""b"'), ['a"b', 'My.Shop', 'default']);
});
