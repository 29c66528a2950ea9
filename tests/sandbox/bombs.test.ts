// Statements that would use all of the time, memory or stack: each is refused or ended within its limits, and the server
// continues. The limits of a statement are low here.
import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { sampled } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import { openSandbox, type Sandbox } from './sandbox_world.ts';

const timeoutSeconds = 1;
const memoryBytes = 128 * 1024 * 1024;
/** The time of an analysis or a statement, the time to end it, and the time of a start if the process had to be killed. */
const answersWithinMs = deadlineMs(30_000);
const timeout = deadlineMs(120_000);
const bombSeconds = 5;
/** Servers: most of the bombs only wait. */
const lanes = 3;

const sandboxes: Sandbox[] = [];
before(async () => {
  for (let lane = 0; lane < lanes; lane++) {
    sandboxes.push(
      await openSandbox({
        warehouseStatementTimeoutSeconds: timeoutSeconds,
        warehouseMemoryBytes: memoryBytes,
        warehouseSpillBytes: memoryBytes,
        logLevel: 'silent', // processes are killed here, as expected
      }),
    );
  }
});
after(() => Promise.all(sandboxes.map((sandbox) => sandbox.close())));

/** The possible outcomes of a bomb: refused, ended, or harmless. */
const contained =
  /^(?:0|SQL_INVALID|SQL_NOT_SUPPORTED|SQL_FORBIDDEN_FUNCTION|INVALID_PARAMETER|PARAMETERS_INVALID|CONSTRAINT_VIOLATED|STATEMENT_TIMEOUT|MEMORY_LIMIT_EXCEEDED|SPILL_LIMIT_EXCEEDED)$/;

async function isContained(sandbox: Sandbox, name: string, sql: string): Promise<void> {
  const startMs = performance.now();
  const reply = await sandbox.send(sql);
  const ms = performance.now() - startMs;
  assert.match(reply.code, contained, `${name}: ${reply.text.slice(0, 300)}`);
  assert.ok(ms < answersWithinMs, `${name}: ${ms} ms`);
  assert.ok(reply.message.length < 3000, `${name}: an error of ${reply.message.length} characters`);
  await requireServing(sandbox, name);
}

/** The state that a statement leaves in a process may still break it: the next statement has to succeed. */
async function requireServing({ server }: Sandbox, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const reply = await server.query('d', 'SELECT 1');
    if (reply.code !== 'MEMORY_LIMIT_EXCEEDED' && reply.code !== 'WAREHOUSE_FAILED')
      return void reply.is(200, '0', { rows: [[1]] });
    assert.ok(attempt < 3, `${name}: ${reply.text}`);
  }
}

async function areContained(t: TestContext, bombs: Readonly<Record<string, string>>): Promise<void> {
  // All lanes draw from one sample.
  const remaining = sampled(t, bombSeconds, Object.entries(bombs), (sampledCount) => sampledCount >= 2 * lanes);
  await Promise.all(
    sandboxes.map(async (sandbox) => {
      for (let bomb = remaining.next(); !bomb.done; bomb = remaining.next()) await isContained(sandbox, ...bomb.value);
      await requireServing(sandbox, 'all');
      await sandbox.isUnharmed();
    }),
  );
}

