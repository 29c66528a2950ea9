// Values that made a response wrong: a JSON column was returned as strings, because the driver reports its type as VARCHAR; a decimal
// without integer digits was returned as `.5`, which is not JSON; a row without names as an object with one empty name.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { start } from '../../server.ts';

test('JSON, fractions and rows without names, alone and nested', async (t) => {
  const server = await start();
  t.after(() => server.close());
  await server.client.databases.create({ name: 'd' });
  const sql = `SELECT '{"a": [1]}'::JSON, ['{"b": 2}'::JSON], {'j': '3'::JSON}, MAP {'k': 'null'::JSON},
    0.5::DECIMAL(2,2), -0.5::DECIMAL(2,2), 0::DECIMAL(3,3), [0.25::DECIMAL(2,2)], row(1, 'x')`;
  for (let run = 0; run < 2; run++) {
    const reply = (await server.query('d', sql)).is(200);
    assert.deepEqual(reply.at('rows'), [
      [{ a: [1] }, [{ b: 2 }], { j: 3 }, [{ key: 'k', value: null }], 0.5, -0.5, 0, [0.25], [1, 'x']],
    ]);
    assert.deepEqual(
      reply
        .at<{ type: string }[]>('columns')
        .map((column) => column.type)
        .slice(0, 4),
      ['JSON', 'ARRAY<JSON>', 'STRUCT<j: JSON>', 'MAP<STRING, JSON>'],
    );
  }
  const strings = (await server.query('d', 'SELECT 0.5::DECIMAL(2,2), -0.5::DECIMAL(2,2)', { numbers: 'string' })).is(
    200,
  );
  assert.deepEqual(strings.at('rows'), [['0.50', '-0.50']]);
});
