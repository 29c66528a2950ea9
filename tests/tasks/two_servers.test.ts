// Two servers on one store: a due time of a schedule runs once, and a webhook is called by one of them at a time, also when one of them is
// slow or dies.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { AuditTrail } from '../../src/access/audit/audit_log.ts';
import { IdempotencyKeys } from '../../src/access/idempotency_keys.ts';
import { openSecrets } from '../../src/access/secrets/secrets.ts';
import type { Guard } from '../../src/model/principal.ts';
import { hostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { LeaseHolder, leaseMs } from '../../src/store/leases.ts';
import { openSqliteStore, storeFileName } from '../../src/store/sqlite/sqlite_store.ts';
import type { Store } from '../../src/store/store.ts';
import type { ScheduleSpec, SubmitCall } from '../../src/tasks/schedule.ts';
import { ScheduleRuns } from '../../src/tasks/schedule_runs.ts';
import { Tasks } from '../../src/tasks/tasks.ts';
import { Webhooks } from '../../src/tasks/webhooks.ts';
import { eventually } from '../deadline.ts';
import { Receiver } from './receiver.ts';

const root = mkdtempSync(join(tmpdir(), 'tabularium-two-servers-'));
const cleanUps: (() => Promise<void> | void)[] = [];
after(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
  rmSync(root, { recursive: true, force: true });
});

const principal = { id: 'root', name: 'root' };
const observe = (observation: unknown) => assert.fail(JSON.stringify(observation));

async function newStore(onStatement: (sql: string) => void = () => {}) {
  const dataDirectory = mkdtempSync(join(root, 'data-'));
  const store = await openSqliteStore({
    file: join(dataDirectory, storeFileName),
    inject: ({ sql }) => onStatement(sql),
  });
  cleanUps.push(() => store.close());
  const secrets = await openSecrets({ store, dataDirectory, observe });
  const key = secrets.derive('audit');
  return { store, secrets, trail: new AuditTrail({ store, key, serverId: 'one', retentionDays: 1, observe }) };
}

const everyMinute: Pick<ScheduleSpec, 'cron' | 'timeZone' | 'missedRuns' | 'missedRunsMax'> = {
  cron: '* * * * *',
  timeZone: 'UTC',
  missedRuns: 'all',
  missedRunsMax: 10,
};
const due = Date.parse('2026-01-31T10:00:00Z');

async function schedule(store: Store, action: Pick<ScheduleSpec, 'call' | 'task'>): Promise<string> {
  const spec: ScheduleSpec = {
    ...everyMinute,
    ...action,
    priority: 'normal',
    disabled: false,
    confirmedBy: { id: principal.id },
  };
  const made = { owner: 'root', version: 1, created_at: 1, created_by: 'root', updated_at: 1, updated_by: 'root' };
  const id = 'a-schedule';
  const names = { category: 'schedules', parent_id: null, name: 's', folded_name: 's', folded_comment: null };
  const object = { id, ...names, state: 'ready' as const, state_reason: null, spec: JSON.stringify(spec), ...made };
  await store.db.insertInto('objects').values(object).execute();
  const none = { last_at: null, last_task_id: null, error: null, leased_by: null, lease_until: null };
  await store.db
    .insertInto('schedule_times')
    .values({ object_id: id, next_at: due, computed_at: due - 1, ...none })
    .execute();
  return id;
}

/** Leases are not renewed. */
const neverMs = 3_600_000;

/** Two servers that run schedules; `submit` is what a call does, the submission of a task. */
async function schedulingServers() {
  const { store, secrets, trail } = await newStore();
  const clock = { now: due + 90_000 };
  const directory = { isActive: () => true, nameOf: () => 'root' };
  const kinds = [{ type: 'run_query', attemptsMax: 1, run: async () => ({}) }];
  const server = (
    serverId: string,
    submitCall: (submit: SubmitCall) => SubmitCall = (submit) => submit,
    isElsewhere?: () => Promise<boolean>,
    renewEveryMs = neverMs,
  ) => {
    const tasks = new Tasks({ store, trail, kinds: kinds as never, runnersMax: 1, retentionDays: 1 });
    const submit: SubmitCall = async ({ on: target }, { principal, actor: { guard } }) =>
      void (await tasks.submit({ type: 'run_query', principal, target, request: {} as never, guard }));
    const holder = new LeaseHolder(serverId, renewEveryMs);
    const parts = { store, tasks, directory, secrets, trail, holder, isElsewhere, clock: () => clock.now };
    return new ScheduleRuns({ ...parts, submitCall: submitCall(submit) });
  };
  const submitted = async () => (await store.db.selectFrom('tasks').select('task_id').execute()).length;
  return { store, clock, server, submitted };
}

