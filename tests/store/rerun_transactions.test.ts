// Transactions that are rolled back after a conflict and run again, while the store has changed in between: preconditions are checked in
// the attempt that commits, and effects in memory are those of that attempt.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { AuditTrail, noTrail } from '../../src/access/audit/audit_log.ts';
import { Grants, versionOfGrant } from '../../src/access/authorization/grants.ts';
import type { Actor } from '../../src/model/principal.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { ObjectChanged } from '../../src/standard/expected_version.ts';
import { ChangeFeed } from '../../src/store/changes/change_feed.ts';
import type { ObjectsTable } from '../../src/store/schema.ts';
import type { Store } from '../../src/store/store.ts';
import { ScheduleRuns } from '../../src/tasks/schedule_runs.ts';
import { Tasks } from '../../src/tasks/tasks.ts';
import { storesOf } from '../stores.ts';

const { store } = await storesOf(import.meta.url).open();
const changes = await ChangeFeed.open({ store, serverId: 'test', observe: () => {} });
after(() => store.close());

const root = { id: 'root', name: 'root' };

/** The first attempt of each transaction is rolled back, and then `between` changes the store. */
function conflicting(between: () => Promise<unknown>): Store {
  return {
    ...store,
    async transaction(run) {
      const conflict = new Error('conflict');
      const first = store.transaction(async (tx) => {
        await run(tx);
        throw conflict;
      });
      await assert.rejects(first, conflict);
      await between();
      return store.transaction(run);
    },
  };
}

async function addObject(more: Partial<ObjectsTable>): Promise<void> {
  const times = { created_at: 1, created_by: 'root', updated_at: 1, updated_by: 'root' };
  const name = more.id ?? '';
  const row = { id: '', category: 'users', parent_id: null, name, folded_name: name, state: 'ready' as const };
  const rest = { state_reason: null, folded_comment: null, owner: 'root', version: 1, spec: '{}' };
  await store.db
    .insertInto('objects')
    .values({ ...row, ...rest, ...times, ...more })
    .execute();
}

let now = 1_800_000_000_000;
const grantsOn = (on: Store, trail: ConstructorParameters<typeof Grants>[0]['trail'] = noTrail) =>
  new Grants({ store: on, changes, trail, clock: () => now++ });

test('a grant that is revoked and created again between two attempts is not revoked', async () => {
  await addObject({ id: 'ann' });
  const grants = grantsOn(store);
  const first = (await grants.create('ann', 'read', ['/'], root))?.grant;
  assert(first);
  const actor: Actor = { ...root, expectedVersion: versionOfGrant(first) };
  const replace = async () => {
    await grants.remove(first, root);
    await grants.create('ann', 'read', ['/'], root);
  };
  await assert.rejects(grantsOn(conflicting(replace)).remove(first, actor), ObjectChanged);
  assert.equal((await store.db.selectFrom('grants').selectAll().where('grantee_id', '=', 'ann').execute()).length, 1);
});

test('a request whose second attempt changes nothing is not recorded as a change', async () => {
  await addObject({ id: 'ben' });
  const observe = (): void => {};
  const trail = new AuditTrail({ store, serverId: 'a', key: Buffer.alloc(32), retentionDays: 1, observe });
  const actor: Actor = { ...root };
  const createAlso = () => grantsOn(store).create('ben', 'read', ['/'], root);
  const granted = await grantsOn(conflicting(createAlso), trail).create('ben', 'read', ['/'], actor);
  assert.equal(granted?.created, false);
  assert.deepEqual([actor.audited, actor.changed], [undefined, undefined]);
});

test('the refused run of a schedule is reported once', async (t) => {
  const cron = { cron: '0 * * * *', timeZone: 'UTC', missedRuns: 'once', missedRunsMax: 1 };
  const spec = { ...cron, priority: 'normal', disabled: false, confirmedBy: { id: 'root' } };
  const task = { type: 'run_query', request: { sql: 'SELECT 1' } };
  await addObject({ id: 'nightly', category: 'schedules', spec: JSON.stringify({ ...spec, task }) });
  const times = { next_at: now - (now % 3_600_000), computed_at: 0, last_at: null, last_task_id: null, error: null };
  await store.db
    .insertInto('schedule_times')
    .values({ object_id: 'nightly', ...times })
    .execute();
  const on = conflicting(async () => {});
  const ended: Observation[] = [];
  const observe = (observation: Observation) => {
    if (observation.kind === 'taskEnded') ended.push(observation);
  };
  const tasks = new Tasks({ store: on, kinds: [], runnersMax: 1, retentionDays: 1, observe });
  t.after(() => tasks.stop(600));
  const runs = new ScheduleRuns({
    store: on,
    tasks,
    directory: { isActive: () => false, nameOf: (id) => id },
    secrets: { get: async () => undefined },
    trail: noTrail,
    submitCall: () => Promise.reject(new Error('the schedule has no call')),
  });
  await runs.run('nightly', now);
  const stored = await store.db.selectFrom('tasks').select(['task_id', 'state']).execute();
  assert.deepEqual(
    stored.map(({ state }) => state),
    ['failed'],
  );
  assert.deepEqual(
    ended.map((observation) => observation.kind === 'taskEnded' && observation.taskId),
    [stored[0]?.task_id],
  );
});
