// The content of the data directories in data/, and the responses that any later release has to give about them. Never change an entry
// for which a directory exists; add one, and write a new directory (data/README.md).

export interface Content {
  /** Executed, and then written from the log into the catalog's file by a clean stop. */
  readonly inFile: readonly Call[];
  /** Executed by the next server, whose engine is then killed: only the log of the catalog contains it. */
  readonly inLog: readonly Call[];
  /** SQL in the database `kept`, and the JSON text of its rows: parsed, large numbers would lose digits. */
  readonly answers: readonly (readonly [sql: string, rows: string])[];
}
type Call = readonly [method: 'POST' | 'PUT' | 'PATCH', path: string, body: object | string];

/** Whether the response to a query contains these rows, one on a line. */
export const hasRows = (answer: string, rows: string): boolean =>
  answer.replaceAll(',\n[', ',[').includes(`"rows":${rows},`);

const kinds = [
  ['id', 'INT', '1'],
  ['boolean', 'BOOLEAN', 'true'],
  ['tinyint', 'TINYINT', '-128'],
  ['bigint', 'BIGINT', '9223372036854775807'],
  ['largeint', 'LARGEINT', '-170141183460469231731687303715884105727'],
  ['double', 'DOUBLE', '0.1'],
  ['decimal', 'DECIMAL(38,10)', '1234567890123456789012345678.0123456789'],
  ['date', 'DATE', '"2026-02-28"'],
  ['datetime', 'DATETIME', '"2026-01-31T10:00:00.123456"'],
  ['timestamptz', 'TIMESTAMPTZ', '"2026-01-31T10:00:00.123456Z"'],
  ['char', 'CHAR(3)', '"äbc"'],
  ['varchar', 'VARCHAR(5)', '"😀"'],
  ['string', 'STRING', '"a\\"b\\\\c\\n"'],
  ['binary', 'BINARY', '"AP8Q"'],
  ['json', 'JSON', '{"a":[1,null,"x"]}'],
  ['uuid', 'UUID', '"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"'],
  ['array', 'ARRAY<INT>', '[1,null,3]'],
  ['map', 'MAP<STRING, DOUBLE>', '[{"key":"a","value":1.5}]'],
  ['struct', 'STRUCT<a: INT, b: ARRAY<STRING>>', '{"a":1,"b":["x",null]}'],
] as const;

/** A row of every type, and a row that is null except for its key. */
const kindsRows = (id: number): string =>
  `[${kinds.map(([name, , value]) => (name === 'id' ? id : value)).join(',')}],[${kinds.map(([name]) => (name === 'id' ? id + 1 : 'null')).join(',')}]`;
const rawRows = (id: number): string => `{"rows":[${kindsRows(id)}]}`;
const orders = (from: number, count: number) => ({
  rows: Array.from({ length: count }, (_, i) => [from + i, `customer ${(from + i) % 7}`, (from + i) / 4]),
});

const database = '/api/v2/databases/kept';
const keyed = { primaryKey: ['id'] };

export const content: Content = {
  inFile: [
    ['PUT', database, { comment: 'written by an older release' }],
    ['PUT', `${database}/tables/kinds`, { columns: kinds.map(([name, type]) => ({ name, type })), ...keyed }],
    [
      'PUT',
      `${database}/tables/orders`,
      {
        columns: [
          { name: 'id', type: 'INT' },
          { name: 'customer', type: 'STRING' },
          { name: 'price', type: 'DECIMAL(10,2)' },
        ],
        ...keyed,
      },
    ],
    [
      'PUT',
      `${database}/views/customers`,
      { sql: 'SELECT customer, count(*) AS orders FROM orders GROUP BY customer' },
    ],
    ['POST', `${database}/tables/kinds/rows`, rawRows(1)],
    ['POST', `${database}/tables/orders/rows`, orders(0, 1000)],
    ['PUT', '/api/v2/catalogs/second', {}],
  ],
  inLog: [
    ['POST', `${database}/tables/kinds/rows`, rawRows(3)],
    ['POST', `${database}/tables/orders/rows`, orders(1000, 100)],
    ['POST', `${database}/query`, { sql: 'DELETE FROM orders WHERE id < 10' }],
    ['POST', `${database}/query`, { sql: "UPDATE orders SET customer = 'nobody' WHERE id = 1050" }],
    ['POST', `${database}/tables/orders/columns`, { name: 'note', type: 'STRING' }],
    ['PUT', `${database}/tables/late`, { columns: [{ name: 'id', type: 'INT' }] }],
    ['POST', `${database}/tables/late/rows`, { rows: [[7], [8]] }],
  ],
  answers: [
    ['SELECT * FROM kinds ORDER BY id', `[${kindsRows(1)},${kindsRows(3)}]`],
    ['SELECT count(*), min(id), max(id), sum(price), count(note) FROM orders', '[[1090,10,1099,151101.25,0]]'],
    ["SELECT id, customer FROM orders WHERE customer = 'nobody'", '[[1050,"nobody"]]'],
    ['SELECT sum(orders) FROM customers', '[[1090]]'],
    ['SELECT id FROM late ORDER BY id', '[[7],[8]]'],
  ],
};
