// Every function that the engine lists and that is not allowed, called in many notations: all are refused. The list is the engine's own,
// so that functions of a new version are refused too until they are added to a list of engines/duckdb/sql/function_allowlist.ts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type DuckDBConnection,
  DuckDBInstance,
  DuckDBScalarFunction,
  DuckDBTableFunction,
  INTEGER,
} from '@duckdb/node-api';
import { readPlan } from '../../src/engines/duckdb/analysis/plan.ts';
import { offeredFunctions, unreviewedFunctions } from '../../src/engines/duckdb/sql/function_allowlist.ts';
import type { Failure } from '../../src/standard/failure.ts';
import { sampled } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import { openSandbox, type Sandbox } from './sandbox_world.ts';

let sandbox: Sandbox;
let connection: DuckDBConnection;
before(async () => {
  sandbox = await openSandbox();
  connection = await (await DuckDBInstance.create(':memory:')).connect();
});
after(async () => {
  connection.closeSync();
  await sandbox.close();
});

interface EngineFunction {
  readonly name: string;
  readonly kind: string;
  /** SQL of the arguments of each distinct overload. */
  readonly calls: readonly (readonly string[])[];
}

/** An argument that would do harm if the function ran: the secret for a text, otherwise a value of the type. */
function argumentOfType(name: string, type: string, secret: string): string {
  if (name === 'query') return `'SELECT * FROM hidden_table'`;
  if (/^(?:query_table|seq_scan|.*storage_info|.*table_info|nextval|currval)$/.test(name)) return `'hidden_table'`;
  if (name.includes('setting') || name === 'getenv') return `'TABULARIUM_CANARY'`;
  if (/VARCHAR|STRING|^ANY$|^T\b/.test(type)) return type.endsWith('[]') ? `['${secret}']` : `'${secret}'`;
  if (type.endsWith('[]')) return '[1]';
  if (type === 'BOOLEAN') return 'true';
  return /INT|DOUBLE|FLOAT|DECIMAL/.test(type) ? '1' : 'NULL';
}

async function unoffered(): Promise<EngineFunction[]> {
  const rows = await connection.runAndReadAll(
    `SELECT function_name, any_value(function_type), to_json(list(DISTINCT parameter_types)) FROM duckdb_functions()
    GROUP BY function_name ORDER BY function_name`,
  );
  const secret = sandbox.secrets[0] as string;
  return rows
    .getRows()
    .map(([name, kind, types]) => ({ name: String(name), kind: String(kind), types: JSON.parse(String(types)) }))
    .filter(({ name }) => !offeredFunctions.has(name.toLowerCase()) || name === 'glob')
    .map(({ name, kind, types }) => ({
      name,
      kind,
      calls: (types as (string | null)[][]).map((signature) =>
        signature.map((type) => argumentOfType(name, type ?? 'ANY', secret)),
      ),
    }));
}

const call = (name: string, args: readonly string[]) => `${name}(${args.join(', ')})`;

