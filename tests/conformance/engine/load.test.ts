// The engine loads files: each format into each type of column, by name or mapped, completely or not at all; and locates errors in
// a file. See tests/resources/loads/load.test.ts for the part of the server.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { DataFormat, FileLoad, FileLoadResult } from '../../../src/engines/port/load.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { admissionRequest } from '../../admission_request.ts';
import { engineOf } from '../../engines/engine_under_test.ts';
import { type EngineWorld, failureOf, openEngine } from './engine_world.ts';

const { engine, nextId, refusedExpressions, forbiddenExpressions, testOf } = engineOf(import.meta.url);
let world: EngineWorld;
before(async () => {
  world = await openEngine({}, engine);
});
after(() => world.close());

interface LoadOptions extends Partial<Omit<FileLoad, 'file' | 'table' | 'definition'>> {
  readonly csv?: FileLoad['file']['csv'];
  readonly signal?: AbortSignal;
}

/** Writes the file where the engine may read it. */
function writeTemporaryFile(bytes: string | Uint8Array): string {
  const path = join(world.spool, `${randomUUID()}.data`);
  writeFileSync(path, bytes);
  return path;
}

function load(
  table: string,
  definition: TableDefinition,
  format: DataFormat,
  bytes: string | Uint8Array,
  { csv = {}, signal = new AbortController().signal, ...more }: LoadOptions = {},
): Promise<FileLoadResult> {
  return world.engine.load(
    {
      table: { catalog: world.catalog, database: world.database, table },
      definition,
      file: { path: writeTemporaryFile(bytes), format, csv },
      mode: 'append',
      errorsMax: 0,
      dryRun: false,
      rejectsPath: join(world.spool, `${randomUUID()}.rejects`),
      step: randomUUID(),
      ...more,
    },
    { ...admissionRequest, signal },
  );
}

async function rowsOf(table: string, columns = '*'): Promise<unknown[]> {
  const { rows } = await world.run(`SELECT ${columns} FROM ${table} ORDER BY 1`);
  assert(rows.kind === 'text');
  return JSON.parse(`[${rows.text}]`) as unknown[];
}

const people = { id: 'BIGINT', name: 'STRING', born: 'DATE' };
const ann = [1, 'ann', '2001-02-03'];
const bob = [2, 'b,o"b', null];
const loadResult = (rowsLoaded: number): FileLoadResult => ({ rowsLoaded, rowsRejected: 0, repeated: false });

const csv = 'id,name,born\n1,ann,2001-02-03\n2,"b,o""b",\n';
const ndjson = '{"id":1,"name":"ann","born":"2001-02-03"}\n{"id":2,"name":"b,o\\"b"}\n';
const formats: Readonly<Record<string, readonly [DataFormat, string, LoadOptions?]>> = {
  csv: ['csv', csv],
  'csv with other signs': [
    'csv',
    "no;name;when\r\n1;'ann';03/02/2001\r\n2;'b,o\"b';-\r\n",
    {
      csv: { quote: "'", header: true, nullText: '-', dateFormat: '%d/%m/%Y' },
      columns: [{ name: 'id', source: 'no' }, { name: 'name' }, { name: 'born', source: 'when' }],
    },
  ],
  'csv without a header': ['csv', csv.slice(csv.indexOf('\n') + 1)],
  'csv below something else': ['csv', `made by hand\n\n${csv}`, { csv: { skipRows: 2 } }],
  'csv with comments': ['csv', csv.replace('1,ann', '# no row\n1,ann'), { csv: { comment: '#' } }],
  'csv with its columns in another order': ['csv', 'born\tNAME\tid\n2001-02-03\tann\t1\n\t"b,o""b"\t2\n'],
  ndjson: ['ndjson', ndjson],
  json: ['json', `[${ndjson.trim().replace('\n', ',\n')}]`],
};

