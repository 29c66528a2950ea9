// Files as other programs write them: the table gets the content of the file, or the load reports where it cannot.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Reply, TestServer } from '../../server.ts';
import { type LoadingServer, startLoading } from './loading_server.ts';

const database = '/api/v2/databases/d';
let world: LoadingServer;
let server: TestServer;
let tableCount = 0;
before(async () => {
  world = await startLoading();
  ({ server } = world);
});
after(() => world.close());

const writeSourceFile = (ending: string, text: string) => ({
  path: world.writeFile(`${++tableCount}.${ending}`, text),
});

async function table(types: Record<string, string>): Promise<string> {
  const name = `t${++tableCount}`;
  const columns = Object.entries(types).map(([name, type]) => ({ name, type }));
  (await server.post(`${database}/tables`, { name, columns })).is(201);
  return name;
}

const load = async (into: string, source: object, more: object = {}): Promise<Reply> =>
  server.ended(await server.post(`${database}/tables/${into}/load`, { source, ...more }));
const loadToNewTable = async (source: object, more: object = {}): Promise<{ task: Reply; name: string }> => {
  const name = `t${++tableCount}`;
  return { task: await server.ended(await server.post(`${database}/load`, { table: name, source, ...more })), name };
};
const rowsOf = (name: string) => server.rows('d', `SELECT * FROM ${name} ORDER BY ALL`);
const succeeded = (task: Reply) => assert.equal(task.at('state'), 'succeeded', task.text);
const failed = (task: Reply, error: object) =>
  assert.partialDeepStrictEqual(task.at('error'), { code: 'DATA_INVALID', ...error }, task.text);

test('a text that is not a time with a zone is refused, as for any type', async () => {
  const into = await table({ id: 'INT', at: 'TIMESTAMPTZ' });
  const validCsv = '1,2026-01-31T10:00:00+02:00\n2,2026-01-31 10:00:00Z\n3,\n';
  const validRows = [
    [1, '2026-01-31T08:00:00Z'],
    [2, '2026-01-31T10:00:00Z'],
    [3, null],
  ];
  for (const wrong of ['abc', '1769853600', '2026-02-30 10:00:00Z', '31.01.2026 10:00']) {
    const source = writeSourceFile('csv', `id,at\n${validCsv}4,${wrong}\n`);
    failed(await load(into, source), { result: { row: 4, column: 'at' } });
    failed(await load(into, source, { columns: [{ name: 'at' }, { name: 'id', expression: 'id + 1' }] }), {});
    const loadedSome = await load(into, source, { errorsMax: 1, mode: 'replace' });
    assert.deepEqual(
      [loadedSome.at('result', 'rowsLoaded'), loadedSome.at('result', 'rowsRejected')],
      [3, 1],
      loadedSome.text,
    );
    assert.deepEqual(await rowsOf(into), validRows);
  }
  const csv = { timestampFormat: '%d.%m.%Y %H:%M' };
  succeeded(await load(into, writeSourceFile('csv', 'id,at\n1,31.01.2026 10:00\n'), { csv, mode: 'replace' }));
  assert.deepEqual(await rowsOf(into), [[1, '2026-01-31T10:00:00Z']]);
});

test('rows are rejected in the same way whether or not another column is an expression', async () => {
  const into = await table({ id: 'INT', v: 'INT', s: 'STRING' });
  const source = writeSourceFile('ndjson', '{"a":1,"b":1}\n{"a":2,"b":2}\n{"a":3,"b":"abc"}\n');
  const named = [
    { name: 'id', source: 'a' },
    { name: 'v', source: 'b' },
  ];
  for (const columns of [
    named,
    [...named, { name: 's', expression: "'x'" }],
    [named[0], { name: 'v', expression: 'b' }],
  ]) {
    const task = await load(into, source, { columns, errorsMax: 5, mode: 'replace' });
    assert.deepEqual([task.at('result', 'rowsLoaded'), task.at('result', 'rowsRejected')], [2, 1], task.text);
    assert.partialDeepStrictEqual(task.at('result', 'rejectedRows', 0), { row: 3, column: 'v' });
  }
  const laterFile = writeSourceFile(
    'ndjson',
    `${Array.from({ length: 20_500 }, (_, i) => `{"a":${i},"b":2}`).join('\n')}\n{"a":1,"b":1.5}\n`,
  );
  const columns = [named[0], { name: 'v', expression: 'b * 2' }];
  const task = await load(into, laterFile, { columns, errorsMax: 5, mode: 'replace' });
  assert.deepEqual([task.at('result', 'rowsLoaded'), task.at('result', 'rowsRejected')], [20_500, 1], task.text);
});

