// The message about a missing function or type with a qualified name said whether its catalog exists, once the process that binds
// statements had a copy of that catalog: a caller could make it have one by naming a table in it, which is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { start } from '../../server.ts';

const expressions = [
  'CATALOG.x.f(1)',
  'CATALOG.x.abs(1)',
  '"CATALOG" . /* */ x . F(1)',
  'NULL::CATALOG.x.t',
  'TRY_CAST(1 AS CATALOG.x.t)',
  'NULL::STRUCT(a CATALOG.x.t)',
  'list_transform([1], y -> CATALOG.x.f(y))',
  'sum(1) FILTER (CATALOG.x.f(1))',
  'a FROM CATALOG.x.f(1)',
];

test('a missing function or type does not reveal whether its catalog exists', async (t) => {
  const server = await start();
  t.after(() => server.close());
  await server.client.catalogs.create({ name: 'hidden' });
  await server.client.databases.create({ name: 'd' });
  const person = await newPerson(server, 'ann', [
    ['read', '/databases/d'],
    ['use', '/warehouses/default'],
  ]);
  const messageOf = async (expression: string, catalog: string) => {
    (await person.query('d', `SELECT 1 FROM ${catalog}.x.t`)).is(403, 'FORBIDDEN');
    const refusal = await person.query('d', `SELECT ${expression.replaceAll('CATALOG', catalog)}`);
    assert.notEqual(refusal.status, 200, refusal.text);
    const { queryId: _, ...result } = refusal.result;
    return JSON.stringify([refusal.status, refusal.code, refusal.message, result]).replaceAll(catalog, 'CATALOG');
  };
  for (const expression of expressions)
    assert.equal(await messageOf(expression, 'hidden'), await messageOf(expression, 'absent'), expression);
  const refusal = (await person.query('d', 'SELECT 1,\n hidden.x.f(1)')).is(400, 'SQL_INVALID', { line: 2, column: 2 });
  assert.equal(refusal.message, 'the function or type "hidden.x.f" does not exist (line 2, column 2)');
  const column = await person.query('d', 'SELECT s.a.c, f(1) FROM (SELECT {a: {c: 1}} AS s)');
  assert.match(column.is(400, 'SQL_INVALID').message, /Function with name f does not exist/);
});