for (const [name, [format, text, options]] of Object.entries(formats)) {
  test(name, async () => {
    const table = `people_${randomUUID().slice(0, 8)}`;
    const definition = await world.table(table, people);
    assert.deepEqual(await load(table, definition, format, text, options), loadResult(2));
    assert.deepEqual(await rowsOf(table), [ann, bob]);
  });
}

const all = {
  a: 'BOOLEAN',
  b: 'TINYINT',
  c: 'LARGEINT',
  d: 'DOUBLE',
  e: 'DECIMAL(20,4)',
  f: 'DATETIME',
  g: 'BINARY',
  h: 'JSON',
  i: 'ARRAY<INT>',
  j: 'STRUCT<x: INT, y: STRING>',
  k: 'VARCHAR(3)',
  l: 'UUID',
};
const value = {
  a: true,
  b: -7,
  c: 123456789012,
  d: 0.1,
  e: '12.3400',
  f: '2001-02-03T04:05:06.5',
  g: 'AP8=',
  h: { q: [1, 'z'] },
  i: [1, null, 3],
  j: { x: 1, y: 'é' },
  k: 'abc',
  l: '00112233-4455-6677-8899-aabbccddeeff',
};
const cellText = (value: unknown) =>
  `"${(typeof value === 'object' ? JSON.stringify(value) : String(value)).replaceAll('"', '""')}"`;

test('values of every type are loaded as by an insert, from each text format', async () => {
  const texts = {
    csv: `${Object.keys(value).join(',')}\n${Object.values(value).map(cellText).join(',')}\n`,
    ndjson: JSON.stringify(value),
    json: JSON.stringify([value]),
  };
  for (const errorsMax of [0, 1]) {
    for (const [format, text] of Object.entries(texts)) {
      const table = `kinds_${format}_${errorsMax}`;
      const definition = await world.table(table, all);
      await load(table, definition, format as DataFormat, text, { errorsMax });
      const [row] = (await rowsOf(table)) as unknown[][];
      assert.deepEqual(row, [...Object.values({ ...value, e: 12.34, f: '2001-02-03T04:05:06.5' })], table);
    }
  }
});

test('numbers in nested values of CSV keep all their digits', async () => {
  const types = {
    id: 'INT',
    a: 'ARRAY<DECIMAL(38,2)>',
    m: 'MAP<STRING, DECIMAL(38,10)>',
    s: 'STRUCT<x: DECIMAL(20,4), l: LARGEINT, t: STRING>',
  };
  const definition = await world.table('wide', types);
  const a = '[123456789012345678.25,-999999999999999999999999999999999999.99,null,0.01]';
  const m = String.raw`[{"key":"[1234567890123456.5,\" -2","value":1234567890123456789012345678.0123456789}]`;
  const s = String.raw`{"x":1234567890123456.7891,"l":170141183460469231731687303715884105727,"t":"\\\"1234567890123456.5, 3"}`;
  const quoted = `{"x":"1234567890123456.7891","l":-5,"t":"é 1"}`;
  const cell = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const lines = [a, m, s].map(cell).join(',');
  for (const errorsMax of [0, 1]) {
    const file = `id,a,m,s\n1,${lines}\n2,,,${cell(quoted)}\n`;
    assert.deepEqual(await load('wide', definition, 'csv', file, { errorsMax, mode: 'replace' }), loadResult(2));
    const { rows } = await world.run('SELECT * FROM wide ORDER BY id');
    assert(rows.kind === 'text');
    const withoutSpaces = `[1,${a},${m},${s}],[2,null,null,${quoted.replaceAll('"1234567890123456.7891"', '1234567890123456.7891')}]`;
    assert.deepEqual(rows.text.replaceAll('],\n[', '],['), withoutSpaces);
    // Their numbers in quotes, as the reader of an engine may need it in files of JSON.
    const object = `{"id":1,"a":["123456789012345678.25",null],"m":[{"key":"k","value":"0.0000000001"}],"s":${quoted}}`;
    for (const format of ['ndjson', 'json'] as const) {
      assert.deepEqual(await load('wide', definition, format, object, { errorsMax, mode: 'replace' }), loadResult(1));
      const { rows: read } = await world.run('SELECT * FROM wide');
      assert(read.kind === 'text');
      const expected = object
        .replaceAll(/"([0-9.]+)"/g, '$1')
        .replaceAll(/"(?:id|a|m)":/g, '')
        .replace(',"s":', ',');
      assert.equal(read.text.replace('1E-10', '0.0000000001'), `[${expected.slice(1, -1)}]`);
    }
  }
  for (const broken of [
    '[1234567890123456.5-2]',
    '[01234567890123456.5]',
    '[1234567890123456.5',
    '["a,1234567890123456.5]',
  ]) {
    const failure = await failureOf(load('wide', definition, 'csv', `id,a\n1,${cell(broken)}\n`));
    assert.equal(failure.code, 'DATA_INVALID', broken);
  }
});

