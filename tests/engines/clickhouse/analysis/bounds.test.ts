// Texts that are made to take long: each is refused, or analyzed without computing what it says.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { missingRing } from '../ring/ring.ts';
import { openSqlWorld, type SqlWorld } from './sql_world.ts';

let world: SqlWorld;
before(async () => {
  if (!missingRing) world = await openSqlWorld();
});
after(() => world?.close());

const times = (count: number, part: (i: number) => string, separator = '') =>
  Array.from({ length: count }, (_, i) => part(i)).join(separator);

/** Refused with a code of the caller; these never reach a server or are refused by it at once. */
const refused: Readonly<Record<string, string>> = {
  '10,000 brackets': `SELECT ${'('.repeat(10_000)}1${')'.repeat(10_000)}`,
  '10,000 brackets that are not closed': `SELECT ${'('.repeat(10_000)}`,
  '10,000 nested arrays': `SELECT ${'['.repeat(10_000)}${']'.repeat(10_000)}`,
  '150 nested subqueries of a table that is missing': `${'SELECT * FROM ('.repeat(150)}SELECT * FROM nosuch${')'.repeat(150)}`,
  '1 MB of UNION ALL': times(40_000, () => 'SELECT 1', ' UNION ALL '),
  'more than 1 MiB': `SELECT '${'x'.repeat(1_100_000)}'`,
  '500,000 minus signs': `SELECT ${'- '.repeat(500_000)}1`,
  '50,000 NOTs': `SELECT ${'NOT '.repeat(50_000)}1`,
  'aliases that double': `WITH 1 AS a0, ${times(40, (i) => `a${i}+a${i} AS a${i + 1}`, ', ')} SELECT nosuch(a40)`,
  '20,000 tables': `SELECT 1 FROM ${times(20_000, (i) => `x${i}`, ', ')}`,
  'an open comment': `SELECT 1 ${'/*'.repeat(400_000)}`,
  quotes: "'".repeat(1_000_001),
  'a type of 4,000 levels': `SELECT CAST('' AS ${'Array('.repeat(4_000)}Int32${')'.repeat(4_000)})`,
  'deep casts': `SELECT 1${'::Int32'.repeat(50_000)}`,
};
/** Analyzed without computing anything. */
const analyzed: Readonly<Record<string, string>> = {
  'a list of a trillion': 'SELECT length(range(1000000000000))',
  'a text of a billion characters': "SELECT length(repeat('a', 1000000000))",
  'lists of lists': 'SELECT arraySum(arrayMap(x -> length(arrayMap(y -> y * x, range(100000))), range(100000)))',
  'a scalar subquery that never ends': 'SELECT (SELECT max(number) FROM numbers(1000000000000000))',
  '20,000 values': `INSERT INTO t (id) VALUES ${times(20_000, (i) => `(${i})`, ', ')}`,
  'a list of 40,000 constants': `SELECT id FROM t WHERE id IN (${times(40_000, String, ',')})`,
  'a string of 1 MB': `SELECT '${'x'.repeat(1_000_000)}'`,
};

describe('bounds', { skip: missingRing }, () => {
  for (const [name, sql] of Object.entries(refused))
    test(`${name} are refused`, async () => {
      const { code, message } = await world.failure(sql);
      assert.match(code, /^SQL_/, message);
      assert.ok(message.length < 3000);
    });
  for (const [name, sql] of Object.entries(analyzed))
    test(`${name}: analyzed`, async () => assert.ok(await world.analyze(sql)));
});
