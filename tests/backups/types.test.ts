// Every logical type is restored with all of its values, in the order of the rows; and so are keys, defaults, comments and NOT
// NULL.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { jsonForms } from '../../src/model/types.ts';
import { uri } from '../server.ts';
import { type BackupServer, backUpSucceeding, restoreSucceeding, rowsIn, startBackingUp } from './backing_up.ts';

/** SQL literals of each type, without NULL. */
const values: Readonly<Record<string, readonly string[]>> = {
  BOOLEAN: ['true', 'false'],
  TINYINT: ['-128', '127'],
  SMALLINT: ['-32768', '32767'],
  INT: ['-2147483648', '2147483647'],
  BIGINT: ['-9223372036854775808', '9223372036854775807'],
  LARGEINT: ['-170141183460469231731687303715884105728', '170141183460469231731687303715884105727', '0'],
  FLOAT: ["'nan'", "'inf'", "'-inf'", "'-0.0'", "'1e-45'", "'3.4028235e38'"],
  DOUBLE: ["'nan'", "'inf'", "'-inf'", "'-0.0'", "'5e-324'", "'1.7976931348623157e308'"],
  'DECIMAL(4,2)': ['-99.99', '99.99'],
  'DECIMAL(18,3)': ["'-999999999999999.999'", '0'],
  'DECIMAL(38,0)': ["'-99999999999999999999999999999999999999'"],
  'DECIMAL(38,38)': ["'0.99999999999999999999999999999999999999'"],
  DATE: ["'infinity'", "'-infinity'", "'5881580-07-10'", "'5877642-06-25 (BC)'", "'0001-01-01'"],
  DATETIME: ["'infinity'", "'-infinity'", "'294247-01-10 04:00:54.775806'", "'290309-12-22 (BC) 00:00:00'"],
  TIMESTAMPTZ: ["'infinity'", "'-infinity'", "'1969-12-31 23:59:59.999999+00'"],
  'CHAR(3)': ["''", "'abc'"],
  'VARCHAR(5)': ["''", "'NULL'", "'äöü😀x'"],
  STRING: ["''", "'NULL'", "'null'", "chr(0) || 'x'", "repeat('long ', 10000)"],
  BINARY: ["''::BLOB", "'\\x00\\xFF'::BLOB"],
  JSON: [`'{"a": 1.0,  "a":2}'`, "'null'", "'[1, 2 ]'", "'12345678901234567890123'"],
  UUID: ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
  'ARRAY<INT>': ['[]', '[NULL]', '[1,NULL,2]'],
  'ARRAY<ARRAY<STRING>>': ["[[],NULL,['NULL',NULL,'','a,b','[x]','''']]"],
  'ARRAY<LARGEINT>': ['[170141183460469231731687303715884105727, NULL]', '[]'],
  'ARRAY<JSON>': [`['1'::JSON, NULL, '{"a":[]}'::JSON]`],
  'ARRAY<DOUBLE>': ["['-0.0'::DOUBLE, 'nan'::DOUBLE]"],
  'STRUCT<"a.b": LARGEINT, "c""d": STRUCT<x: ARRAY<DATE>>>': [
    `{'a.b': 1, 'c"d': {'x': ['infinity'::DATE]}}`,
    `{'a.b': NULL, 'c"d': NULL}`,
    `{'a.b': NULL, 'c"d': {'x': []}}`,
  ],
  'MAP<LARGEINT, ARRAY<LARGEINT>>': ['map {}', 'map {1: [2, NULL], 2: NULL}'],
  'MAP<STRING, STRUCT<j: JSON, u: UUID, b: BINARY, t: TIMESTAMPTZ, f: FLOAT>>': [
    `map {'': {'j': '1.0'::JSON, 'u': NULL, 'b': '\\x00'::BLOB, 't': 'infinity'::TIMESTAMPTZ, 'f': 'nan'::FLOAT}}`,
  ],
};