test('a column of CSV beside an expression keeps all its digits', async () => {
  const definition = await world.table('exact', { id: 'BIGINT', v: 'DECIMAL(38,2)', a: 'ARRAY<DECIMAL(38,2)>' });
  const columns = [{ name: 'id', expression: nextId }, { name: 'v' }, { name: 'a' }];
  const file = 'id,v,a\n1,123456789012345678.25,[123456789012345678.75]\n';
  for (const errorsMax of [0, 1]) {
    assert.deepEqual(
      await load('exact', definition, 'csv', file, { columns, errorsMax, mode: 'replace' }),
      loadResult(1),
    );
    const { rows } = await world.run('SELECT v, a FROM exact');
    assert(rows.kind === 'text');
    assert.equal(rows.text, '[123456789012345678.25,[123456789012345678.75]]');
  }
  // An expression may need the inferred type of the column, where an engine infers types.
  const isText = !engine.capabilities.schemaInference;
  const expression = `CASE WHEN ${isText ? 'CAST(v AS REAL)' : 'v'} > 0 THEN 1 ELSE 2 END`;
  const seen = [{ name: 'id', expression }, { name: 'v' }];
  const lines = 'v\n123456789012345678.25\n-1234567890123.25\n';
  const more = { columns: seen, errorsMax: 1, mode: 'replace' } as const;
  const { rowsLoaded, rowsRejected } = await load('exact', definition, 'csv', lines, more);
  assert.equal(rowsLoaded + rowsRejected, 2);
  const { rows } = await world.run('SELECT id, v FROM exact ORDER BY id DESC');
  assert(rows.kind === 'text');
  assert.equal(rows.text, ['[2,-1234567890123.25]', '[1,123456789012345678.25]'].slice(0, rowsLoaded).join(',\n'));
});

test('a wide number beside a JSON value keeps its digits, or its row is refused', async () => {
  const definition = await world.table('beside', { id: 'INT', s: 'STRUCT<x: DECIMAL(38,2), j: JSON>' });
  const lines = ['123456789012345678.25', '"123456789012345678.25"'].map(
    (x, i) => `${i},"${`{"x":${x},"j":{"n":1.5}}`.replaceAll('"', '""')}"\n`,
  );
  const { rowsLoaded, rowsRejected } = await load('beside', definition, 'csv', `id,s\n${lines.join('')}`, {
    errorsMax: 1,
  });
  assert.equal(rowsLoaded + rowsRejected, 2);
  const { rows } = await world.run('SELECT s FROM beside ORDER BY id');
  assert(rows.kind === 'text');
  const exact = '[{"x":123456789012345678.25,"j":{"n":1.5}}]';
  assert.equal(rows.text, Array.from({ length: rowsLoaded }, () => exact).join(',\n'));
});

