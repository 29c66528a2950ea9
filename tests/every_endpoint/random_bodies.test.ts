// Random bodies for each declared schema, with texts that caused errors before: the response is always one that the endpoint
// declares, never a 500. The seed is printed; TEST_SEED replays it.
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import type { TSchema } from 'typebox';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { bodyOf } from '../../src/standard/parameters.ts';
import { type TestServer, uri } from '../server.ts';
import { fixtureOf } from './fixtures.ts';
import { call, operations, pathOf, titleOf } from './operation_call.ts';
import { testedIn, worldOf } from './worlds.ts';

const world = worldOf(import.meta.url);
const operationsElsewhere = 8;
const bodiesPerOperation = 12;
const bodiesOfSql = 60;
const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));

const texts = [
  ...[
    '',
    ' ',
    'a',
    'id',
    'note',
    '%',
    '\\',
    "'",
    '"',
    '-',
    '/',
    '../x',
    '\u0000',
    '😀',
    'x'.repeat(200),
    '1',
    '1e400',
    'NULL',
  ],
  ...['INT', 'DECIMAL(3,1)', 'STRUCT<a: INT>', 'now()', "nextval('x')", 'current_date', 'default', 'main'],
  ...[
    'CREATE TABLE "z z" (a INT, b TEXT)',
    'SELECT 1',
    'SELECT $1',
    'SELECT ?',
    'VALUES (1),(2)',
    'SELECT "',
    "SELECT '",
  ],
  "SELECT INTERVAL 1 DAY, TIME '10:00', BIT '101', uuid(), TIMETZ '10:00+01'",
  "SELECT DATE '294247-01-10', TIMESTAMP 'infinity', '5000-01-01 BC'::DATE",
  'SELECT 1/0, -1/0.0, 0/0.0, 10::UHUGEINT, avg(1)',
  "SELECT 'a'::BLOB, '\\xFF'::BLOB, chr(0) || 'b', unicode('😀')",
  "SELECT decode('\\xFF'::BLOB)",
  'SELECT MAP {}, [], 1::UNION(a INT), NULL, [NULL]',
  'WITH RECURSIVE a AS (SELECT 1 i UNION ALL SELECT i+1 FROM a WHERE i<5) SELECT * FROM a',
  'SELECT list_transform([1], lambda x: x+1), unnest([1,2,3])',
  "SELECT error('boom'), regexp_matches('a', '('), printf('%s')",
  'SELECT * EXCLUDE (a) FROM (SELECT 1 a)',
  'SELECT 1 LIMIT -1',
  'FROM range(3) USING SAMPLE 5',
];
const text = fc.oneof(fc.constantFrom(...texts), fc.string({ unit: 'grapheme', maxLength: 20 }));
const anything = fc.oneof(
  text,
  fc.integer(),
  fc.double({ noNaN: true }),
  fc.boolean(),
  fc.constant(null),
  fc.jsonValue(),
);

interface Declared {
  readonly type?: string;
  readonly anyOf?: readonly TSchema[];
  readonly const?: unknown;
  readonly items?: TSchema;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly required?: string[];
  readonly minimum?: number;
  readonly maximum?: number;
}

/** Mostly valid values: invalid ones are tested elsewhere. */
function valuesOf(schema: TSchema): fc.Arbitrary<unknown> {
  const {
    type,
    anyOf,
    const: constant,
    items,
    properties,
    required = [],
    minimum = -5,
    maximum = 1e9,
  } = schema as Declared;
  if (anyOf) return fc.oneof(...anyOf.map(valuesOf));
  if (constant !== undefined) return fc.constant(constant);
  if (type === 'string') return text;
  if (type === 'boolean') return fc.boolean();
  if (type === 'null') return fc.constant(null);
  if (type === 'integer' || type === 'number') return fc.integer({ min: minimum, max: Math.min(maximum, 1e9) });
  if (type === 'array') return fc.array(items ? valuesOf(items) : anything, { maxLength: 4 });
  if (!properties) return type === 'object' ? fc.dictionary(text, text, { maxKeys: 3 }) : anything;
  const fields = Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, valuesOf(field)]));
  return fc.record(fields, { requiredKeys: required });
}

/** Each of the texts in the field for SQL, if there is one. */
function bodiesOfTexts(schema: TSchema): readonly object[] {
  const { properties = {}, required = [] } = schema as Declared;
  const sql = properties.sql as Declared | undefined;
  if (sql?.type !== 'string') return [];
  const others = Object.fromEntries(required.filter((name) => name !== 'sql').map((name) => [name, 'a']));
  return texts.map((text) => ({ ...others, sql: text }));
}

let server: TestServer;
before(async () => {
  server = await world.start();
  (await server.patch(uri`/warehouses/${world.warehouse}`, { statementTimeoutSeconds: 5 })).is(200);
});
after(() => server.close());

/** Without the paths that omit the catalog: they have the same handlers. */
const withBody = operations.filter(({ endpoint, path }) => endpoint.body && !path.startsWith('/api/v2/databases'));
const schemaOf = ({ endpoint, nameInPath }: Operation) => bodyOf(endpoint, !nameInPath) as TSchema;
/** What happens to SQL differs most from engine to engine, so these run everywhere. */
const withSql = withBody.filter((operation) => bodiesOfTexts(schemaOf(operation)).length > 0);
const withoutSql = withBody.filter((operation) => !withSql.includes(operation));
const tested = [...testedIn(world, withSql), ...testedIn(world, withoutSql, operationsElsewhere)];

async function sendAll(operation: Operation, bodies: readonly object[]): Promise<void> {
  const { category, nameInPath, path } = operation;
  let params = await fixtureOf(category).make(server);
  for (const [i, body] of bodies.entries()) {
    const target = nameInPath ? { ...params, [category.parameter]: `random ${i}` } : params;
    const limitedBody = 'waitSeconds' in body ? { ...body, waitSeconds: 5 } : body;
    const reply = await call(server, operation, pathOf(path, target), { body: limitedBody });
    if (reply.status === 404) params = await fixtureOf(category).make(server);
  }
}

describe(`random bodies, TEST_SEED=${seed}`, () => {
  for (const operation of tested) {
    test(titleOf(operation), async () => {
      const isSql = ['query', 'explain', 'profile'].includes(operation.endpoint.action ?? '');
      const schema = schemaOf(operation);
      const numRuns = isSql ? bodiesOfSql : bodiesPerOperation;
      const bodies = fc.sample(valuesOf(schema), { numRuns, seed }) as object[];
      await sendAll(operation, [...bodies, ...bodiesOfTexts(schema)]);
    });
  }
});
