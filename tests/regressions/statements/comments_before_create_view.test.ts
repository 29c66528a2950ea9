// Thirty comments before a text that is not a CREATE VIEW statement kept the server busy for ever on ClickHouse: a regular expression tried
// every end of a comment as the end of each earlier one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCreateView as parseInClickHouse } from '../../../src/engines/clickhouse/sql/parse_create_view.ts';
import { parseCreateView as parseInDuckDb } from '../../../src/engines/duckdb/sql/parse_create_view.ts';

const comments = '/**/ --\n'.repeat(50_000);

for (const [engine, parse] of [['ClickHouse', parseInClickHouse] as const, ['DuckDB', parseInDuckDb] as const])
  test(`many comments before a statement of ${engine}`, () => {
    assert.equal(parse(`${comments}SELECT 1`), undefined);
    assert.equal(parse(comments), undefined);
    assert.equal(parse(`${comments}CREATE VIEW v AS SELECT 1`)?.view, 'v');
  });
