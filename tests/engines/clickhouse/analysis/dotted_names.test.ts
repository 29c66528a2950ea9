// Names with dots: a query tree joins the name of a database and that of its table with a dot, so that two tables can have one name there. A
// statement is authorized for the table that it reads, or refused.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { missingRing } from '../ring/ring.ts';
import { openSqlWorld, type SqlWorld } from './sql_world.ts';

describe('names with dots', { skip: missingRing }, () => {
  let world: SqlWorld;
  before(async () => {
    if (missingRing === false) world = await openSqlWorld();
  });
  after(() => world?.close());

  const readsOf = async (sql: string) =>
    (await world.analyze(sql)).reads.map(({ database, table }) => [database, table]).sort();

  test('a table is found by its database and its name', async () => {
    assert.deepEqual(await readsOf('SELECT id FROM "x.hidden"'), [['main', 'x.hidden']]);
    assert.deepEqual(await readsOf('SELECT id FROM main."x.hidden"'), [['main', 'x.hidden']]);
    assert.deepEqual(await readsOf('SELECT id FROM "main.x".hidden'), [['main.x', 'hidden']]);
    assert.deepEqual(await readsOf('SELECT id FROM shop."main.x"."hidden"'), [['main.x', 'hidden']]);
  });

  test('a view reads the tables of its definition, or is refused where that is not clear', async () => {
    assert.deepEqual(await readsOf('SELECT id FROM "of dotted table"'), [['main', 'x.hidden']]);
    assert.deepEqual(await readsOf('SELECT id FROM "of dotted database"'), [['main.x', 'hidden']]);
    assert.equal((await world.failure('SELECT id FROM "of both"')).code, 'SQL_NOT_SUPPORTED');
  });

  // At places where no table is expected, its name would reach the server as it is written.
  const allowed = '(SELECT count(*) FROM main."x.hidden")';
  for (const sql of [
    `SELECT *, ${allowed} AS fill FROM "shop__main.x"."hidden", t`,
    `SELECT *, ${allowed} AS fill FROM \`shop__main.x\`.hidden, t`,
    `SELECT id FROM t WHERE id IN "shop__main.x"."hidden" AND ${allowed} > 0`,
    `SELECT id, ${allowed} FROM t WHERE id IS NOT DISTINCT FROM "shop__main.x"."hidden"`,
    'SELECT *, (SELECT count(*) FROM "main.x".hidden) AS fill FROM shop__main."x.hidden", t',
  ])
    test(`refused: ${sql}`, async () => {
      assert.match((await world.failure(sql)).code, /^SQL_(NOT_SUPPORTED|INVALID)$/);
    });
});
