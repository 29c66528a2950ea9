// Altered tables on a real DuckDB, in both directions: structure and data afterwards, refusals, and cost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyChange, costOf } from '../../../../src/engines/duckdb/ddl/apply_change.ts';
import { qualifiedTable } from '../../../../src/engines/duckdb/sql/identifiers.ts';
import type { Change } from '../../../../src/engines/port/changes.ts';
import type { TableDefinition } from '../../../../src/model/records.ts';

import {
  assertSurvives,
  column,
  definition,
  dump,
  failureOf,
  hostileName,
  requireIdempotent,
  world,
} from './changes_world.ts';

interface AlterCase {
  readonly name: string;
  readonly from: TableDefinition;
  readonly to: TableDefinition;
  readonly renamed?: Record<string, string>;
  readonly insert: string;
  /** `SELECT * ... ORDER BY ALL` afterwards. */
  readonly rows: unknown[][];
  /** A row that is refused afterwards. */
  readonly refuses?: string;
}

const abc = [column('a', 'INT'), column('b', 'VARCHAR(5)'), column('c', 'INT', { defaultValue: '7' })];
const alterCases: AlterCase[] = [
  {
    name: 'columns added with and without a default',
    from: definition(abc),
    to: definition([
      ...abc,
      column('d', 'BIGINT', { nullable: false, defaultValue: '2 + 3' }),
      column('e', 'ARRAY<INT>'),
    ]),
    insert: `(1, 'x', 2)`,
    rows: [[1, 'x', 2, '5', null]],
    refuses: `(1, 'x', 2, NULL, NULL)`,
  },
  {
    name: 'columns added with literal defaults, under a key',
    from: definition(abc, { uniqueKey: ['c'] }),
    to: definition(
      [
        ...abc,
        column('d', 'DATE', { nullable: false, defaultValue: `'2026-01-31'` }),
        column('e', 'DOUBLE', { defaultValue: '-1e2' }),
      ],
      { uniqueKey: ['c'] },
    ),
    insert: `(1, 'x', 2)`,
    rows: [[1, 'x', 2, '2026-01-31', -100]],
    refuses: `(1, 'x', 2, DEFAULT, DEFAULT)`,
  },
  {
    name: 'a column with a length added',
    from: definition(abc),
    to: definition([...abc, column('d', 'VARCHAR(2)', { defaultValue: `'dd'` })]),
    insert: `(1, 'x', 2)`,
    rows: [[1, 'x', 2, 'dd']],
    refuses: `(1, 'x', 2, 'ddd')`,
  },
  {
    name: 'columns dropped, the one with a length among them',
    from: definition(abc),
    to: definition([abc[0]!]),
    insert: `(1, 'x', 2)`,
    rows: [[1]],
  },
  {
    name: 'every column replaced',
    from: definition(abc),
    to: definition([column('z', 'INT', { defaultValue: '9' })]),
    insert: `(1, 'x', 2), (2, 'x', 2)`,
    rows: [[9], [9]],
  },
  {
    name: 'names that change places',
    from: definition([column('a', 'INT'), column('b', 'INT'), column('c', 'STRING')]),
    to: definition([column('b', 'INT'), column('a', 'INT'), column(hostileName, 'STRING')]),
    renamed: { a: 'b', b: 'a', c: hostileName },
    insert: `(1, 2, 'c')`,
    rows: [[1, 2, 'c']],
  },
  {
    name: 'a name whose case changes, in a key',
    from: definition(abc, { primaryKey: ['a'], uniqueKey: ['b'] }),
    to: definition([column('A', 'INT'), column('B', 'VARCHAR(5)'), abc[2]!], { primaryKey: ['A'], uniqueKey: ['B'] }),
    renamed: { a: 'A', b: 'B' },
    insert: `(1, 'x', 2)`,
    rows: [[1, 'x', 2]],
    refuses: `(2, 'x', 2)`,
  },
  {
    name: 'another order',
    from: definition(abc, { primaryKey: ['a'] }),
    to: definition([abc[2]!, abc[0]!, abc[1]!], { primaryKey: ['a'] }),
    insert: `(1, 'x', 2)`,
    rows: [[2, 1, 'x']],
    refuses: `(3, 1, 'y')`,
  },
  {
    name: 'wider types, those of keys and lengths among them',
    from: definition(
      [column('a', 'INT'), column('b', 'VARCHAR(5)'), column('c', 'DECIMAL(5,2)'), column('d', 'DATE')],
      {
        primaryKey: ['a'],
        uniqueKey: ['b'],
      },
    ),
    to: definition(
      [column('a', 'LARGEINT'), column('b', 'STRING'), column('c', 'DECIMAL(38,10)'), column('d', 'DATETIME')],
      {
        primaryKey: ['a'],
        uniqueKey: ['b'],
      },
    ),
    insert: `(1, 'x', 1.25, '2026-01-31')`,
    rows: [['1', 'x', '1.2500000000', '2026-01-31 00:00:00']],
    refuses: `(170141183460469231731687303715884105727, 'x', 1, NULL)`,
  },
  {
    name: 'wider types in place',
    from: definition(
      [column('a', 'INT'), column('b', 'STRING'), column('m', 'MAP<STRING, INT>'), column('l', 'ARRAY<FLOAT>')],
      {
        uniqueKey: ['b'],
      },
    ),
    to: definition(
      [column('a', 'BIGINT'), column('b', 'STRING'), column('m', 'MAP<STRING, BIGINT>'), column('l', 'ARRAY<DOUBLE>')],
      {
        uniqueKey: ['b'],
      },
    ),
    insert: `(1, 'x', MAP {'k': 1}, [1.5])`,
    rows: [['1', 'x', [{ key: 'k', value: '1' }], [1.5]]],
    refuses: `(9223372036854775807, 'x', NULL, NULL)`,
  },
  {
    name: 'a default and NOT NULL set',
    from: definition(abc),
    to: definition([
      { ...abc[0]!, nullable: false, defaultValue: '42' },
      { ...abc[1]!, nullable: false },
      column('c', 'INT'),
    ]),
    insert: `(1, 'x', 2)`,
    rows: [[1, 'x', 2]],
    refuses: `(NULL, 'x', 2)`,
  },
  {
    name: 'NOT NULL and a default cleared',
    from: definition([column('a', 'INT', { nullable: false, defaultValue: '1' })]),
    to: definition([column('a', 'INT')]),
    insert: '(1)',
    rows: [[1]],
  },
  {
    name: 'a unique key set',
    from: definition(abc),
    to: definition(abc, { uniqueKey: ['a', 'b'] }),
    insert: `(1, 'x', 2), (1, NULL, 3), (1, NULL, 3)`,
    rows: [[1, 'x', 2], [1, null, 3], [1, null, 3]], // biome-ignore format: rows
    refuses: `(1, 'x', 9)`,
  },
  {
    name: 'a unique key changed',
    from: definition(abc, { uniqueKey: ['a'] }),
    to: definition(abc, { uniqueKey: ['b'] }),
    insert: `(1, 'x', 2)`,
    rows: [[1, 'x', 2]],
    refuses: `(3, 'x', 9)`,
  },
  {
    name: 'a unique key kept while its table changes',
    from: definition(abc, { uniqueKey: ['a'] }),
    to: definition([abc[0]!, abc[2]!, column('n', 'INT')], { uniqueKey: ['a'] }),
    insert: `(1, 'x', 2)`,
    rows: [[1, 2, null]],
    refuses: `(1, 3, 4)`,
  },
  {
    name: 'a primary key set, its column renamed',
    from: definition(abc),
    to: definition([column('id', 'INT', { nullable: false }), abc[1]!, abc[2]!], { primaryKey: ['id'] }),
    renamed: { a: 'id' },
    insert: `(1, 'x', 2)`,
    rows: [[1, 'x', 2]],
    refuses: `(1, 'y', 3)`,
  },
  { name: 'nothing', from: definition(abc), to: definition(abc), insert: `(1, 'x', 2)`, rows: [[1, 'x', 2]] },
];

