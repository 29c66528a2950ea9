// DuckDB infers a table that can hold a file: names, types and the first rows, as far as the caller does not specify them; and
// a load reports its progress. See tests/resources/loads/load_database.test.ts for the part of the server.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { DataFormat, FileLoad, InferredTable, SchemaInference } from '../../../src/engines/port/load.ts';
import { formatType, parseType } from '../../../src/model/types.ts';
import { admissionRequest } from '../../admission_request.ts';
import { type EngineWorld, failureOf, openEngine } from '../../conformance/engine/engine_world.ts';
import { plain } from '../../table_definition.ts';

let world: EngineWorld;
before(async () => {
  world = await openEngine();
});
after(() => world.close());

function writeTemporaryFile(bytes: string | Uint8Array): string {
  const path = join(world.spool, `${randomUUID()}.data`);
  writeFileSync(path, bytes);
  return path;
}

type InferOptions = Partial<Omit<SchemaInference, 'file'>> & { readonly csv?: SchemaInference['file']['csv'] };

function infer(format: DataFormat, bytes: string, { csv = {}, ...more }: InferOptions = {}): Promise<InferredTable> {
  const file = { path: writeTemporaryFile(bytes), format, csv };
  return world.engine.inferTable({ file, readsAllRows: false, rowsMax: 10, ...more }, admissionRequest);
}

const summary = ({ columns, rows }: InferredTable) => ({
  columns: columns.map(({ name, type }) => `${name} ${formatType(type)}`),
  rows: rows.map((row) => JSON.parse(row) as unknown),
});

const csv = 'id,name,born,share\n1,ann,2001-02-03,0.5\n2,"b,o""b",,1\n';

test('columns, types and rows are inferred from the file', async () => {
  const rows = [
    [1, 'ann', '2001-02-03', 0.5],
    [2, 'b,o"b', null, 1],
  ];
  const columns = ['id BIGINT', 'name STRING', 'born DATE', 'share DOUBLE'];
  const inferred = await infer('csv', csv);
  assert.deepEqual(summary(inferred), { columns, rows });
  assert.ok(inferred.columns.every(({ nullable }) => nullable));
  assert.partialDeepStrictEqual(inferred.schema.csv, { delimiter: ',', header: true });
  const objects = '{"id":1,"name":"ann","born":"2001-02-03","share":0.5}\n{"id":2,"name":"b,o\\"b","share":1}\n';
  assert.deepEqual(summary(await infer('ndjson', objects)), { columns, rows });
  assert.deepEqual(summary(await infer('json', `[${objects.trim().replace('\n', ',')}]`)), { columns, rows });
});

test('an object with a single field named json is an object', async () => {
  assert.deepEqual(summary(await infer('ndjson', '{"json":1}\n{"json":2}\n')), {
    columns: ['json BIGINT'],
    rows: [[1], [2]],
  });
});

test('a value of an unsupported type becomes text, and a nested value stays nested', async () => {
  const text = '{"at":"10:11:12","tags":["a"],"of":{"x":1,"y":null},"any":[1,"a"]}\n';
  assert.deepEqual(summary(await infer('ndjson', text)), {
    columns: ['at STRING', 'tags ARRAY<STRING>', 'of STRUCT<x: BIGINT, y: JSON>', 'any ARRAY<JSON>'],
    rows: [['10:11:12', ['a'], { x: 1, y: null }, [1, 'a']]],
  });
});

test('types and columns that the caller specifies take precedence', async () => {
  const types = { ID: parseType('STRING'), share: parseType('DECIMAL(9,2)') };
  assert.deepEqual(summary(await infer('csv', csv, { types })), {
    columns: ['id STRING', 'name STRING', 'born DATE', 'share DECIMAL(9,2)'],
    rows: [
      ['1', 'ann', '2001-02-03', 0.5],
      ['2', 'b,o"b', null, 1],
    ],
  });
  const columns = [
    { name: 'who', source: 'NAME' },
    { name: 'id', type: parseType('INT') },
    { name: 'double', expression: 'share * 2' },
    { name: 'loud', expression: 'upper(name)', type: parseType('VARCHAR(20)') },
  ];
  assert.deepEqual(summary(await infer('csv', csv, { columns })), {
    columns: ['who STRING', 'id INT', 'double DOUBLE', 'loud VARCHAR(20)'],
    rows: [
      ['ann', 1, 1, 'ANN'],
      ['b,o"b', 2, 2, 'B,O"B'],
    ],
  });
});