test('the first row of CSV may have line breaks in quotes, with and without a header', async () => {
  const definition = await world.table('broad', { id: 'BIGINT', 'the text': 'STRING', n: 'INT' });
  const expected = [
    [1, 'first "line";\n\nthird; line', 7],
    [2, 'b', 8],
  ];
  const rows = '1;"first ""line"";\n\nthird; line";7\n2;b;8\n';
  const columns = [{ name: 'id' }, { name: 'the text', source: 'the\ntext' }, { name: 'n' }];
  const files: readonly (readonly [string, LoadOptions])[] = [
    [rows, {}],
    [rows, { csv: { header: false } }],
    [rows, { csv: { header: false, delimiter: ';' }, errorsMax: 1 }],
    [`id;the text;n\n${rows}`, {}],
    [`id;"the\ntext";n\n${rows}`, { columns }],
    [`id;"the\ntext";n\n${rows}`, { columns, csv: { header: true }, errorsMax: 1 }],
  ];
  for (const [index, [text, options]] of files.entries()) {
    assert.deepEqual(await load('broad', definition, 'csv', text, { ...options, mode: 'replace' }), loadResult(2));
    assert.deepEqual(await rowsOf('broad'), expected, `file ${index}`);
  }
  const texts = await world.table('broad_texts', { a: 'STRING', b: 'STRING' });
  const mapped = [{ name: 'a' }, { name: 'b', source: 'the\ntext' }];
  await load('broad_texts', texts, 'csv', 'a,"the\ntext"\nx,y\n', { columns: mapped });
  assert.deepEqual(await rowsOf('broad_texts'), [['x', 'y']]);
  const unclosed = await failureOf(load('broad', definition, 'csv', `1;"${'a\n'.repeat(2000)}`));
  assert.equal(unclosed.code, 'DATA_INVALID');
  assert.match(unclosed.message, /unclosed quote/);
});

test('replace leaves only the rows of the file; a dry run changes nothing', async () => {
  const definition = await world.table('replaced', people);
  await load('replaced', definition, 'csv', csv);
  await load('replaced', definition, 'csv', 'id,name\n7,zoe\n');
  assert.deepEqual(await load('replaced', definition, 'csv', csv, { mode: 'replace' }), loadResult(2));
  assert.deepEqual(await rowsOf('replaced'), [ann, bob]);
  for (const mode of ['append', 'replace'] as const)
    assert.deepEqual(
      await load('replaced', definition, 'csv', 'id,name\n3,cy\n', { mode, dryRun: true }),
      loadResult(1),
    );
  assert.deepEqual(await rowsOf('replaced'), [ann, bob]);
});

testOf('upsert')('upsert merges by the primary key', async () => {
  const definition = await world.table('keyed', people, { primaryKey: ['id'] });
  await load('keyed', definition, 'csv', csv);
  const changedFile = 'id,name\n2,bea\n3,cy\n';
  assert.deepEqual(
    await load('keyed', definition, 'csv', changedFile, { mode: 'upsert', dryRun: true }),
    loadResult(2),
  );
  assert.deepEqual(await rowsOf('keyed'), [ann, bob]);
  assert.deepEqual(await load('keyed', definition, 'csv', changedFile, { mode: 'upsert' }), loadResult(2));
  assert.deepEqual(await rowsOf('keyed'), [ann, [2, 'bea', null], [3, 'cy', null]]);
  assert.equal((await failureOf(load('keyed', definition, 'csv', changedFile))).code, 'CONSTRAINT_VIOLATED');
  const tableWithoutKey = await world.table('unkeyed', people);
  assert.equal(
    (await failureOf(load('unkeyed', tableWithoutKey, 'csv', csv, { mode: 'upsert' }))).code,
    'INVALID_PARAMETER',
  );
});

test('a step is applied once, and its result is recorded', async () => {
  const definition = await world.table('once', people);
  const step = randomUUID();
  await load('once', definition, 'csv', csv, { step });
  assert.deepEqual(await load('once', definition, 'csv', csv, { step }), { ...loadResult(2), repeated: true });
  assert.deepEqual(await rowsOf('once'), [ann, bob]);
});

