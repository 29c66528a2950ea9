// The editor's parsing of SQL text: its statements, the one at the cursor, the tables that it names, and its parameters.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { copiedText } from '../../console/src/results/run/copied_text.ts';
import { orderOf } from '../../console/src/results/run/row_order.ts';
import { namedTables, parametersOf, statementAt, statementsOf } from '../../src/client/statements.ts';

const textsOf = (text: string): string[] => statementsOf(text).map(({ from, to }) => text.slice(from, to));

test('statements end at semicolons outside strings, names, comments and dollar quotes', () => {
  const text = `SELECT ';' AS ";", $$ ; $$, $a$ ; $$ $a$ -- ; comment
  /* ; */ FROM t; ; SELECT 'it''s;'`;
  assert.deepEqual(textsOf(text), [text.slice(0, text.indexOf(' ; SELECT') - 1), "SELECT 'it''s;'"]);
  assert.deepEqual(textsOf('-- only a comment'), []);
  assert.deepEqual(textsOf("SELECT 'open"), ["SELECT 'open"]);
});

test('the statement at the cursor is the one before it, or the one that begins on its line', () => {
  const text = 'SELECT 1;\n\nSELECT 2; SELECT 3\n';
  const cursorAt = (position: number) => {
    const span = statementAt(text, position);
    return span && text.slice(span.from, span.to);
  };
  assert.equal(cursorAt(0), 'SELECT 1');
  assert.equal(cursorAt(9), 'SELECT 1');
  assert.equal(cursorAt(10), 'SELECT 1');
  assert.equal(cursorAt(11), 'SELECT 2');
  assert.equal(cursorAt(text.length), 'SELECT 3');
  assert.equal(statementAt('  ', 1), undefined);
});

test('tables are found with their paths and aliases', () => {
  const sql =
    'SELECT * FROM shop.orders AS o, "my ""table""" t LEFT JOIN c.d.e USING (id) WHERE o.id IN (SELECT id FROM x)';
  assert.deepEqual(namedTables(sql), [
    { path: ['shop', 'orders'], alias: 'o' },
    { path: ['my "table"'], alias: 't' },
    { path: ['c', 'd', 'e'], alias: undefined },
    { path: ['x'], alias: undefined },
  ]);
});

test('positional parameters are counted, named ones are listed', () => {
  assert.deepEqual(parametersOf("SELECT ?, '?', ? -- ?"), { count: 2, names: [] });
  assert.deepEqual(parametersOf('SELECT $2, $1, $1'), { count: 2, names: [] });
  assert.deepEqual(parametersOf('SELECT $from, $to, $from'), { count: 0, names: ['from', 'to'] });
  assert.deepEqual(parametersOf('SELECT $$ $1 $$, $tag$ $2 $tag$'), { count: 0, names: [] });
});

const columns = [
  { name: 'n', type: 'BIGINT' },
  { name: 'price', type: 'DECIMAL(38,2)' },
  { name: 'text', type: 'STRING' },
];

test('rows are ordered by value with nulls last, and filtered by text in any column', () => {
  const rows = [
    [9007199254740993n, '10.00', 'b'],
    [9007199254740992n, '9.50', null],
    [null, '100.25', 'A'],
  ];
  const order = (column: number, isDescending: boolean) => [
    ...orderOf(columns, rows, { sort: { column, isDescending }, filters: [] }),
  ];
  assert.deepEqual(order(0, false), [1, 0, 2]);
  assert.deepEqual(order(0, true), [0, 1, 2]);
  assert.deepEqual(order(1, false), [1, 0, 2]);
  assert.deepEqual(order(2, true), [0, 2, 1]);
  assert.deepEqual([...orderOf(columns, rows, { filters: [{ column: null, text: 'a' }] })], [2]);
});

test('rows are copied as CSV, Markdown, JSON and INSERT without losing a digit', () => {
  const rows = [
    [9007199254740993n, '1.10', 'say "hi", | it\'s'],
    [null, null, null],
  ];
  assert.equal(copiedText('csv', columns, rows), 'n,price,text\n9007199254740993,1.10,"say ""hi"", | it\'s"\n,,\n');
  assert.match(copiedText('markdown', columns, rows), /\\\| it's \|\n\| NULL \| NULL \| NULL \|\n$/);
  assert.match(copiedText('json', columns, rows), /"n": 9007199254740993, "price": "1.10"/);
  assert.match(
    copiedText('insert', columns, rows),
    /\(9007199254740993, 1\.10, 'say "hi", \| it''s'\),\n {2}\(NULL, NULL, NULL\);/,
  );
});
