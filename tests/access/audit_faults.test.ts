// Changes that are interrupted by an error or by a kill of the server: the audit trail records a change exactly once if it was
// made, and not otherwise; and the trail is intact. Uses the machinery of tests/faults.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Budget, sampled } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import type { Answer, Api } from '../faults/injection/api.ts';
import { closeExternalSystems } from '../faults/injection/external_systems.ts';
import { type Fault, type FaultPoint, noFault, type Sweep } from '../faults/injection/fault_plan.ts';
import { FaultyServer } from '../faults/injection/faulty_server.ts';
import { ServerProcess } from '../faults/injection/server_process.ts';
import { expectationDifferences, type World } from '../faults/scenarios/expectation.ts';
import { type Scenario, scenarios } from '../faults/scenarios/scenarios.ts';
import { Random, seedFrom } from '../random.ts';

const brokenChains = [
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
  { point: 'store', isLasting: false },
  { point: 'store', isLasting: true },
  { point: 'before', isLasting: false },
  { point: 'after', isLasting: false },
];
/** When the server is killed during a change: at calls of the engine, and at statements of the store. */
const killed: readonly (readonly [FaultPoint, number])[] = [
  ...[1, 2].flatMap((n) => [['before', n] as const, ['after', n] as const]),
  ...[6, 7, 8, 9, 10, 11, 12, 13].map((n) => ['store', n] as const),
];
const seed = seedFrom('FAULTS_SEED');
const budget = new Budget(6, brokenChains.length);
const taskWaitMs = deadlineMs(20_000);
let ids = 0;

const events = async ({ client }: Api) => (await client.auditEvents.list({ pageSize: 1000 }).all()).reverse();

/** Whether the change was made; it must be complete or absent. */
async function isMade(world: World, { before: was, after: committed, name }: Scenario, id: string): Promise<boolean> {
  if ((await expectationDifferences(world, committed(id))).length === 0) return true;
  assert.deepEqual(await expectationDifferences(world, was(id)), [], `${name} is half made`);
  return false;
}

/** The events after `since`, checked against the outcome of the change. Returns their outcomes. */
async function lines(world: World, scenario: Scenario, id: string, since: number, context: string): Promise<string[]> {
  const wasApplied = await isMade(world, scenario, id);
  const changeEvents = (await events(world.api)).filter(
    ({ sequence, action }) => sequence > since && action !== 'refusals',
  );
  const successes = changeEvents.filter(({ outcome }) => outcome === '0');
  assert.equal(
    successes.length,
    wasApplied ? 1 : 0,
    `${context}, made: ${wasApplied}: ${JSON.stringify(changeEvents)}`,
  );
  for (const { principal, requestId, address } of changeEvents)
    assert.deepEqual([principal, typeof requestId, address], ['root', 'string', '127.0.0.1'], context);
  if (wasApplied) assert.notEqual(successes[0]?.objectId, null);
  assert.equal(new Set(changeEvents.map(({ requestId }) => requestId)).size <= 1, true, `${context}: of one request`);
  return changeEvents.map(({ outcome }) => outcome);
}

async function requireSecretsOpen(api: Api): Promise<void> {
  const verification = await api.post('/api/v2/audit_events/verify');
  assert.deepEqual([verification.status, verification.result.faults], [200, []]);
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

  for (const [index, scenario] of brokenChains.entries())
    test(scenario.name, { timeout: deadlineMs(120_000) }, async (t) => {
      const kinds: string[] = [];
      await breakOff(server, scenario, noFault);
      const faults = server.plan.faults(sweeps);
      for (const fault of budget.sample(faults, new Random(seed).fork(index), (sampledCount) => sampledCount >= 5)) {
        const outcome = await breakOff(server, scenario, fault);
        if (outcome !== 'unharmed') kinds.push(...outcome);
      }
      t.diagnostic(`FAULTS_SEED=${seed}`);
      t.diagnostic([...new Set(kinds)].join(', '));
      for (const outcome of kinds) all.add(outcome);
    });

  test('leaves the trail intact, and is completed or undone', async () => {
    await requireSecretsOpen(server.api);
    assert.ok(all.has('0') && all.size > 1, [...all].join());
  });
});

async function breakOff(server: FaultyServer, scenario: Scenario, fault: Fault): Promise<'unharmed' | string[]> {
  const id = `a${++ids}`;
  await scenario.prepare(server.api, id);
  const since = (await events(server.api)).at(-1)?.sequence ?? 0;
  server.plan.arm(fault);
  const answer: Answer = await server.api.send(await scenario.request(id));
  const interruption = server.plan.disarm();
  await server.services.catalog.recover();
  await server.api.endOfTasks(taskWaitMs);
  const context = `${scenario.name}, ${JSON.stringify(fault)}, answered ${answer.code}`;
  const outcomes = await lines(server, scenario, id, since, context);
  if (interruption === undefined) assert.deepEqual([answer.code, outcomes], ['0', ['0']], context);
  // The refusal was audited, unless the failure was that no event could be written.
  assert.ok(outcomes.length > 0 || answer.status >= 500, context);
  return interruption === undefined ? 'unharmed' : outcomes;
}

test('a change during which the server is killed', { timeout: deadlineMs(120_000) }, async (t) => {
  const server = await ServerProcess.onEmptyDirectory();
  const outcomeCounts = { finished: 0, undone: 0, untold: 0 };
  try {
    const cases = brokenChains
      .filter(({ name }) => /^(?:create|rename|drop) a table/.test(name))
      .flatMap((scenario) => killed.map(([point, n]) => ({ scenario, point, n })));
    for (const { scenario, point, n } of sampled(
      t,
      6,
      cases,
      () => outcomeCounts.finished > 0 && outcomeCounts.undone > 0,
    )) {
      const id = `k${++ids}`;
      await scenario.prepare(server.api, id);
      const since = (await events(server.api)).at(-1)?.sequence ?? 0;
      await server.arm('server', { point, n, isLasting: false });
      const answer = await server.api.send(await scenario.request(id));
      if (answer.status === 0) await server.waitForExit(5000);
      else await server.disarm();
      if (!server.runs) await server.start();
      await server.recover();
      await server.api.endOfTasks(taskWaitMs);
      const outcomes = await lines(server, scenario, id, since, `${scenario.name}, killed at ${point} ${n}`);
      if (outcomes.includes('0')) outcomeCounts.finished++;
      else if (outcomes.length > 0) outcomeCounts.undone++;
      else outcomeCounts.untold++;
    }
    t.diagnostic(JSON.stringify(outcomeCounts));
    await requireSecretsOpen(server.api);
    assert.ok(outcomeCounts.finished > 0 && outcomeCounts.undone > 0, JSON.stringify(outcomeCounts));
    await server.stop();
    await server.remove();
  } finally {
    await server.kill();
    await closeExternalSystems();
  }
});