const call = { on: '/api/v2/x', action: 'query', body: {} } as unknown as NonNullable<ScheduleSpec['call']>;

/** A server whose first call waits. */
function slow() {
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const submitCall =
    (submit: SubmitCall): SubmitCall =>
    async (...request) => {
      reach();
      await released;
      await submit(...request);
    };
  return { reached, release, submitCall };
}

test('each due time of a schedule submits one task, whichever servers are awake', async () => {
  const { store, clock, server, submitted } = await schedulingServers();
  const task = { type: 'run_query', request: {} } as unknown as NonNullable<ScheduleSpec['task']>;
  const id = await schedule(store, { task });
  await Promise.all(['first', 'second', 'third'].map((name) => server(name).run(id, clock.now)));
  assert.equal(await submitted(), 2, 'of 10:00 and 10:01');
});

test('a call of a schedule is made by one server, and by another when that one has died', async () => {
  const { store, clock, server, submitted } = await schedulingServers();
  const id = await schedule(store, { call });
  const first = slow();
  const run = server('first', first.submitCall).run(id, clock.now);
  await first.reached;
  await server('second').run(id, clock.now);
  assert.equal(await submitted(), 0, 'the second leaves it to the first');
  first.release();
  await run;
  assert.equal(await submitted(), 2);
  clock.now += 60_000;
  await server('second').run(id, clock.now);
  assert.equal(await submitted(), 3, 'the next time is anybody’s');
});

test('a server that was too slow with a call does not run a time that another has run', async () => {
  const { store, clock, server, submitted } = await schedulingServers();
  const id = await schedule(store, { call });
  const first = slow();
  const run = server('first', first.submitCall).run(id, clock.now);
  await first.reached;
  clock.now += leaseMs - 1;
  await server('second').run(id, clock.now);
  assert.equal(await submitted(), 0, 'the lease has not expired');
  clock.now += 120_000;
  await server('second').run(id, clock.now);
  const times = await store.db.selectFrom('schedule_times').selectAll().execute();
  const count = await submitted();
  assert.equal(count, 4, 'of 10:00 to 10:03');
  first.release();
  await run;
  assert.deepEqual(
    [await submitted(), await store.db.selectFrom('schedule_times').selectAll().execute()],
    [count, times],
  );
});

test('a server renews its lease on a schedule while it makes a call', async () => {
  const { store, clock, server, submitted } = await schedulingServers();
  const id = await schedule(store, { call });
  const first = slow();
  const run = server('first', first.submitCall, undefined, 10).run(id, clock.now);
  await first.reached;
  clock.now += leaseMs - 1;
  await eventually('the lease is renewed', async () => {
    const times = await store.db.selectFrom('schedule_times').selectAll().executeTakeFirstOrThrow();
    return times.lease_until === clock.now + leaseMs;
  });
  clock.now += 2;
  await server('second').run(id, clock.now);
  assert.equal(await submitted(), 0, 'the second leaves it to the first');
  first.release();
  await run;
  assert.equal(await submitted(), 2);
});

test('a schedule whose data another server has is run by that server only', async () => {
  const { store, clock, server, submitted } = await schedulingServers();
  const task = { type: 'run_query', request: {} } as unknown as NonNullable<ScheduleSpec['task']>;
  const id = await schedule(store, { task });
  await server('first', undefined, async () => true).run(id, clock.now);
  assert.equal(await submitted(), 0);
  await server('second', undefined, async () => false).run(id, clock.now);
  assert.equal(await submitted(), 2, 'of 10:00 and 10:01');
});