for (const alterCase of alterCases) {
  test(`alter: ${alterCase.name}`, async () => {
    const fixture = await world();
    await fixture.apply({ kind: 'createTable', table: fixture.table, definition: alterCase.from });
    await fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES ${alterCase.insert}`);
    const change: Change = {
      kind: 'alterTable',
      table: fixture.table,
      from: alterCase.from,
      to: alterCase.to,
      renamedColumns: alterCase.renamed ?? {},
    };
    assert.equal(await costOf(fixture.connection, change), 'instant');
    await requireIdempotent(fixture, change);
    assert.deepEqual(await fixture.rows(`SELECT * FROM ${qualifiedTable(fixture.table)} ORDER BY ALL`), alterCase.rows);
    const columnNames = await fixture.rows(`SELECT column_name FROM (DESCRIBE ${qualifiedTable(fixture.table)})`);
    assert.deepEqual(columnNames.flat(), alterCase.to.columns.map((c) => c.name)); // biome-ignore format: one line
    if (alterCase.refuses) {
      await assert.rejects(
        fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES ${alterCase.refuses}`),
        /Constraint Error/,
      );
    }
    // And back again: an altered table can be altered again.
    const renamed = Object.fromEntries(Object.entries(alterCase.renamed ?? {}).map(([from, to]) => [to, from]));
    await fixture.connection.run(`DELETE FROM ${qualifiedTable(fixture.table)}`);
    await requireIdempotent(fixture, { ...change, from: alterCase.to, to: alterCase.from, renamedColumns: renamed });
    await fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES ${alterCase.insert}`);
    await assertSurvives(fixture);
  });
}

test('data that does not fit is reported, and nothing is changed', async () => {
  const fixture = await world();
  const from = definition([column('a', 'LARGEINT'), column('b', 'DOUBLE'), column('c', 'INT')]);
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: from });
  const alter = (to: TableDefinition, renamedColumns = {}): Promise<unknown> =>
    fixture.apply({ kind: 'alterTable', table: fixture.table, from, to, renamedColumns });
  await fixture.connection.run(
    `INSERT INTO ${qualifiedTable(fixture.table)} SELECT 12345678901234567890 + range // 2, 'nan', nullif(range, 3) FROM range(40)`,
  );
  const before = await dump(fixture.connection, fixture.catalog.name);
  const repeatedFailure = await failureOf(alter(definition([...from.columns], { uniqueKey: ['a'] })));
  assert.equal(repeatedFailure.code, 'CONSTRAINT_VIOLATED');
  assert.equal(repeatedFailure.result.count, 20);
  const keys = repeatedFailure.result.keys as unknown[];
  assert.equal(keys.length, 10);
  assert.equal(JSON.stringify(keys[0]), '{"a":12345678901234567890}');

  const renamed = definition([column('x', 'LARGEINT'), column('y', 'DOUBLE'), column('c', 'INT')], {
    uniqueKey: ['x', 'y'],
  });
  const pair = await failureOf(alter(renamed, { a: 'x', b: 'y' }));
  assert.equal(JSON.stringify((pair.result.keys as unknown[])[0]), '{"x":12345678901234567890,"y":"NaN"}');

  const nulls = await failureOf(
    alter(definition([from.columns[0]!, from.columns[1]!, { ...from.columns[2]!, nullable: false }])),
  );
  assert.equal(nulls.code, 'CONSTRAINT_VIOLATED');
  assert.equal(
    JSON.stringify(nulls.result),
    '{"column":"c","count":1,"rows":[{"a":12345678901234567891,"b":"NaN","c":null}]}',
  );

  const added = await failureOf(alter(definition([...from.columns, column('n', 'INT', { nullable: false })])));
  assert.equal(added.result.count, 40);
  const primary = await failureOf(alter(definition([...from.columns], { primaryKey: ['a'] })));
  assert.equal(primary.result.count, 20);
  assert.deepEqual(await dump(fixture.connection, fixture.catalog.name), before);
  await assertSurvives(fixture);
});

