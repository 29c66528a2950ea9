// The outcome that a 5xx reports (rest-standard B2), for every endpoint and with the store or the engine failing at one step: each
// has an outcome, requests that only read are `notApplied`, and after `notApplied` store and rows are unchanged.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { quoteIdentifier } from '../../src/engines/duckdb/sql/identifiers.ts';
import type { Services } from '../../src/resources/records/handler_context.ts';
import { type Category, isReadOnly } from '../../src/standard/endpoint.ts';
import { Failure } from '../../src/standard/failure.ts';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { Budget } from '../budget.ts';
import { type Fault, FaultPlan } from '../faults/injection/fault_plan.ts';
import { faultyEngine } from '../faults/injection/faulty_engine.ts';
import { Random, seedFrom } from '../random.ts';
import type { RawReply } from '../raw_http.ts';
import { statementRuns, type TestServer, uri } from '../server.ts';
import { bodyOf, fixtureOf, freshName, makeFor, namedBody, newNameOf } from './fixtures.ts';
import {
  categories,
  keyOf,
  nameOf,
  noLoginThrottling,
  operations,
  type Params,
  pathOf,
  takesBody,
  titleOf,
} from './operation_call.ts';
import { storeRows } from './store_rows.ts';
import { testedIn, worldOf } from './worlds.ts';

const world = worldOf(import.meta.url);
const operationsElsewhere = 16;
/** Whether a transaction was begun, something written or the engine called since the fault was armed. */
let hasWritten = false;
const writes = /^\s*(?:begin|insert|update|delete|replace|with\b[^;]*\b(?:insert|update|delete)\b)/i;
const plan = new FaultPlan((fault) => {
  if (fault.point === 'store') throw new Error('the store failed');
  if (fault.point === 'before') throw new Failure('WAREHOUSE_STARTING', 'the engine is starting');
  throw new Failure('WAREHOUSE_FAILED', 'the engine died');
});
let server: TestServer;
let services: Services;
const engines: number[] = [];

before(async () => {
  server = await world.start(
    { logLevel: 'silent', ...noLoginThrottling },
    {
      injectStore: ({ sql }) => {
        hasWritten ||= writes.test(sql);
        plan.reach('store', sql);
      },
      wrapEngine: (engine) => faultyEngine(engine, { plan, started: (pid) => engines.push(pid) }),
      assembled: (all) => {
        services = all;
      },
    },
  );
});
after(() => server.close());

/** Tables that the service itself writes, regardless of the outcome of a request. */
const internalTables = new Set([
  'audit_events',
  'audit_chains',
  'catalog_files',
  'idempotency_keys',
  'queries',
  'spent_steps',
  'table_statistics',
  ...world.backgroundTables,
]);

/** Ends the changes that earlier faults left open, so that nothing changes in the background while a request is observed. */
async function settledRows(): Promise<string[]> {
  await services.catalog.recover();
  for (;;) {
    const rows = await storeRows(server, internalTables);
    const isOpen = (row: string) =>
      row.startsWith('intents ') || /^tasks .*"state":"(?:pending|running|cancelling)"/.test(row);
    if (!rows.some(isOpen)) return rows;
    await pause(20);
    await services.catalog.recover();
  }
}

async function rowsOf({ catalog = 'default', database, table }: Params): Promise<unknown> {
  if (database === undefined || table === undefined) return undefined;
  return (await server.get(uri`/catalogs/${catalog}/databases/${database}/tables/${table}/rows`)).text;
}

/** The first way to reach each endpoint: the others run the same handler. */
const endpoints = [...new Map(operations.map((operation) => [operation.endpoint, operation])).values()];

async function requestFor(operation: Operation): Promise<{ params: Params; send: () => Promise<RawReply> }> {
  const { category, endpoint, method } = operation;
  const params = await makeFor(category, keyOf(operation), server);
  const isCreate = endpoint.verb === 'create';
  const name = newNameOf(category);
  const path = pathOf(operation.path, isCreate ? { ...params, [category.parameter]: name } : params);
  const isRefused = fixtureOf(category).refused?.[keyOf(operation)] !== undefined;
  const fields = takesBody(operation) && !isRefused ? bodyOf(category, keyOf(operation), params) : {};
  const body = namedBody(operation, name, fields);
  return { params, send: () => server.send(method.toUpperCase(), path, takesBody(operation) ? { body } : {}) };
}

interface Outcome {
  readonly status: number;
  readonly outcome: unknown;
  readonly text: string;
}

const outcomeIn = ({ status, text }: RawReply): Outcome => ({
  status,
  outcome: (JSON.parse(text) as { result: { outcome?: unknown } }).result.outcome,
  text,
});