describe('types in a backup', () => {
  let backing: BackupServer;
  before(async () => {
    backing = await startBackingUp();
    const { server } = backing;
    await server.client.catalogs.create({ name: 'kinds' });
    await server.client.catalogs('kinds').databases.create({ name: 'd' });
    for (const [i, [type, literals]] of Object.entries(values).entries()) {
      const columns = [
        { name: 'id', type: 'INT', nullable: false },
        { name: 'v', type },
      ];
      await server.client
        .catalogs('kinds')
        .databases('d')
        .tables.create({ name: `t${i}`, columns })
        .done();
      const rows = [...literals, 'NULL'].map((literal, n) => `(${n}, ${literal})`);
      // The values are inserted one by one: a single VALUES list would give them a common type.
      for (const row of rows)
        (await server.post('/api/v2/catalogs/kinds/query', { sql: `INSERT INTO d.t${i} VALUES ${row}` })).is(200);
    }
  });
  after(() => backing.close());

  it('are all covered', () => {
    const kinds = new Set(Object.keys(values).map((type) => /^\w+/.exec(type)?.[0]));
    assert.deepEqual([...kinds].sort(), Object.keys(jsonForms).sort());
  });

  it('are restored exactly', async () => {
    const { server, directory } = backing;
    const to = { path: directory } as const;
    const { rows } = await backUpSucceeding(server, uri`/catalogs/kinds`, to);
    assert.ok(rows > 0);
    await restoreSucceeding(server, '/api/v2/catalogs', { name: 'again', from: to });
    for (const [i, [type, literals]] of Object.entries(values).entries()) {
      const listTable = async (catalog: string) => {
        const sql = `SELECT id, v, v::VARCHAR AS text, typeof(v) AS type, v IS NULL AS none FROM d.t${i}`;
        return (await server.post(uri`/catalogs/${catalog}/query`, { sql })).is(200).text;
      };
      const texts = [await listTable('kinds'), await listTable('again')].map((text) => JSON.parse(text).result.rows);
      assert.equal(texts[0].length, literals.length + 1, type);
      assert.deepEqual(texts[1], texts[0], type);
      const definition = async (catalog: string) =>
        (await server.get(uri`/catalogs/${catalog}/databases/d/tables/${`t${i}`}`)).is(200).at('columns');
      const typesOf = (columns: unknown) => (columns as { name: string; type: string }[]).map(({ type }) => type);
      assert.deepEqual(typesOf(await definition('again')), typesOf(await definition('kinds')), type);
    }
  });

  it('keys, defaults, comments and NOT NULL are restored from the definition', async () => {
    const { server, directory } = backing;
    (await server.patch('/api/v2/catalogs/kinds', { comment: 'all kinds', properties: { team: 'x', 7: 'y' } })).is(200);
    (await server.patch('/api/v2/catalogs/kinds/databases/d', { comment: 'of data' })).is(200);
    const definition = {
      name: 'Ordered "t"',
      comment: 'kept',
      properties: { a: 'b' },
      columns: [
        { name: 'rowid', type: 'BIGINT', nullable: false, comment: 'the key' },
        { name: 'b "c"', type: 'VARCHAR(4)', defaultValue: "'it''s'" },
        { name: 'd', type: 'INT', nullable: false, defaultValue: '1 + 1' },
      ],
      primaryKey: ['rowid'],
      unique_key_constraints: ['b "c"', 'd'],
      orderBy: ['d'],
    };
    await server.client.catalogs('kinds').databases('d').tables.create(definition).done();
    const to = { path: `${directory}/definitions/deep` } as const;
    (
      await server.post('/api/v2/catalogs/kinds/query', {
        sql: `INSERT INTO d."Ordered ""t""" VALUES (3, 'x', 1), (1, 'y', 1), (2, NULL, 5)`,
      })
    ).is(200);
    await backUpSucceeding(server, uri`/catalogs/kinds`, to);
    await restoreSucceeding(server, '/api/v2/catalogs', { name: 'defined', from: to });
    const record = async (catalog: string) => {
      const path = uri`/catalogs/${catalog}/databases/d/tables/${definition.name}`;
      const {
        uri: _,
        createdAt: _1,
        updatedAt: _2,
        statistics: _3,
        version: _4,
        ...rest
      } = (await server.get(path)).is(200).result;
      const text = JSON.stringify(rest, (key, value) =>
        ['createdAt', 'updatedAt', 'version', 'uri'].includes(key) ? undefined : value,
      );
      return JSON.parse(text.replaceAll(`/catalogs/${catalog}/`, '/catalogs/x/')) as unknown;
    };
    assert.deepEqual(await record('defined'), await record('kinds'));
    (await server.get('/api/v2/catalogs/defined')).is(200, '0', {
      comment: 'all kinds',
      properties: { team: 'x', 7: 'y' },
      owner: 'root',
    });
    (await server.get('/api/v2/catalogs/defined/databases/d')).is(200, '0', { comment: 'of data', owner: 'root' });
    assert.deepEqual(await rowsIn(server, 'defined', 'SELECT * FROM d."Ordered ""t"""'), [
      [3, 'x', 1],
      [1, 'y', 1],
      [2, null, 5],
    ]);
    const requireBrokenView = async (sql: string) =>
      (await server.post('/api/v2/catalogs/defined/query', { sql })).is(400, 'CONSTRAINT_VIOLATED');
    await requireBrokenView(`INSERT INTO d."Ordered ""t""" VALUES (3, 'z', 1)`);
    await requireBrokenView(`INSERT INTO d."Ordered ""t""" VALUES (4, 'x', 1)`);
    await requireBrokenView(`INSERT INTO d."Ordered ""t""" VALUES (4, 'fives', 1)`);
    (
      await server.post('/api/v2/catalogs/defined/query', { sql: `INSERT INTO d."Ordered ""t""" (rowid) VALUES (9)` })
    ).is(200);
    assert.deepEqual(await rowsIn(server, 'defined', 'SELECT * FROM d."Ordered ""t""" WHERE "rowid" = 9'), [
      [9, "it's", 2],
    ]);
  });
});