/** The limit that ends them. */
const endless: Readonly<Record<string, string>> = {
  'a cross product': 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7',
  'many cross products': `SELECT count(*) FROM ${Array.from({ length: 12 }, (_, i) => `range(1000) t${i}`).join(', ')} WHERE t0.range + t11.range = -1`,
  'a recursion without end': 'WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r',
  'a recursion with a key':
    'WITH RECURSIVE r(n, m) USING KEY (n) AS (SELECT 1, 1 UNION SELECT n, m + 1 FROM r) SELECT * FROM r',
  'a long series': 'SELECT sum(hash(range)) FROM generate_series(1, 1000000000000) g(range)',
  'a list of a series': 'SELECT len(range(1000000000000))',
  'a list of lists of lists':
    'SELECT len(list_transform(range(100000), x -> list_transform(range(100000), y -> range(1000))))',
  'a list product': 'SELECT len(flatten([[x * y FOR y IN range(100000)] FOR x IN range(100000)]))',
  'a reduction': `SELECT length(list_reduce(range(100)::VARCHAR[], lambda a, b: a || a || b))`,
  'a repeated text': `SELECT length(repeat('x', 600000000) || repeat('y', 600000000))`,
  'a padded text': `SELECT length(lpad('x', 600000000, 'y'))`,
  'texts padded by rows': `SELECT max(lpad('x', 50000000 + range::INT, 'y')) FROM range(100000)`,
  'texts joined': `SELECT length(string_agg(repeat('x', 1000), ',')) FROM range(10000000)`,
  'a sort':
    'SELECT max(h) FROM (SELECT hash(range) h, repeat(range::VARCHAR, 20) FROM range(100000000) ORDER BY h LIMIT 50000000)',
  'distinct values': 'SELECT count(DISTINCT hash(range)::VARCHAR) FROM range(1000000000)',
  'a histogram': 'SELECT cardinality(histogram(hash(range))) FROM range(100000000)',
  'regular expressions': `SELECT count(*) FROM range(100000000) WHERE regexp_matches(repeat('a', 5000), '(a|aa|aaa)*b{2,100}')`,
  'a large regular expression': `SELECT regexp_matches('x', '((a{1,100}){1,100}){1,100}')`,
  'a regular expression that counts': `SELECT regexp_matches(repeat('a', 100000), '(a?){1000}a{1000}')`,
  likeness: `SELECT count(*) FROM range(100000000) WHERE repeat('ab', 1000) LIKE '%a%a%a%a%a%a%a%a%a%c'`,
  'distances of texts': `SELECT levenshtein(repeat('ab', 1000000), repeat('ba', 1000000))`,
  'other distances': `SELECT damerau_levenshtein(repeat('ab', 20000), repeat('ba', 20000))`,
  'a large factorial': 'SELECT sum(factorial(33)) FROM range(10000000000)',
  'a large power': `SELECT (10::HUGEINT ** 30) ** 30, pow(10, 1e300)`,
  bits: `SELECT bit_count(repeat('1', 600000000)::BIT)`,
  'text made of a list': 'SELECT length(range(100000000)::VARCHAR)',
  'a join without end': 'SELECT count(*) FROM range(100000000) a ASOF JOIN range(100000000) b ON a.range >= b.range',
  'a large write': `INSERT INTO t SELECT 100 + range, repeat('x', 1000) FROM range(1000000000)`,
  'a large update': `UPDATE t SET v = (SELECT count(*)::VARCHAR FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = t.id)`,
  'a large result': `SELECT range, repeat('x', 1000) FROM range(100000000)`,
  'a wide pivot': `FROM (PIVOT (FROM range(100000)) ON range IN (${Array.from({ length: 2000 }, (_, i) => i).join(',')}) USING sum(range))`,
  'a sample': 'SELECT count(*) FROM (FROM range(1000000000000) USING SAMPLE reservoir(100000000 ROWS))',
  'grouping sets': `SELECT count(*) FROM (SELECT count(*) FROM (SELECT ${Array.from({ length: 16 }, (_, i) => `range % ${i + 2} AS c${i}`).join(', ')} FROM range(100000)) GROUP BY CUBE (${Array.from({ length: 16 }, (_, i) => `c${i}`).join(', ')}))`,
};

const nested = (open: string, content: string, close: string, depth: number) =>
  open.repeat(depth) + content + close.repeat(depth);
const repeatText = (count: number, text: (i: number) => string, separator = ', ') =>
  Array.from({ length: count }, (_, i) => text(i)).join(separator);