test('JSON has the same meaning whether or not rows may be rejected; a map can be an object or pairs', async () => {
  const into = await table({ id: 'INT', j: 'JSON', m: 'MAP<STRING, INT>' });
  const lines = [
    '{"id":1,"j":"x","m":{"a":1}}',
    '{"id":2,"j":"123","m":[{"key":"b","value":2}]}',
    '{"id":3,"j":"{\\"a\\":1}","m":{}}',
    '{"id":4,"j":"null","m":[]}',
    '{"id":5,"j":null,"m":null}',
    '{"id":6,"j":[1,{"b":null}]}',
  ];
  for (const errorsMax of [0, 5]) {
    const task = await load(into, writeSourceFile('ndjson', `${lines.join('\n')}\n`), { errorsMax, mode: 'replace' });
    assert.deepEqual([task.at('state'), task.at('result', 'rowsRejected')], ['succeeded', 0], task.text);
    assert.deepEqual(await rowsOf(into), [
      [1, 'x', [{ key: 'a', value: 1 }]],
      [2, '123', [{ key: 'b', value: 2 }]],
      [3, '{"a":1}', []],
      [4, 'null', []],
      [5, null, null],
      [6, [1, { b: null }], null],
    ]);
  }
});

test('a quoted empty text is null like an unquoted one, unless the two are distinguished', async () => {
  const into = await table({ id: 'INT', s: 'STRING' });
  const source = writeSourceFile('csv', '"id","s"\n"1",""\n"",\n');
  for (const errorsMax of [0, 5]) {
    succeeded(await load(into, source, { errorsMax, mode: 'replace' }));
    assert.deepEqual(await rowsOf(into), [
      [1, null],
      [null, null],
    ]);
    const unquoted = writeSourceFile('csv', 'id,s\n1,""\n2,\n');
    succeeded(await load(into, unquoted, { errorsMax, mode: 'replace', csv: { quotedNulls: false } }));
    assert.deepEqual(await rowsOf(into), [
      [1, ''],
      [2, null],
    ]);
  }
});

test('a header can omit a name, such as that of an index', async () => {
  const { task, name } = await loadToNewTable(writeSourceFile('csv', ',a,b\n0,1,x\n1,2,y\n'));
  succeeded(task);
  const record = (await server.get(`${database}/tables/${name}`)).is(200);
  assert.deepEqual(
    record.at<{ name: string }[]>('columns').map((column) => column.name),
    ['column1', 'a', 'b'],
  );
  const into = await table({ a: 'INT', b: 'STRING' });
  succeeded(await load(into, writeSourceFile('csv', ',a,b\n0,1,x\n'), { columns: [{ name: 'a' }, { name: 'b' }] }));
  assert.deepEqual(await rowsOf(into), [[1, 'x']]);
});

test('columns of a file without a header are identified by position', async () => {
  const into = await table({ a: 'INT', b: 'INT' });
  const source = writeSourceFile('csv', '7,8\n');
  succeeded(await load(into, source, { columns: [{ name: 'b' }, { name: 'a' }] }));
  assert.deepEqual(await rowsOf(into), [[8, 7]]);
  const columns = [
    { name: 'a', source: 'column2' },
    { name: 'b', source: 'column1' },
  ];
  succeeded(await load(into, source, { columns, mode: 'replace' }));
  assert.deepEqual(await rowsOf(into), [[8, 7]]);
  succeeded(await load(into, source, { mode: 'replace' }));
  assert.deepEqual(await rowsOf(into), [[7, 8]]);
});

test('dates are parsed in the detected format, which is shown', async () => {
  const source = writeSourceFile(
    'csv',
    'id,d,at\n1,13/02/2026,31.01.2026 10:00:00\n2,03/04/2026,01.02.2026 11:30:00\n',
  );
  const preview = (await server.post(`${database}/load`, { source, inferOnly: true })).is(200);
  const csv = { dateFormat: '%d/%m/%Y', timestampFormat: '%d.%m.%Y %H:%M:%S' };
  assert.partialDeepStrictEqual(preview.at('csv'), csv);
  const validRows = [
    [1, '2026-02-13', '2026-01-31T10:00:00'],
    [2, '2026-04-03', '2026-02-01T11:30:00'],
  ];
  assert.deepEqual(preview.at('rows'), validRows);
  const { task, name } = await loadToNewTable(source);
  succeeded(task);
  assert.deepEqual(await rowsOf(name), validRows);
});

test('duplicate or unnamed columns are not dropped silently', async () => {
  for (const text of ['{"id":1,"a":1,"A":2}\n', '{"id":1,"":2}\n'])
    failed((await loadToNewTable(writeSourceFile('ndjson', text))).task, {});
  const { task } = await loadToNewTable(writeSourceFile('ndjson', '{"a":1,"a_1":2,"C7":3}\n'));
  succeeded(task);
});

test('a byte order mark is reported', async () => {
  const { task } = await loadToNewTable(writeSourceFile('ndjson', '\ufeff{"id":1}\n'));
  failed(task, {});
  assert.match(task.at('error', 'message'), /byte order mark/);
});