test('columns of a file without a header are identified by position', async () => {
  const bare = '1,ann\n2,bob\n';
  assert.deepEqual(summary(await infer('csv', bare)).columns, ['column1 BIGINT', 'column2 STRING']);
  const named = await infer('csv', bare, { columns: [{ name: 'id' }, { name: 'name' }] });
  assert.deepEqual(summary(named).columns, ['id BIGINT', 'name STRING']);
  const chosen = await infer('csv', bare, { columns: [{ name: 'name', source: 'column2' }] });
  assert.deepEqual(summary(chosen), { columns: ['name STRING'], rows: [['ann'], ['bob']] });
});

test('types that only later rows show are found if all rows are read', async () => {
  const lateFraction = `${'{"n":1}\n'.repeat(30_000)}{"n":0.5,"more":"x"}\n`;
  assert.deepEqual(summary(await infer('ndjson', lateFraction, { rowsMax: 1 })).columns, ['n BIGINT']);
  const inferred = await infer('ndjson', lateFraction, { rowsMax: 1, readsAllRows: true });
  assert.deepEqual(summary(inferred).columns, ['n DOUBLE', 'more STRING']);
  const lines = `n\n${'1\n'.repeat(30_000)}x\n`;
  assert.deepEqual(summary(await infer('csv', lines, { rowsMax: 0 })), { columns: ['n BIGINT'], rows: [] });
  assert.deepEqual(summary(await infer('csv', lines, { rowsMax: 0, readsAllRows: true })).columns, ['n STRING']);
});

test('the preview rows match the types, are exact, and are limited in size', async () => {
  const exact = '{"n":170141183460469231731687303715884105727}\n';
  const { rows } = await infer('ndjson', exact, { types: { n: parseType('LARGEINT') } });
  assert.deepEqual(rows, ['[170141183460469231731687303715884105727]']);
  assert.deepEqual(summary(await infer('csv', `a,b\n1,2\n3\nx,4\n5,6\n`, { types: { a: parseType('INT') } })).rows, [
    [1, 2],
    [5, 6],
  ]);
  const columns = [
    { name: 'a', type: parseType('INT') },
    { name: 'b', expression: 'a::INT + 1' },
  ];
  assert.deepEqual(summary(await infer('csv', 'a\n1\nx\n', { columns })).rows, [
    [1, 2],
    [null, null],
  ]);
  const long = `a\n${`${'x'.repeat(200_000)}\n`.repeat(3)}`;
  assert.equal((await infer('csv', long, { csv: { header: true } })).rows.length, 1);
});

test('the preview of a CSV file says how many of its first rows do not fit', async () => {
  const types = { a: parseType('INT') };
  const { sample } = await infer('csv', `a,b\n1,2\n3\nx,4\n5,6\n7,8,9\n`, { types });
  assert.deepEqual(sample, { rows: 5, rowsRejected: 3 });
  assert.deepEqual((await infer('csv', csv)).sample, { rows: 2, rowsRejected: 0 });
  assert.equal((await infer('csv', csv, { rowsMax: 0 })).sample, undefined);
  // Only the beginning of a large file is read, and a row that the sample cuts off is none that does not fit.
  const row = `1,"${'x\n'.repeat(500)}"\n`;
  const long = await infer('csv', `a,b\n2\n${row.repeat(3000)}3\n`);
  assert.equal(long.sample?.rowsRejected, 1);
  assert.ok(long.sample.rows > 500 && long.sample.rows < 2000, JSON.stringify(long.sample));
});

const refused: Readonly<Record<string, readonly [string, DataFormat, string, InferOptions?]>> = {
  'a type for a column that is not there': ['INVALID_PARAMETER', 'csv', csv, { types: { other: { kind: 'STRING' } } }],
  'a source that is not there': ['INVALID_PARAMETER', 'csv', csv, { columns: [{ name: 'a', source: 'other' }] }],
  'an expression that names a table': [
    'INVALID_PARAMETER',
    'csv',
    csv,
    { columns: [{ name: 'a', expression: '(SELECT 1)' }] },
  ],
  'an expression over many rows': [
    'INVALID_PARAMETER',
    'csv',
    csv,
    { columns: [{ name: 'a', expression: 'sum(id)' }] },
  ],
  'a forbidden function': [
    'SQL_FORBIDDEN_FUNCTION',
    'csv',
    csv,
    { columns: [{ name: 'a', expression: `getenv('HOME')` }] },
  ],
  'an empty file': ['DATA_INVALID', 'csv', ''],
  'a file of another format': ['DATA_INVALID', 'parquet', csv],
  'an empty parquet': ['DATA_INVALID', 'parquet', ''],
  'JSON that is no objects': ['DATA_INVALID', 'json', '[1,2]'],
  'two columns of one name': ['DATA_INVALID', 'csv', 'a,A\n1,2\n', { csv: { header: true } }],
};
for (const [name, [code, format, bytes, options]] of Object.entries(refused)) {
  test(`${name} is refused`, async () => {
    const failure = await failureOf(infer(format, bytes, options));
    assert.equal(failure.code, code, JSON.stringify(failure));
    assert.doesNotMatch(JSON.stringify(failure), /data-|read_csv|spool/);
  });
}