/** A call as a value; not for functions that are table functions only. */
const asValue: readonly ((name: string, args: readonly string[]) => string)[] = [
  (name, args) => `SELECT ${call(name, args)}`,
  (name, args) => `sElEcT ${call(name.toUpperCase(), args)}`,
  (name, args) => `SELECT ${call(`"${name}"`, args)}`,
  (name, args) => `SELECT ${call(`"${name.toUpperCase()}"`, args)}`,
  (name, args) => `SELECT ${name} /* ( */ -- (\n (${args.join(', ')})`,
  (name, args) => `SELECT ${name}\u00a0\u200b(${args.join(', ')})`,
  (name, args) => `SELECT /*/* */*/ ${call(`main . ${name}`, args)}`,
  (name, args) => `SELECT ${call(`system.main.${name}`, args)}`,
  (name, args) => `SELECT ${call(`"system"."main"."${name}"`, args)}`,
  (name, args) => `SELECT ${call(`pg_catalog.${name}`, args)}`,
  (name, args) => `SELECT ${call(`"default".main.${name}`, args)}`,
  (name, [first = `'x'`, ...rest]) => `SELECT (${first}).${call(name, rest)}`,
  (name, args) => `VALUES (1, ${call(name, args)})`,
  (name, args) => `WITH c AS MATERIALIZED (SELECT ${call(name, args)} AS x) SELECT count(*) FROM c`,
  (name, args) => `SELECT (SELECT ${call(name, args)} FROM t LIMIT 1) FROM t`,
  (name, args) => `SELECT list_transform([1, 2], lambda q: ${call(name, args)})`,
  (name, args) => `SELECT [${call(name, args)} FOR q IN [1] IF q > 0]`,
  (name, args) => `SELECT {'a': [${call(name, args)}]}`,
  (name, args) => `SELECT id FROM t ORDER BY ${call(name, args)}`,
  (name, args) => `SELECT 1 LIMIT ${call(name, args)}::VARCHAR::INT`,
  (name, args) => `SELECT 1 OFFSET (SELECT length(${call(name, args)}::VARCHAR))`,
  (name, args) => `SELECT count(*) FROM t GROUP BY ${call(name, args)}`,
  (name, args) => `SELECT count(*) FROM t HAVING ${call(name, args)} IS NULL`,
  (name, args) => `SELECT id FROM t QUALIFY row_number() OVER (ORDER BY ${call(name, args)}) = 1`,
  (name, args) => `SELECT sum(id) FILTER (${call(name, args)} IS NULL) FROM t`,
  (name, args) => `SELECT CASE WHEN false THEN ${call(name, args)} END`,
  (name, args) => `SELECT coalesce(NULL, try(${call(name, args)}))`,
  (name, args) => `SELECT 1 WHERE false AND ${call(name, args)} IS NULL`,
  (name, args) => `SELECT a.id FROM t a JOIN t b ON a.id = b.id AND ${call(name, args)} IS NOT NULL`,
  (name, args) => `SELECT * REPLACE (${call(name, args)} AS v) FROM t`,
  (name, args) => `SELECT x.y FROM (SELECT ${call(name, args)} AS y UNION ALL SELECT NULL) x`,
  (name, args) => `INSERT INTO t SELECT 9, ${call(name, args)}`,
  (name, args) => `INSERT INTO t VALUES (1, 'x') ON CONFLICT DO UPDATE SET v = ${call(name, args)}`,
  (name, args) => `UPDATE t SET v = ${call(name, args)} WHERE id = 99`,
  (name, args) => `DELETE FROM t WHERE id = 99 AND ${call(name, args)} IS NULL`,
  (name, args) => `DELETE FROM t WHERE id = 99 RETURNING ${call(name, args)}`,
  (name, args) =>
    `MERGE INTO t USING (SELECT 99 AS id) s ON t.id = s.id AND ${call(name, args)} IS NULL WHEN MATCHED THEN DELETE`,
  (name, args) => `PIVOT (SELECT ${call(name, args)} AS p) ON p IN (1) USING count(*)`,
];
const inFrom: readonly ((name: string, args: readonly string[]) => string)[] = [
  (name, args) => `SELECT * FROM ${call(name, args)}`,
  (name, args) => `FROM ${call(name.toUpperCase(), args)} AS x LIMIT 0`,
  (name, args) => `FROM "${name}" /**/ (${args.join(', ')})`,
  (name, args) => `FROM system.main.${call(name, args)}`,
  (name, args) => `FROM t, LATERAL (FROM ${call(name, args)}) x`,
  (name, args) => `SELECT EXISTS (FROM ${call(name, args)})`,
  (name, args) => `FROM (SUMMARIZE FROM ${call(name, args)})`,
  (name, args) => `SELECT nope FROM ${call(name, args)}`,
  (name, args) => `FROM ${call(name, args)} UNION ALL BY NAME FROM t`,
  (name, args) => `INSERT INTO t FROM ${call(name, args)}`,
  (name, args) => `DELETE FROM t USING ${call(name, args)} x WHERE t.id = 99`,
];
const otherwise: readonly ((name: string, args: readonly string[]) => string)[] = [
  (name, args) => `CALL ${call(name, args)}`,
  (name, args) => `PRAGMA ${call(name, args)}`,
  (name) => `PRAGMA ${name}`,
  (name, args) => `EXPLAIN ANALYZE SELECT ${call(name, args)}`,
];
/** Functions that read, write, run text or reveal data of others are tried in all notations. */
const dangerous =
  /^(?:read_(?:csv|text|blob|json|parquet|duckdb)|parquet_metadata|sniff_csv|glob|query|query_table|seq_scan|current_setting|getvariable|write_log|json_execute_serialized_sql|duckdb_(?:secrets|settings|tables|columns|logs)|pragma_storage_info|sql_auto_complete|enable_logging|sleep_ms|nextval)$/;

test('every function of the engine that is not allowed is refused, in every disguise', {
  timeout: deadlineMs(120_000),
}, async (t) => {
  const functions = await unoffered();
  assert.ok(functions.length > 150, `${functions.length} functions`);
  let sent = 0;
  const cases = functions.map((tested, index) => ({ ...tested, index }));
  for (const { name, kind, calls, index } of sampled(t, 8, cases, (sampledCount) => sampledCount >= 50)) {
    const isTable = kind.startsWith('table');
    // An operator with the same name, which can be placed between any two texts.
    const forms = name === 'glob' ? inFrom : [...asValue, ...inFrom, ...otherwise];
    const always = isTable ? inFrom.slice(0, 1) : asValue.slice(0, 1);
    const collates = name.startsWith('icu_collate');
    const sampledForms = forms.filter((_, form) => form % 9 === index % 9);
    const chosen = dangerous.test(name) ? forms : collates ? sampledForms.slice(0, 1) : [...always, ...sampledForms];
    for (const form of chosen) {
      const args = calls[sent % calls.length] as readonly string[];
      const code = await sandbox.refuses(form(name, args));
      // By its name, however it is called. A pragma is not a function, and `glob` is recognized by its plan.
      if (always.includes(form) && kind !== 'pragma' && name !== 'glob')
        assert.equal(code, 'SQL_FORBIDDEN_FUNCTION', name);
      sent++;
    }
  }
  t.diagnostic(`${functions.length} functions, ${sent} statements`);
  await sandbox.isUnharmed();
});