test('expressions can use the columns of the file, and nothing else', async () => {
  const definition = await world.table('mapped', { id: 'BIGINT', name: 'STRING' });
  const loadMapped = (expression: string) =>
    load('mapped', definition, 'csv', csv, { columns: [{ name: 'id' }, { name: 'name', expression }] });
  await loadMapped(`upper(name) || ' ' || (id + 1) -- so`);
  assert.deepEqual(await rowsOf('mapped'), [
    [1, 'ANN 2'],
    [2, 'B,O"B 3'],
  ]);
  const refused = [
    '1; DROP TABLE mapped',
    '1) FROM mapped --',
    '(SELECT max(id) FROM mapped)',
    'sum(id)',
    'row_number() OVER ()',
    'unknown_column',
    '*',
    '$1',
    '',
    'a, b',
    `1 ORDER BY 1`,
    ...refusedExpressions,
  ];
  for (const expression of refused) {
    const { code } = await failureOf(loadMapped(expression));
    assert.equal(code, 'INVALID_PARAMETER', expression);
  }
  for (const expression of forbiddenExpressions) {
    const { code } = await failureOf(loadMapped(expression));
    assert.ok(code === 'SQL_FORBIDDEN_FUNCTION' || code === 'INVALID_PARAMETER', `${expression}: ${code}`);
  }
  assert.equal((await rowsOf('mapped')).length, 2);
});

const brokenFiles: Readonly<Record<string, readonly [DataFormat, string | Uint8Array, object, LoadOptions?]>> = {
  'a ragged line': ['csv', `${csv}3,c\n`, { row: 3, text: '3,c' }],
  'a line that is too long': ['csv', `${csv}3,c,,9\n`, { row: 3 }],
  'a wrong type in CSV': ['csv', `${csv}x3,c,\n`, { row: 3, column: 'id' }],
  'a day that is none': ['csv', `${csv}3,c,2001-02-30\n`, { row: 3, column: 'born' }],
  'bytes of another encoding': ['csv', Buffer.from(`${csv}3,\xe9t\xe9,\n`, 'latin1'), { row: 3, column: 'name' }],
  'a huge field': ['csv', `${csv}3,${'x'.repeat(3_000_000)},\n`, { row: 3, column: 'name' }],
  'nothing at all': ['csv', '', {}],
  'another file': ['csv', 'a,b\n1,2\n', { column: 'a' }],
  'one line without end': ['csv', `id,name,born\n1,${'a'.repeat(40_000_000)},\n`, {}],
  'a wrong type in NDJSON': ['ndjson', `${ndjson}{"id":"x"}\n`, { row: 3, column: 'id' }],
  'a broken line of NDJSON': ['ndjson', `${ndjson}{"id":\n`, { row: 3 }],
  'a wrong type in JSON': ['json', '[{"id":1},{"id":{}}]', { row: 2, column: 'id' }],
  'a JSON that is cut off': ['json', '[{"id":1},{"id"', {}],
  'JSON that is no objects': ['json', '[1,2]', {}],
};
for (const [name, [format, bytes, result, options]] of Object.entries(brokenFiles)) {
  test(`${name} is reported, and the table is unchanged`, async () => {
    const table = `broken_${randomUUID().slice(0, 8)}`;
    const definition = await world.table(table, people);
    await load(table, definition, 'csv', csv);
    const failure = await failureOf(load(table, definition, format, bytes, { mode: 'replace', ...options }));
    assert.equal(failure.code, 'DATA_INVALID', JSON.stringify(failure));
    assert.partialDeepStrictEqual(failure.result, result, JSON.stringify(failure));
    assert.doesNotMatch(JSON.stringify(failure), /éngine|spill|data-|read_csv|ignore_errors/);
    assert.deepEqual(await rowsOf(table), [ann, bob]);
  });
}

