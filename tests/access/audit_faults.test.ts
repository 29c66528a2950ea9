// Changes that are interrupted by an error or by a kill of the server: the audit trail records a change exactly once if it was
// made, and not otherwise; and the trail is intact. Uses the machinery of tests/faults.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Budget, sampled } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import type { Answer, Api } from '../faults/api.ts';
import { expectationDifferences, type World } from '../faults/expectation.ts';
import { closeExternalSystems } from '../faults/external_systems.ts';
import { type Fault, type FaultPoint, noFault, type Sweep } from '../faults/fault_plan.ts';
import { FaultyServer } from '../faults/faulty_server.ts';
import { Random, seedFrom } from '../faults/random.ts';
import { type Scenario, scenarios } from '../faults/scenarios.ts';
import { ServerProcess } from '../faults/server_process.ts';

const broken = [
  'create a catalog',
  'create a database',
  'create a table with keys and a default',
  'rename a table with a unique key',
  'add a column',
  'drop a table',
].map((name) => {
  const scenario = scenarios.find((candidate) => candidate.name === name);
  assert.ok(scenario, name);
  return scenario;
});
const sweeps: readonly Sweep[] = [
  { point: 'store', lasting: false },
  { point: 'store', lasting: true },
  { point: 'before', lasting: false },
  { point: 'after', lasting: false },
];
/** When the server is killed during a change: at calls of the engine, and at statements of the store. */
const killed: readonly (readonly [FaultPoint, number])[] = [
  ...[1, 2].flatMap((n) => [['before', n] as const, ['after', n] as const]),
  ...[6, 7, 8, 9, 10, 11, 12, 13].map((n) => ['store', n] as const),
];
const seed = seedFrom('FAULTS_SEED');
const budget = new Budget(6, broken.length);
const taskWaitMs = deadlineMs(20_000);
let ids = 0;

const events = async ({ client }: Api) => (await client.auditEvents.list({ pageSize: 1000 }).all()).reverse();

/** Whether the change was made; it must be complete or absent. */
async function isMade(world: World, { before: was, after: is, name }: Scenario, id: string): Promise<boolean> {
  if ((await expectationDifferences(world, is(id))).length === 0) return true;
  assert.deepEqual(await expectationDifferences(world, was(id)), [], `${name} is half made`);
  return false;
}

/** The events after `since`, checked against the outcome of the change. Returns their outcomes. */
async function lines(world: World, scenario: Scenario, id: string, since: number, what: string): Promise<string[]> {
  const wasApplied = await isMade(world, scenario, id);
  const changeEvents = (await events(world.api)).filter(
    ({ sequence, action }) => sequence > since && action !== 'refusals',
  );
  const successes = changeEvents.filter(({ outcome }) => outcome === '0');
  assert.equal(successes.length, wasApplied ? 1 : 0, `${what}, made: ${wasApplied}: ${JSON.stringify(changeEvents)}`);
  for (const { principal, requestId, address } of changeEvents)
    assert.deepEqual([principal, typeof requestId, address], ['root', 'string', '127.0.0.1'], what);
  if (wasApplied) assert.notEqual(successes[0]?.objectId, null);
  assert.equal(new Set(changeEvents.map(({ requestId }) => requestId)).size <= 1, true, `${what}: of one request`);
  return changeEvents.map(({ outcome }) => outcome);
}

async function requireWhole(api: Api): Promise<void> {
  const verdict = await api.post('/api/v2/audit_events/verify');
  assert.deepEqual([verdict.status, verdict.result.faults], [200, []]);
}

describe('a change that is interrupted by an error', () => {
  let server: FaultyServer;
  const all = new Set<string>();
  before(async () => {
    server = await FaultyServer.start();
  });
  after(async () => {
    await server.stop();
    await server.remove();
    await closeExternalSystems();
  });

  for (const [index, scenario] of broken.entries())
    test(scenario.name, { timeout: deadlineMs(120_000) }, async (t) => {
      const seen: string[] = [];
      await breakOff(server, scenario, noFault);
      const faults = server.plan.faults(sweeps);
      for (const fault of budget.sample(faults, new Random(seed).fork(index), (taken) => taken >= 5)) {
        const outcome = await breakOff(server, scenario, fault);
        if (outcome !== 'unharmed') seen.push(...outcome);
      }
      t.diagnostic(`FAULTS_SEED=${seed}`);
      t.diagnostic([...new Set(seen)].join(', '));
      for (const outcome of seen) all.add(outcome);
    });

  test('leaves the trail intact, and is completed or undone', async () => {
    await requireWhole(server.api);
    assert.ok(all.has('0') && all.size > 1, [...all].join());
  });
});

async function breakOff(server: FaultyServer, scenario: Scenario, fault: Fault): Promise<'unharmed' | string[]> {
  const id = `a${++ids}`;
  await scenario.prepare(server.api, id);
  const since = (await events(server.api)).at(-1)?.sequence ?? 0;
  server.plan.arm(fault);
  const answer: Answer = await server.api.send(await scenario.request(id));
  const struck = server.plan.disarm();
  await server.services.catalog.recover();
  await server.api.endOfTasks(taskWaitMs);
  const what = `${scenario.name}, ${JSON.stringify(fault)}, answered ${answer.code}`;
  const outcomes = await lines(server, scenario, id, since, what);
  if (struck === undefined) assert.deepEqual([answer.code, outcomes], ['0', ['0']], what);
  // The refusal was audited, unless the failure was that no event could be written.
  assert.ok(outcomes.length > 0 || answer.status >= 500, what);
  return struck === undefined ? 'unharmed' : outcomes;
}

test('a change during which the server is killed', { timeout: deadlineMs(240_000) }, async (t) => {
  const server = await ServerProcess.onEmptyDirectory();
  const came = { finished: 0, undone: 0, untold: 0 };
  try {
    const cases = broken
      .filter(({ name }) => /^(?:create|rename|drop) a table/.test(name))
      .flatMap((scenario) => killed.map(([point, n]) => ({ scenario, point, n })));
    for (const { scenario, point, n } of sampled(t, 6, cases, () => came.finished > 0 && came.undone > 0)) {
      const id = `k${++ids}`;
      await scenario.prepare(server.api, id);
      const since = (await events(server.api)).at(-1)?.sequence ?? 0;
      await server.arm('server', { point, n, lasting: false });
      const answer = await server.api.send(await scenario.request(id));
      if (answer.status === 0) await server.exited(5000);
      else await server.disarm();
      if (!server.runs) await server.start();
      await server.recover();
      await server.api.endOfTasks(taskWaitMs);
      const outcomes = await lines(server, scenario, id, since, `${scenario.name}, killed at ${point} ${n}`);
      if (outcomes.includes('0')) came.finished++;
      else if (outcomes.length > 0) came.undone++;
      else came.untold++;
    }
    t.diagnostic(JSON.stringify(came));
    await requireWhole(server.api);
    assert.ok(came.finished > 0 && came.undone > 0, JSON.stringify(came));
    await server.stop();
    await server.remove();
  } finally {
    await server.kill();
    await closeExternalSystems();
  }
});