test('a task of one server is neither run nor taken over by another', async () => {
  const { store, trail } = await newStore();
  const clock = { now: Date.now() };
  const ran: string[] = [];
  const server = (serverId: string) => {
    const kinds = [
      {
        type: 'work',
        attemptsMax: 3,
        run: async ({ request }: { readonly request: { readonly name: string } }) => {
          ran.push(`${request.name} by ${serverId}`);
          return {};
        },
      },
    ];
    const holder = new LeaseHolder(serverId, 10);
    const options = { runnersMax: 1, retentionDays: 1, kinds: kinds as never, clock: () => clock.now };
    return new Tasks({ store, trail, holder, ...options });
  };
  const [first, second] = [server('first'), server('second')];
  const submit = (name: string, serverId: string | null) =>
    first.submit({ type: 'work', principal, target: '/x', request: { name }, serverId });
  const own = await submit('queued', 'second');
  const lost = await submit('lost', 'second');
  const running = { state: 'running', place: null, leased_by: 'second/dead', lease_until: clock.now - 1 } as const;
  await store.db.updateTable('tasks').set(running).where('task_id', '=', lost.taskId).execute();
  const any = await submit('any', null);
  await first.start();
  await eventually('the task of any server ends', async () => (await first.get(any.taskId))?.state === 'succeeded');
  assert.deepEqual(ran, ['any by first']);
  assert.deepEqual(
    [(await first.get(own.taskId))?.state, (await first.get(lost.taskId))?.state],
    ['pending', 'running'],
  );
  await second.start();
  for (const { taskId } of [own, lost])
    await eventually('a task of the second', async () => (await first.get(taskId))?.state === 'succeeded');
  assert.deepEqual(ran.sort(), ['any by first', 'lost by second', 'queued by second']);
  await first.stop(1000);
  await second.stop(1000);
});

test('the next process of a server that died makes its calls at once', async () => {
  const { store, clock, server, submitted } = await schedulingServers();
  const id = await schedule(store, { call });
  const dead = slow();
  const run = server('first', dead.submitCall).run(id, clock.now);
  await dead.reached;
  await server('first').run(id, clock.now);
  assert.equal(await submitted(), 2);
  dead.release();
  await run;
  assert.equal(await submitted(), 2);
});

/** A store with a task that has ended, and a webhook that is due. */
async function endedTask(receiver: Receiver) {
  let polls = 0;
  const { store, secrets } = await newStore((sql) => {
    if (sql.startsWith('select') && sql.includes('notify_at is not null')) polls++;
  });
  const clock = { now: Date.now() };
  const rules = hostAllowlist('webhookHosts', '127.0.0.1');
  const server = (serverId: string, renewEveryMs = neverMs) => {
    const holder = new LeaseHolder(serverId, renewEveryMs);
    const webhooks = new Webhooks({ store, secrets, rules, observe, holder, clock: () => clock.now });
    cleanUps.push(() => webhooks.stop());
    return webhooks;
  };
  const options = { runnersMax: 1, retentionDays: 1, clock: () => clock.now };
  const tasks = new Tasks({ store, ...options, webhooks: server('submitter') });
  const request = { type: 'work', principal, target: '/x', request: {}, notify: { url: receiver.url } };
  const error = { code: 'SQL_INVALID', message: 'no' } as const;
  const taskId = await store.transaction((tx) => tasks.recordFailed(request, error, tx));
  const row = () => store.db.selectFrom('tasks').selectAll().where('task_id', '=', taskId).executeTakeFirstOrThrow();
  const untilSent = () => eventually('sent', async () => (await row()).notify_at === null);
  return { store, clock, server, taskId, row, untilSent, polls: () => polls };
}

async function newReceiver(): Promise<Receiver> {
  const receiver = await new Receiver().listen();
  cleanUps.push(() => receiver.close());
  return receiver;
}

