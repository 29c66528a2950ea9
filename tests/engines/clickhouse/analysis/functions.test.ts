// The list of functions that a statement may use, against the functions of the running server: every name on it exists, and every other
// function of the server is refused, in any spelling.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  allowedAggregates,
  allowedScalars,
  allowedTableFunctions,
  isAllowedFunction,
  refusedType,
} from '../../../../src/engines/clickhouse/sql/function_allowlist.ts';
import { missingRing } from '../ring/ring.ts';
import { openSqlWorld, type SqlWorld } from './sql_world.ts';

interface FunctionRow {
  readonly name: string;
  readonly alias_to: string;
  readonly is_aggregate: number;
}

let world: SqlWorld;
let functions: readonly FunctionRow[] = [];
let tableFunctions: readonly { readonly name: string }[] = [];
before(async () => {
  if (missingRing) return;
  world = await openSqlWorld();
  const timeoutMs = 30_000;
  functions = await world.server.rows({ sql: 'SELECT name, alias_to, is_aggregate FROM system.functions', timeoutMs });
  tableFunctions = await world.server.rows({ sql: 'SELECT name FROM system.table_functions', timeoutMs });
});
after(() => world?.close());

/** Functions that are dangerous by their kind: whatever the list says, none of them may be on it. */
const dangerous =
  /^(?:dict|joinGet|remote|url\b|file|s3|executable|sleep|hostName|fqdn|currentUser|currentProfiles|currentRoles|getSetting|getServer|getMacro|getMergeTree|getClient|serverUUID|evalML|catboost|ai[A-Z]|AI[A-Z]|region|addressTo|demangle|logTrace|filesystem|zookeeper|transaction|connection|query_?ID|initial|tcpPort|uptime|buildId|globalVariable|hasColumnInTable|arrayReduce|initializeAggregation|finalizeAggregation|runningAccumulate|structureTo|formatQuery|fuzz|generateSerial|currentDatabase|currentSchemas|version|revision|shardNum|displayName|showCertificate|reinterpret|readW|formatRow|encrypt|decrypt|tryDecrypt|aes_)/;

describe('the list of functions', { skip: missingRing }, () => {
  test('names only functions that the server has', () => {
    const known = new Set(functions.map(({ name }) => name.toLowerCase()));
    const missing = [...allowedScalars, ...allowedAggregates].filter((name) => !known.has(name));
    assert.deepEqual(missing, []);
    const knownTables = new Set(tableFunctions.map(({ name }) => name));
    assert.deepEqual(
      [...allowedTableFunctions].filter((name) => !knownTables.has(name)),
      [],
    );
  });

  test('has aggregates as aggregates, so that only they take combinators', () => {
    const byName = new Map(functions.map((row) => [row.name.toLowerCase(), row]));
    const isAggregate = (name: string) => {
      const row = byName.get(name);
      return row !== undefined && (row.is_aggregate || byName.get(row.alias_to.toLowerCase())?.is_aggregate);
    };
    assert.deepEqual(
      [...allowedAggregates].filter((name) => !isAggregate(name)),
      [],
    );
    assert.deepEqual([...allowedScalars].filter(isAggregate), []);
  });

  test('has nothing that shows the machine, reads what it names or waits', () => {
    assert.deepEqual(
      functions.filter(({ name }) => isAllowedFunction(name) && dangerous.test(name)),
      [],
    );
  });

  test('has no alias of a function that it has not, and no function whose alias is dangerous', () => {
    for (const { name, alias_to: target } of functions)
      if (target !== '' && isAllowedFunction(name)) assert.ok(isAllowedFunction(target), `${name} is ${target}`);
  });

  test('lets no other function of the server through', async () => {
    const refused = functions.filter(({ name }) => !isAllowedFunction(name) && /^\w+$/.test(name));
    assert.ok(refused.length > 300);
    const words = new Set([
      'currentdatabase',
      'current_database',
      'database',
      'schema',
      'version',
      'user',
      'current_user',
      'session_user',
    ]);
    for (const { name } of refused) {
      // These are replaced by values of the caller and the namespace before the server sees them.
      if (words.has(name.toLowerCase())) continue;
      const { code } = await world.failure(`SELECT ${name}()`);
      assert.equal(code, 'SQL_FORBIDDEN_FUNCTION', name);
    }
  });

  test('lets no other table function of the server through', async () => {
    for (const { name } of tableFunctions) {
      if (allowedTableFunctions.has(name)) continue;
      const { code, message } = await world.failure(`SELECT * FROM ${name}('x', 'y')`);
      assert.ok(code === 'SQL_FORBIDDEN_FUNCTION' || /^syntax error/.test(message), `${name}: ${code} ${message}`);
    }
  });

  test('lets a sample of its functions through, in any case that the server knows', async () => {
    for (const sql of [
      'SELECT COUNT(*), Sum(id), avg(id), MIN(k), countIf(k > 1), sumOrNull(id), uniq(k), groupArray(id), any(v) FROM t',
      'SELECT quantilesTDigest(0.1, 0.9)(id), argMax(v, id), groupUniqArrayIf(v, id > 1), sumDistinct(id) FROM t',
      "SELECT lower(v), UPPER(v), concat(v, 'x'), v || 'y', splitByChar(',', v), match(v, '^a'), replaceRegexpAll(v, 'a', 'b') FROM t",
      "SELECT toStartOfMonth(today()), dateDiff('day', today(), yesterday()), now() - INTERVAL 1 DAY, formatDateTime(now(), '%Y')",
      "SELECT JSONExtractString('{}', 'a'), JSONExtract('{\"a\": 1}', 'a', 'Int32'), toJSONString(map('a', 1))",
      'SELECT if(id = 1, 2, 3), coalesce(k, 1), nullIf(k, 1), greatest(1, 2), least(1, 2), intDiv(5, 2), 5 % 2, -k FROM t',
      "SELECT arrayFilter(x -> x > 1, [1, 2]), arraySort([2, 1]), has([1], 1), mapKeys(map('a', 1)), tupleElement((1, 'a'), 2)",
      'SELECT row_number() OVER (ORDER BY id), rank() OVER (ORDER BY id), lagInFrame(id) OVER (ORDER BY id) FROM t',
    ])
      await world.analyze(sql);
  });
});

test('only types of values can be cast to', () => {
  for (const type of [
    'Int32', 'Nullable(String)', 'Array(Nullable(Int64))', 'Map(String, Tuple(a Int32, `b c` Array(UUID)))', "DateTime64(6, 'UTC')",
    "Enum8('a' = 1, 'b' = 2)", 'Decimal(38, 10)', 'SimpleAggregateFunction(any, String)', 'LowCardinality(String)',
  ])
    assert.equal(refusedType(type), undefined, type); // biome-ignore format: a list
  for (const type of [
    'AggregateFunction(sum, Int32)', 'Array(AggregateFunction(sum, Int32))', 'Tuple(a AggregateFunction(groupBitmap, UInt64))', 'JSON', 'Dynamic',
    "Object('json')", 'Nested(a Int32)', 'SimpleAggregateFunction(sum, Int64)', 'SimpleAggregateFunction(any, AggregateFunction(sum, Int32))',
    'Array(', '', 'Int32)', 'x'.repeat(10_000), 'Array('.repeat(3000), 'QBit(Float32, 3)',
  ])
    assert.notEqual(refusedType(type), undefined, type); // biome-ignore format: a list
});