/** Statements whose shape is expensive before a row is read. */
const shapes: Readonly<Record<string, string>> = {
  brackets: `SELECT ${nested('(', '1', ')', 100_000)}`,
  'open brackets': `SELECT ${'('.repeat(500_000)}`,
  'minus signs': `SELECT ${'- '.repeat(100_000)}1`,
  NOTs: `SELECT ${'NOT '.repeat(100_000)}true`,
  CASEs: `SELECT ${nested('CASE WHEN true THEN ', '1', ' END', 20_000)}`,
  casts: `SELECT 1${'::INT'.repeat(50_000)}`,
  functions: `SELECT ${nested('abs(', '1', ')', 50_000)}`,
  'calls with dots': `SELECT (1)${'.abs()'.repeat(20_000)}`,
  lists: `SELECT ${nested('[', '1', ']', 50_000)}`,
  'lists a little': `SELECT ${nested('[', '1', ']', 900)}`,
  structs: `SELECT ${nested(`{'a': `, '1', '}', 20_000)}`,
  'structs a little': `SELECT ${nested(`{'a': `, '1', '}', 400)}`,
  maps: `SELECT ${nested('MAP {1: ', '1', '}', 5_000)}`,
  lambdas: `SELECT ${nested('list_transform([1], x -> ', '1', ')', 2_000)}`,
  'lambdas a little': `SELECT ${nested('list_transform([1], lambda x: ', '1', ')', 60)}`,
  subqueries: `SELECT ${nested('(SELECT ', '1', ')', 10_000)}`,
  'subqueries a little': `SELECT ${nested('(SELECT ', '1', ')', 300)}`,
  'subqueries in FROM': `SELECT * FROM ${nested('(SELECT * FROM ', 'range(1)', ')', 5_000)}`,
  'correlated subqueries': `SELECT ${nested('(SELECT t.id + ', 't.id', ')', 60)} FROM t`,
  'CTEs in CTEs': `${nested('WITH a AS (', 'SELECT 1 AS x', ') SELECT * FROM a', 2_000)}`,
  'CTEs in a row': `WITH c0 AS (SELECT 1 AS x), ${repeatText(1_000, (i) => `c${i + 1} AS (SELECT * FROM c${i})`)} SELECT * FROM c1000`,
  types: `SELECT NULL::${nested('STRUCT(a ', 'INT', ')', 5_000)}`,
  'types a little': `SELECT NULL::${nested('STRUCT(a ', 'INT', ')', 300)}`,
  'types of lists': `SELECT NULL::INT${'[]'.repeat(10_000)}`,
  JSON: `SELECT '${nested('[', '1', ']', 100_000)}'::JSON`,
  'JSON structure': `SELECT json_structure('${nested('{"a":', '1', '}', 10_000)}')`,
  'JSON read as a type': `SELECT from_json('1', '${nested('["', 'INT', '"]', 1_000).replaceAll('"', '\\"')}')`,
  'a JSON path': `SELECT json_extract('{}', '$${'.a'.repeat(100_000)}')`,
  'a JSON path with stars': `SELECT json_extract('${nested('[', '1', ']', 500)}', '$${'[*]'.repeat(500)}')`,
  'a JSON path of all depths': `SELECT len(json_extract('${nested('[', '1,1', ']', 200)}', '$${'..*'.repeat(20)}'))`,
  arrows: `SELECT '{}'::JSON${` -> 'a'`.repeat(40)}`,
  UNIONs: repeatText(2_000, (i) => `SELECT ${i}`, ' UNION ALL '),
  'UNIONs in brackets': `${nested('(SELECT 1 UNION ', 'SELECT 2', ')', 3_000)}`,
  'JOINs without a condition': `SELECT count(*) FROM ${repeatText(300, (i) => `t t${i}`)}`,
  'JOINs by name': `SELECT * FROM t ${'NATURAL JOIN t '.repeat(300)}`,
  ANDs: `SELECT ${repeatText(10_000, (i) => `id > ${i}`, ' AND ')} FROM t`,
  'ORs of equals': `SELECT id FROM t WHERE ${repeatText(5_000, (i) => `id = ${i}`, ' OR ')}`,
  sums: `SELECT ${repeatText(50_000, () => '1', '+')}`,
  'texts joined': `SELECT ${repeatText(20_000, () => `'x'`, '||')}`,
  columns: `SELECT ${repeatText(10_000, (i) => `${i} AS c${i}`)}`,
  stars: `SELECT ${repeatText(2_000, () => '*')} FROM t`,
  'columns by a pattern': `SELECT COLUMNS('${'(a|aa)*'.repeat(500)}b') FROM t`,
  'a long IN list': `SELECT id FROM t WHERE id IN (${repeatText(130_000, String)})`,
  'a long IN list of texts': `SELECT id FROM t WHERE v NOT IN (${repeatText(90_000, (i) => `'${i}'`)})`,
  'many rows': `SELECT count(*) FROM (VALUES ${repeatText(20_000, (i) => `(${i}, 'x')`)})`,
  'many rows inserted': `INSERT INTO t VALUES ${repeatText(20_000, (i) => `(1, '${i}')`)}`,
  'a long name': `SELECT 1 AS "${'x'.repeat(1_000_000)}"`,
  'a long unknown name': `SELECT ${'x'.repeat(1_000_000)}`,
  'a long unknown table': `SELECT * FROM "${'x'.repeat(1_000_000)}"`,
  'a long unknown function': `SELECT ${'x'.repeat(100_000)}(1)`,
  'a name of many parts': `SELECT ${repeatText(20_000, () => 'a', '.')}`,
  'a long number': `SELECT ${'9'.repeat(1_000_000)}`,
  'a long fraction': `SELECT 0.${'9'.repeat(1_000_000)}`,
  'a large exponent': 'SELECT 1e999999999, 1e-999999999',
  'a long text': `SELECT length('${'x'.repeat(1_000_000)}')`,
  'many texts': `SELECT 'a'${`\n'a'`.repeat(100_000)}`,
  'a long comment': `SELECT 1 /*${'x'.repeat(1_000_000)}*/`,
  'comments in comments': `SELECT 1 ${nested('/*', '', '*/', 200_000)}`,
  blanks: `SELECT 1${' '.repeat(1_000_000)}`,
  semicolons: `SELECT 1${';'.repeat(1_000_000)}`,
  dollars: `SELECT ${'$a$ $a$ '.repeat(100_000)}`,
  'dollars that do not end': `SELECT ${repeatText(50_000, (i) => `$a${i}$`, ' ')}`,
  'many parameters': `SELECT ${repeatText(10_000, () => '?')}`,
  windows: `SELECT ${repeatText(500, (i) => `sum(id) OVER (ORDER BY v, ${i})`)} FROM t`,
  'windows in windows': `SELECT 1 FROM t WINDOW ${repeatText(2_000, (i) => `w${i} AS (${i === 0 ? '' : `w${i - 1}`})`)}`,
  'aggregates in a FILTER': `SELECT ${repeatText(500, (i) => `count(*) FILTER (id = ${i})`)} FROM t`,
  orders: `SELECT id FROM t ORDER BY ${repeatText(1_000, (i) => `id + ${i}`)}`,
  groups: `SELECT count(*) FROM t GROUP BY ${repeatText(500, (i) => `id + ${i}`)}`,
  'a cube': `SELECT count(*) FROM (SELECT ${repeatText(40, (i) => `${i} AS c${i}`)}) GROUP BY CUBE (${repeatText(40, (i) => `c${i}`)})`,
  cubes: `SELECT count(*) FROM (SELECT ${repeatText(12, (i) => `${i} AS c${i}`)}) GROUP BY CUBE (${repeatText(12, (i) => `c${i}`)}), CUBE (${repeatText(12, (i) => `c${i}`)})`,
  pivots: `SELECT * FROM (PIVOT t ON ${repeatText(20, () => 'v IN (1, 2, 3, 4)')} USING sum(id))`,
  'a list of all': `SELECT list_value(${repeatText(10_000, String)})`,
  'aliases that double': `SELECT 'x' AS a0, ${repeatText(60, (i) => `a${i} || a${i} AS a${i + 1}`)}`,
  INTERVALs: `SELECT ${repeatText(20_000, () => `INTERVAL 1 DAY`, ' + ')}`,
  collations: `SELECT 'a'${' COLLATE NOCASE'.repeat(5_000)}`,
  BETWEENs: `SELECT ${repeatText(5_000, () => '1 BETWEEN 0 AND', ' ')} 1`,
  'IS NULLs': `SELECT 1${' IS NULL'.repeat(20_000)}`,
  indexes: `SELECT [1]${'[1]'.repeat(20_000)}`,
  fields: `SELECT ({'a': 1})${'.a'.repeat(20_000)}`,
};

test('endless statements are ended', { timeout }, (t) => areContained(t, endless));

test('statements of extreme shapes are answered', { timeout }, (t) => areContained(t, shapes));