test('parameters do not hide the arguments of a function', async () => {
  const [secret] = sandbox.secrets;
  for (const name of ['read_text', 'read_csv', 'read_parquet', 'glob', 'query', 'query_table', 'sniff_csv']) {
    await sandbox.refuses(`SELECT * FROM ${name}($1)`, { parameters: [secret] });
    await sandbox.refuses(`SELECT * FROM ${name}($file)`, { parameters: { file: 'hidden_table' } });
    await sandbox.refuses(`SELECT * FROM "${name}" (?)`, { parameters: ['SELECT 1'] });
  }
  for (const name of ['current_setting', 'getvariable', 'nextval', 'json_execute_serialized_sql'])
    await sandbox.refuses(`SELECT ${name}($1)`, { parameters: ['threads'] });
  await sandbox.refuses('SELECT * FROM $1', { parameters: ['hidden_table'] });
  await sandbox.refuses('SELECT * FROM ?', { parameters: [secret] });
  await sandbox.refuses('SELECT * FROM IDENTIFIER($1)', { parameters: ['hidden_table'] });
  await sandbox.isUnharmed();
});

test('a default, a check and a generated column cannot call one either', async () => {
  const secret = sandbox.secrets[0] as string;
  const tables = '/api/v2/databases/d/tables';
  for (const call of [
    `read_text('${secret}')`,
    `(SELECT content FROM read_text('${secret}'))`,
    `current_setting('threads')`,
    `"current_setting"('threads')`,
    `system.main.getvariable('x')`,
    `getenv('TABULARIUM_CANARY')`,
    `nextval('s')`,
    `query('SELECT 1')`,
    `json_serialize_plan('SELECT 1')`,
    `list_transform([1], lambda x: getvariable('x'))`,
    `write_log('x')`,
    'sleep_ms(100000)',
    `'${secret}'.read_text()`,
    `1) , b TEXT DEFAULT (read_text('${secret}')`,
  ]) {
    const columns = [{ name: 'a', type: 'STRING', defaultValue: call }];
    const statements = [
      await sandbox.server.post(tables, { name: 'made', columns }),
      ...(await Promise.all(
        [
          `CREATE TABLE made (a TEXT DEFAULT (${call}))`,
          `CREATE TABLE made (a TEXT CHECK (${call} IS NULL))`,
          `CREATE TABLE made (a INT, b TEXT GENERATED ALWAYS AS (${call}))`,
          `CREATE TABLE made AS SELECT ${call} AS a`,
        ].map((sql) => sandbox.server.post(`${tables}/create`, { sql })),
      )),
    ];
    for (const reply of statements) {
      assert.equal(reply.status, 400, `${call}: ${reply.text}`);
      assert.ok(!reply.text.includes(sandbox.canary), reply.text);
    }
  }
  await sandbox.isUnharmed();
});

test('a function of a new engine version is refused until it has been reviewed', async () => {
  let called = 0;
  connection.registerScalarFunction(
    DuckDBScalarFunction.create({
      name: 'brand_new',
      returnType: INTEGER,
      parameterTypes: [INTEGER],
      mainFunction: () => {
        called++;
      },
    }),
  );
  connection.registerTableFunction(
    DuckDBTableFunction.create({
      name: 'brand_new_rows',
      parameterTypes: [INTEGER],
      bindFunction: (info) => {
        called++;
        info.addResultColumn('a', INTEGER);
      },
      initFunction: () => undefined,
      mainFunction: () => undefined,
    } as Parameters<typeof DuckDBTableFunction.create>[0]),
  );
  await connection.run('CREATE TABLE t (id INT)');
  const unreviewed = await unreviewedFunctions(connection, 'v99.0.0');
  assert.ok(unreviewed.has('brand_new') && unreviewed.has('brand_new_rows'));
  const forbidden = (failure: Failure) => failure.code === 'SQL_FORBIDDEN_FUNCTION';
  for (const form of asValue.slice(0, 9)) {
    await assert.rejects(readPlan(connection, form('brand_new', ['1']), unreviewed), forbidden);
  }
  for (const form of inFrom)
    await assert.rejects(readPlan(connection, form('brand_new_rows', ['1']), unreviewed), forbidden);
  assert.equal(called, 0, 'binding has called it');
  // The plan is checked after that: it refuses what the text does not show.
  for (const sql of ['SELECT brand_new(1) FROM t', 'SELECT id FROM t WHERE brand_new(id) = 1'])
    await assert.rejects(readPlan(connection, sql, new Set()), forbidden);
});