test('a change of a large table counts as a rewrite only if it writes data', async () => {
  const fixture = await world();
  const from = definition(abc);
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: from });
  await fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} SELECT range, 'x', 1 FROM range(100_000)`);
  const cost = (to: TableDefinition, renamedColumns = {}): Promise<string> =>
    costOf(fixture.connection, { kind: 'alterTable', table: fixture.table, from, to, renamedColumns });
  assert.equal(await cost(definition([...abc, column('d', 'INT')])), 'instant');
  assert.equal(await cost(definition([abc[0]!, abc[2]!])), 'instant');
  assert.equal(await cost(definition([{ ...abc[0]!, nullable: false }, abc[1]!, abc[2]!])), 'instant');
  assert.equal(await cost(definition([column('z', 'INT'), abc[1]!, abc[2]!]), { a: 'z' }), 'instant');
  assert.equal(await cost(definition([...abc, column('d', 'INT', { defaultValue: '1' })])), 'rewrite');
  assert.equal(await cost(definition([...abc, column('d', 'VARCHAR(3)')])), 'rewrite');
  assert.equal(await cost(definition([column('a', 'BIGINT'), abc[1]!, abc[2]!])), 'rewrite');
  assert.equal(await cost(definition(abc, { uniqueKey: ['a'] })), 'rewrite');
  assert.equal(await cost(definition([abc[1]!, abc[0]!, abc[2]!])), 'rewrite');
});

test('a cancelled rewrite leaves the table as it was', async () => {
  const fixture = await world();
  const from = definition([column('a', 'INT'), column('b', 'STRING')]);
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: from });
  await fixture.connection.run(
    `INSERT INTO ${qualifiedTable(fixture.table)} SELECT range, 'text ' || range FROM range(1_000_000)`,
  );
  const abort = new AbortController();
  setTimeout(() => abort.abort(), 30);
  const change: Change = {
    kind: 'alterTable',
    table: fixture.table,
    from,
    to: definition([column('b', 'STRING'), column('a', 'BIGINT')], { uniqueKey: ['b'] }),
    renamedColumns: {},
  };
  const options = { dataDirectory: fixture.dataDirectory, step: 's', signal: abort.signal };
  assert.equal((await failureOf(applyChange(fixture.connection, change, options))).code, 'STATEMENT_CANCELLED');
  assert.deepEqual(await fixture.rows(`SELECT count(*), max(a) FROM ${qualifiedTable(fixture.table)}`), [
    ['1000000', 999999],
  ]);
});

test('changes succeed while rows are inserted', async () => {
  const fixture = await world();
  let spec = definition([column('id', 'INT', { nullable: false }), column('n', 'INT')], { primaryKey: ['id'] });
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: spec });
  const writer = await fixture.instance.connect();
  let inserted = 0;
  let stop = false;
  const writing = (async () => {
    for (let id = 0; !stop; id++) {
      // DuckDB's error about a concurrent change is reported by the statement.
      await writer.run(`INSERT INTO ${qualifiedTable(fixture.table)} (id) VALUES (${id})`).then(
        () => inserted++,
        (error: Error) => assert.match(error.message, /TransactionContext Error/),
      );
    }
  })();
  try {
    for (let i = 0; i < 12; i++) {
      const columns = i % 2 === 0 ? [...spec.columns, column('x', 'INT')] : spec.columns.slice(0, 2);
      const change = definition(columns, { primaryKey: ['id'], uniqueKey: i % 3 === 0 ? ['id', 'n'] : [] });
      await fixture.apply({ kind: 'alterTable', table: fixture.table, from: spec, to: change, renamedColumns: {} });
      spec = change;
    }
  } finally {
    stop = true;
  }
  await writing;
  assert.deepEqual(await fixture.rows(`SELECT count(*) FROM ${qualifiedTable(fixture.table)}`), [[String(inserted)]]);
  assert.ok(inserted > 0);
  await assertSurvives(fixture);
  writer.closeSync();
});