test('a file with more columns than a table can have is refused before its types are inferred', async () => {
  const wide = (text: (i: number) => string) => Array.from({ length: 200_000 }, (_, i) => text(i)).join(',');
  const failure = await failureOf(
    world.engine.inferTable(
      {
        file: { path: writeTemporaryFile(`${wide((i) => `c${i}`)}\n${wide(String)}\n`), format: 'csv', csv: {} },
        readsAllRows: false,
        rowsMax: 10,
      },
      admissionRequest,
    ),
  );
  assert.equal(failure.code, 'DATA_INVALID');
  assert.match(failure.message, /more than 10000 columns/);
});

function work(table: string, path: string, inferred: InferredTable, more: Partial<FileLoad> = {}): FileLoad {
  return {
    table: { catalog: world.catalog, database: world.database, table },
    definition: { columns: inferred.columns, ...plain },
    file: { path, format: 'csv', csv: {}, schema: inferred.schema },
    mode: 'append',
    errorsMax: 0,
    dryRun: false,
    rejectsPath: join(world.spool, `${randomUUID()}.rejects`),
    step: randomUUID(),
    ...more,
  };
}

test('a dry run into a missing table leaves none, and reports the counts of the load', async () => {
  const inferred = await infer('csv', csv);
  const dry = { dryRun: true, isNewTable: true } as const;
  const loadedDry = await world.engine.load(work('unmade', writeTemporaryFile(csv), inferred, dry), admissionRequest);
  assert.deepEqual(loadedDry, { rowsLoaded: 2, rowsRejected: 0, repeated: false });
  assert.equal((await failureOf(world.run('SELECT * FROM unmade'))).code, 'SQL_INVALID');
  const keyed = work('unmade', writeTemporaryFile(`${csv}1,again,,\n`), inferred, {
    ...dry,
    definition: { columns: inferred.columns, ...plain, primaryKey: ['id'] },
  });
  assert.equal((await failureOf(world.engine.load(keyed, admissionRequest))).code, 'CONSTRAINT_VIOLATED');
  await world.table('unmade', { id: 'BIGINT' });
  const refusal = await failureOf(
    world.engine.load(work('unmade', writeTemporaryFile(csv), inferred, dry), admissionRequest),
  );
  assert.equal(refusal.code, 'CHANGE_IN_PROGRESS');
});

test('a load reports its progress, whether or not rows may be rejected', async () => {
  const lines = Array.from({ length: 100_000 }, (_, i) => `${i},${'y'.repeat(40)},${i / 7}\n`).join('');
  const path = writeTemporaryFile(`id,name,share\n${lines.repeat(30)}`);
  const columns = { id: 'BIGINT', name: 'STRING', share: 'DOUBLE' };
  // Progress is read every 200 ms: on a busy machine a load may end before a reading of it.
  const attemptsMax = 5;
  for (const errorsMax of [0, 5]) {
    let isReported = false;
    for (let attempt = 0; attempt < attemptsMax && !isReported; attempt++) {
      const table = `far_${errorsMax}_${attempt}`;
      const { columns: defined } = await world.table(table, columns);
      const fractions: number[] = [];
      const schema = { csv: { delimiter: ',', header: true }, columns: [] };
      const load = work(table, path, { columns: defined, schema, loaded: undefined, rows: [] }, { errorsMax });
      await world.engine.load(
        { ...load, file: { path, format: 'csv', csv: {} } },
        { ...admissionRequest, progress: (fraction) => fractions.push(fraction) },
      );
      assert.deepEqual(
        fractions,
        fractions.toSorted((a, b) => a - b),
      );
      isReported = fractions.some((fraction) => fraction > 0 && fraction < 1);
    }
    assert.ok(isReported, `no load with errorsMax ${errorsMax} reported its progress`);
  }
});

test('a Parquet file that is none is reported by a load', async () => {
  const definition = await world.table('columnar', { id: 'BIGINT' });
  for (const bytes of ['id\n1\n', '']) {
    const inferred = { columns: definition.columns, schema: { csv: {}, columns: [] }, loaded: undefined, rows: [] };
    const load = work('columnar', '', inferred);
    const file = { path: writeTemporaryFile(bytes), format: 'parquet', csv: {} } as const;
    const { code } = await failureOf(world.engine.load({ ...load, file }, admissionRequest));
    assert.equal(code, 'DATA_INVALID', bytes);
  }
});