test('rows that do not fit are rejected, counted and stored, up to the limit', async () => {
  const definition = await world.table('partly', { id: 'BIGINT', name: 'VARCHAR(3)' }, { primaryKey: ['id'] });
  const texts: Readonly<Record<string, string>> = {
    csv: 'id,name\n1,a\nx,b\n3\n4,long\n,e\n6,f\n',
    ndjson:
      '{"id":1,"name":"a"}\n{"id":"x","name":"b"}\n{"id":3,\n{"id":4,"name":"long"}\n{"name":"e"}\n{"id":6,"name":"f"}\n',
  };
  for (const [format, text] of Object.entries(texts)) {
    const rejectsPath = join(world.spool, `${format}.rejects`);
    const reloadOptions = { mode: 'replace', errorsMax: 4, rejectsPath } as const;
    const loadedPartly = await load('partly', definition, format as DataFormat, text, reloadOptions);
    assert.deepEqual(loadedPartly, { rowsLoaded: 2, rowsRejected: 4, repeated: false });
    assert.deepEqual(await rowsOf('partly'), [
      [1, 'a'],
      [6, 'f'],
    ]);
    const lines = readFileSync(rejectsPath, 'utf8').trim().split('\n');
    const rejected = lines.map(
      (line) => JSON.parse(line) as { row: number; column: string | null; text: string | null },
    );
    const columns = format === 'csv' ? ['id', 'name', 'name', 'id'] : ['id', null, 'name', 'id'];
    assert.deepEqual(
      rejected.map(({ row, column }) => [row, column]),
      [2, 3, 4, 5].map((row, i) => [row, columns[i]]),
      lines.join('\n'),
    );
    const overLimit = await failureOf(
      load('partly', definition, format as DataFormat, text, { ...reloadOptions, errorsMax: 3 }),
    );
    assert.equal(overLimit.code, 'DATA_INVALID');
    assert.equal((await rowsOf('partly')).length, 2);
  }
  const outcome = await load('partly', definition, 'csv', 'id,name\n7,g\n', {
    errorsMax: 5,
    rejectsPath: join(world.spool, 'no'),
  });
  assert.deepEqual(outcome, loadResult(1));
  assert.equal(existsSync(join(world.spool, 'no')), false);
});

test('rows whose expression fails are rejected too, even if several columns use it', async () => {
  const key = { primaryKey: ['id'] };
  const definition = await world.table('computed', { id: 'BIGINT', next: 'BIGINT', name: 'VARCHAR(5)' }, key);
  const columns = [{ name: 'id' }, { name: 'next', expression: nextId }, { name: 'name', expression: 'id || id' }];
  const lines = ['1', 'x', '22', '333'];
  const texts = {
    csv: `id\n${lines.join('\n')}\n`,
    ndjson: `${lines.map((id) => JSON.stringify({ id })).join('\n')}\n`,
  };
  for (const [format, text] of Object.entries(texts)) {
    const rejectsPath = join(world.spool, `${format}.computed`);
    const more = { columns, mode: 'replace', errorsMax: 2, rejectsPath } as const;
    const loadedComputed = await load('computed', definition, format as DataFormat, text, more);
    assert.deepEqual(loadedComputed, { rowsLoaded: 2, rowsRejected: 2, repeated: false }, format);
    assert.deepEqual(await rowsOf('computed'), [
      [1, 2, '11'],
      [22, 23, '2222'],
    ]);
  }
});

test('a cancelled load leaves nothing', async () => {
  const definition = await world.table('cancelled', { id: 'BIGINT', name: 'STRING' });
  const text = `id,name\n${Array.from({ length: 400_000 }, (_, i) => `${i},${'y'.repeat(40)}`).join('\n')}\n`;
  const controller = new AbortController();
  const loading = failureOf(load('cancelled', definition, 'csv', text, { signal: controller.signal }));
  setTimeout(() => controller.abort(), 30);
  assert.equal((await loading).code, 'STATEMENT_CANCELLED');
  assert.deepEqual(await rowsOf('cancelled', 'count(*)'), [[0]]);
});
