// Random SQL texts: valid statements, corrupted statements, and random words. Their meaning does not matter; the server must
// survive them.
import type { Random } from '../../random.ts';

const statements = [
  'SELECT 1',
  'SELECT * FROM t ORDER BY id LIMIT 10',
  'SELECT k, count(*), sum(d) FROM t GROUP BY ROLLUP (k) HAVING count(*) > 1 ORDER BY ALL',
  'WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 20) SELECT * FROM r',
  "SELECT a.id, b.v FROM t a LEFT JOIN u b ON a.id = b.id WHERE a.k IN (SELECT k FROM u) AND a.v LIKE 'x%'",
  'SELECT id, row_number() OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t',
  "SELECT {'a': 1, 'b': [1, 2, 3]}, MAP {1: 2}, '2026-01-31'::DATE, CAST('1.5' AS DECIMAL(10, 2))",
  "INSERT INTO t VALUES (1, 2, 3.5, 'x'), (2, NULL, NULL, NULL)",
  "INSERT INTO t (id, v) SELECT range, 'r' || range FROM range(10) RETURNING id",
  "UPDATE t SET v = v || '!', d = d * 2 WHERE id % 7 = 0",
  'DELETE FROM u WHERE id BETWEEN 3 AND 5',
  'MERGE INTO t USING u ON (t.id = u.id) WHEN MATCHED THEN UPDATE SET v = u.v WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)',
  "SELECT unnest(range(5)), struct_extract({'x': 1}, 'x'), list_transform([1, 2], x -> x + 1)",
  "SELECT json_extract('{\"a\": [1, 2]}', '$.a[0]'), to_json(t) FROM t LIMIT 3",
  "SELECT regexp_replace(v, '(x)(.)', '\\2\\1', 'g'), md5(v), strftime(now(), '%Y') FROM t",
  'PIVOT t ON k USING sum(d)',
  'FROM t SELECT max(id) FILTER (WHERE k > 1), quantile_cont(d, 0.5)',
  'EXPLAIN SELECT * FROM t',
  'SELECT * FROM generate_series(1, 10) AS g(i) SEMI JOIN t ON g.i = t.id',
  "VALUES (1, 'a'), (2, 'b')",
  'SELECT * FROM (SELECT * FROM t TABLESAMPLE 10%) POSITIONAL JOIN u',
  'SUMMARIZE t',
];

/** Forbidden statements, none of which may ever succeed. */
const forbidden = [
  "SELECT * FROM read_text('/etc/passwd')",
  "SELECT * FROM read_csv_auto('/etc/passwd')",
  "SELECT * FROM '/etc/passwd'",
  "COPY (SELECT 1) TO '/tmp/tabularium-fuzz-escaped'",
  "COPY t FROM '/etc/passwd'",
  "ATTACH '/tmp/tabularium-fuzz-escaped.duckdb' AS e",
  "SELECT * FROM glob('/*')",
  'INSTALL httpfs',
  'LOAD json',
  'SET threads = 1',
  'PRAGMA database_list',
  "SELECT getenv('HOME')",
  'DROP TABLE t',
  'CREATE TABLE x (a INT)',
  'ALTER TABLE t ADD COLUMN z INT',
  'DETACH "default"',
  'CALL force_checkpoint()',
  'BEGIN; SELECT 1; COMMIT',
  'SELECT * FROM duckdb_secrets()',
  "SELECT * FROM query('SELECT 1')",
  "EXPORT DATABASE '/tmp/tabularium-fuzz-escaped'",
  'USE memory',
  'SELECT * FROM __tabularium.steps',
  'DELETE FROM __tabularium.steps',
];

const words =
  'SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT ON USING UNION ALL EXCEPT INTERSECT WITH RECURSIVE AS INSERT INTO VALUES UPDATE SET DELETE MERGE WHEN MATCHED THEN CASE ELSE END AND OR NOT NULL IS IN LIKE BETWEEN EXISTS CAST DISTINCT OVER PARTITION ROWS FILTER RETURNING QUALIFY PIVOT UNPIVOT TABLE t u id k d v x count sum max list struct map range unnest coalesce substring lower'.split(
    ' ',
  );
const symbols = [
  '(',
  ')',
  '(',
  ')',
  ',',
  ',',
  '.',
  ';',
  '*',
  '+',
  '-',
  '/',
  '%',
  '=',
  '<>',
  '<=',
  '::',
  '->',
  '->>',
  '||',
  '[',
  ']',
  '{',
  '}',
  ':',
  '$1',
  '?',
  '$a',
  '@',
  '#',
  '!',
  '~',
  '^',
  '|',
  '&',
];
const literals = [
  '0',
  '1',
  '-1',
  '1e308',
  '1e309',
  '170141183460469231731687303715884105728',
  '0.1',
  "'x'",
  "''",
  "'it''s'",
  '"t"',
  '""',
  'NULL',
  'TRUE',
  "DATE '2026-01-31'",
  'INTERVAL 1 DAY',
  "'\\x00'::BLOB",
  '$$a$$',
  "E'\\n'",
  '/* c */',
  '-- c\n',
  '😀',
  "'😀'",
  '\u00a0',
  '\u200b',
];

export function sqlText(random: Random): string {
  const draw = random.next();
  if (draw < 0.1) return random.pick(statements);
  if (draw < 0.2) return random.pick(forbidden);
  if (draw < 0.4) return randomTokens(random);
  let text = random.chance(0.2) ? random.pick(forbidden) : random.pick(statements);
  for (let n = 1 + random.below(4); n > 0; n--) text = corruptText(text, random);
  return text;
}

function randomTokens(random: Random): string {
  const parts = Array.from({ length: 1 + random.below(30) }, () =>
    random.pick(random.pick([words, words, symbols, literals])),
  );
  return (random.chance(0.7) ? 'SELECT ' : '') + parts.join(random.chance(0.9) ? ' ' : '');
}

function corruptText(text: string, random: Random): string {
  const tokens = text.match(/'(?:[^']|'')*'|\w+|\s+|./gsu) ?? [];
  const position = random.below(tokens.length + 1);
  const other = random.pick(random.pick([words, symbols, literals]));
  switch (random.below(9)) {
    case 0:
      return tokens.toSpliced(position, 1).join('');
    case 1:
      return tokens.toSpliced(position, 0, ` ${other} `).join('');
    case 2:
      return tokens.toSpliced(position, 1, other).join('');
    case 3:
      return tokens.toSpliced(position, 0, ...tokens.slice(position, position + 1 + random.below(8))).join('');
    case 4:
      return text.slice(0, random.below(text.length + 1));
    case 5:
      return `${tokens.slice(0, position).join('')} ${random.pick(statements)}`;
    case 6:
      return tokens.join('').replace(/\w+/u, (word) => (random.chance(0.5) ? word.toLowerCase() : `"${word}"`));
    case 7: {
      const depth = random.pick([1, 3, 50, 2000]);
      return `${'('.repeat(depth)}${text}${')'.repeat(depth)}`;
    }
    default: {
      const position = random.below(text.length + 1);
      return text.slice(0, position) + String.fromCodePoint(1 + random.below(0x2fff)) + text.slice(position);
    }
  }
}