test('a webhook is called by one server at a time', async () => {
  const receiver = await newReceiver();
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  receiver.answered = answered;
  const { server, taskId, row, untilSent, polls } = await endedTask(receiver);
  const servers = [server('first'), server('second')];
  for (const webhooks of servers) webhooks.start();
  await eventually('called', () => receiver.noticesOf(taskId).length > 0);
  for (const webhooks of servers) {
    const before = polls();
    webhooks.dispatch();
    await eventually('the server has read what is due', () => polls() > before);
  }
  answer();
  await untilSent();
  assert.equal(receiver.noticesOf(taskId).length, 1);
  assert.deepEqual([(await row()).leased_by, (await row()).lease_until], [null, null]);
});

test('a server renews its lease on a webhook while it calls it', async () => {
  const receiver = await newReceiver();
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  receiver.answered = answered;
  const { clock, server, taskId, row, untilSent, polls } = await endedTask(receiver);
  server('first', 10).start();
  await eventually('called', () => receiver.noticesOf(taskId).length > 0);
  clock.now += leaseMs - 1;
  await eventually('the lease is renewed', async () => (await row()).lease_until === clock.now + leaseMs);
  clock.now += 2;
  const before = polls();
  server('second').start();
  await eventually('the second has read what is due', () => polls() > before);
  answer();
  await untilSent();
  assert.equal(receiver.noticesOf(taskId).length, 1);
});

test('a webhook of a server that died is called by another one when the lease has expired, and by its next process at once', async () => {
  for (const [heldBy, isFree] of [
    ['first/1', false],
    ['second/1', true],
  ] as const) {
    const receiver = await newReceiver();
    const { store, clock, server, taskId, untilSent, polls } = await endedTask(receiver);
    const lease = { leased_by: heldBy, lease_until: clock.now + leaseMs };
    await store.db.updateTable('tasks').set(lease).where('task_id', '=', taskId).execute();
    const webhooks = server('second');
    webhooks.start();
    if (!isFree) {
      await eventually('the server has read what is due', () => polls() > 0);
      assert.equal(receiver.noticesOf(taskId).length, 0);
      clock.now += leaseMs + 1;
      webhooks.dispatch();
    }
    await untilSent();
    assert.equal(receiver.noticesOf(taskId).length, 1);
  }
});

test('a server that lost the lease of a webhook does not record the outcome of its call', async () => {
  const receiver = await newReceiver();
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  receiver.answered = answered;
  const { store, clock, server, taskId, row, polls } = await endedTask(receiver);
  const webhooks = server('first');
  webhooks.start();
  await eventually('called', () => receiver.noticesOf(taskId).length > 0);
  const lease = { leased_by: 'second/1', lease_until: clock.now + leaseMs };
  await store.db.updateTable('tasks').set(lease).where('task_id', '=', taskId).execute();
  const taken = await row();
  const before = polls();
  answer();
  await eventually('the call has ended, and the server reads what is due', () => polls() > before);
  assert.deepEqual(await row(), taken);
});

test('a request that lost its idempotency key to a later attempt submits no task', async () => {
  const { store, trail } = await newStore();
  const kinds = [{ type: 'work', run: async () => ({}) }];
  const tasks = new Tasks({ store, trail, kinds: kinds as never, runnersMax: 1, retentionDays: 1 });
  const clock = { now: due };
  const keysOf = (server: string) => new IdempotencyKeys(store, () => clock.now, new LeaseHolder(server));
  const [earlier, later] = [keysOf('one'), keysOf('two')];
  const guardOf = async (keys: IdempotencyKeys) => {
    const begun = await keys.begin('root', 'k', 'fingerprint');
    assert(begun.kind === 'new', begun.kind);
    cleanUps.push(() => keys.end(begun.guard));
    return begun.guard;
  };
  const lost = await guardOf(earlier);
  clock.now += leaseMs + 1;
  const held = await guardOf(later);
  const submit = (guard: Guard) =>
    tasks.submit({ type: 'work' as never, principal, target: '/x', request: {} as never, guard });
  await submit(held);
  await assert.rejects(submit(lost), { code: 'CHANGE_IN_PROGRESS' });
  const { length } = await store.db.selectFrom('tasks').select('task_id').execute();
  assert.equal(length, 1);
});