/** Sends it once with the fault; if the response is a 5xx, the outcome in it must be true. */
async function requireTrueOutcome(operation: Operation, fault: Fault): Promise<void> {
  const { params, send } = await requestFor(operation);
  const [store, rows] = [await settledRows(), await rowsOf(params)];
  hasWritten = fault.point !== 'store';
  plan.arm(fault);
  const { status, outcome, text } = outcomeIn(await send());
  const interruption = plan.disarm();
  if (status < 500) return;
  const summary = `${titleOf(operation)} with ${fault.point} ${fault.n} failing: ${status} ${text.slice(0, 300)}`;
  assert.ok(outcome === 'notApplied' || outcome === 'unknown', summary);
  counts[outcome]++;
  if (interruption !== undefined && !hasWritten) assert.equal(outcome, 'notApplied', `${summary}: nothing was begun`);
  if (isReadOnly(operation.endpoint)) assert.equal(outcome, 'notApplied', summary);
  if (outcome === 'unknown') return;
  const rowsLater = await settledRows();
  const isNew = (row: string) => !store.includes(row);
  assert.deepEqual(rowsLater.filter(isNew), [], `${summary}: new in the store`);
  assert.equal(rowsLater.length, store.length, `${summary}: gone from the store`);
  assert.deepEqual(await rowsOf(params), rows, summary);
}

const tables = categories.find(({ name }) => name === 'tables') as Category;
const counts = { notApplied: 0, unknown: 0 };
/** The statements of the store at which a request fails: its first, those of its transactions, and one near its end. */
const faults: readonly Fault[] = [
  ...[1, 2, 4, 7, 11].map((n) => ({ point: 'store' as const, n, isLasting: false })),
  { point: 'before', n: 1, isLasting: false },
  { point: 'before', n: 2, isLasting: true },
  { point: 'after', n: 1, isLasting: false },
];
const seed = seedFrom('FAULTS_SEED');
const tested = testedIn(world, endpoints, operationsElsewhere);
const budget = new Budget(8, tested.length);

for (const [i, operation] of tested.entries()) {
  test(`${nameOf(operation)}: a 5xx reports the true outcome of the request`, async (t) => {
    t.diagnostic(`FAULTS_SEED=${seed}`);
    for (const fault of budget.sample(faults, new Random(seed).fork(i))) await requireTrueOutcome(operation, fault);
  });
}

test('both outcomes occurred', () => {
  // A small sample may have none that is unknown.
  const [notApplied, unknown] = tested.length < endpoints.length ? [0, -1] : [3, 3];
  assert.ok(counts.notApplied > notApplied && counts.unknown > unknown, JSON.stringify(counts));
});

const killedStatement =
  'a statement that writes has an unknown outcome when its engine is killed, and a refused one has not';
const { withoutEngineProcess } = world;
if (withoutEngineProcess) console.log(`not here, because ${withoutEngineProcess}: ${killedStatement}`);
else test(killedStatement, killsEngineOfStatement);

async function killsEngineOfStatement(): Promise<void> {
  const { database = '', table = '' } = await makeFor(tables, 'get', server);
  const quoted = quoteIdentifier(table);
  const sql = `INSERT INTO ${quoted} SELECT range, NULL FROM range(1000000000000)`;
  // So that the engine that was started last belongs to this warehouse.
  (await server.post('/api/v2/warehouses/default/suspend')).is(200);
  (await server.post('/api/v2/warehouses/default/resume')).is(200);
  const inserting = server.send('POST', uri`/databases/${database}/query`, { body: { sql } });
  await statementRuns(server);
  process.kill(engines.at(-1) as number, 'SIGKILL');
  const killed = outcomeIn(await inserting);
  assert.deepEqual([killed.status, killed.outcome], [503, 'unknown'], killed.text);
  (await server.post('/api/v2/warehouses/default/suspend')).is(200);
  const refused = await server.query(database, `INSERT INTO ${quoted} VALUES (7, 'x')`);
  refused.is(503, 'WAREHOUSE_SUSPENDED', { outcome: 'notApplied' });
  (
    await server.post(uri`/databases/${database}/tables`, { name: freshName(), columns: [{ name: 'a', type: 'INT' }] })
  ).is(503, 'WAREHOUSE_SUSPENDED', { outcome: 'notApplied' });
  (await server.post('/api/v2/warehouses/default/resume')).is(200);
  assert.deepEqual(await server.rows(database, `SELECT count(*) FROM ${quoted}`), [[0]]);
}
