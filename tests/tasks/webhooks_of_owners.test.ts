// Webhooks of several owners on one server: those of one, to hosts that do not respond, delay no one else's, and what they occupy is limited.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { openSecrets } from '../../src/access/secrets/secrets.ts';
import { hostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { hasPendingNotification } from '../../src/store/index_conditions.ts';
import { headsOfOwners } from '../../src/tasks/heads_of_owners.ts';
import { Tasks, type TasksOptions } from '../../src/tasks/tasks.ts';
import { Webhooks } from '../../src/tasks/webhooks.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { storesOf } from '../stores.ts';
import { Receiver } from './receiver.ts';

const stores = storesOf(import.meta.url);
const root = mkdtempSync(join(tmpdir(), 'tabularium-webhooks-'));
const cleanUps: (() => Promise<void> | void)[] = [];
after(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
  rmSync(root, { recursive: true, force: true });
});
const observe = (observation: unknown) => assert.fail(JSON.stringify(observation));

async function newReceiver(): Promise<Receiver> {
  const receiver = await new Receiver().listen();
  cleanUps.push(() => receiver.close());
  return receiver;
}

/** A server whose webhooks are not yet sent. `end`: tasks of an owner end, with a webhook. */
async function prepared(options: Partial<TasksOptions> = {}) {
  const statements: string[] = [];
  const watch: { onStatement?: (() => void) | undefined } = {};
  const inject = ({ sql }: { readonly sql: string }) => {
    statements.push(sql);
    watch.onStatement?.();
  };
  const { store } = await stores.open({ inject });
  cleanUps.push(() => store.close());
  const secrets = await openSecrets({ store, dataDirectory: mkdtempSync(join(root, 'data-')), observe });
  const rules = hostAllowlist('webhookHosts', '127.0.0.1');
  // Pauses and attempts that no test sees the end of.
  const times = { retryPauseMs: 1_000_000, responseTimeoutMs: 1_000_000 };
  const webhooks = new Webhooks({ store, secrets, rules, observe, ...times });
  cleanUps.push(() => webhooks.stop());
  const tasks = new Tasks({ store, runnersMax: 1, retentionDays: 1, webhooks, ...options });
  const error = { code: 'SQL_INVALID', message: 'no' } as const;
  const end = (owner: string, receiver: Receiver | undefined, count = 1, text = '') =>
    store.transaction(async (tx) => {
      const principal = { id: owner, name: owner };
      const notify = receiver && { url: receiver.url };
      const request = { type: 'work', principal, target: '/x', request: { text }, notify };
      const ids: string[] = [];
      for (let i = 0; i < count; i++) ids.push(await tasks.recordFailed(request, error, tx));
      return ids;
    });
  const dueAt = async (taskId: string | undefined) => {
    const row = store.db
      .selectFrom('tasks')
      .select('notify_at')
      .where('task_id', '=', taskId ?? '');
    return (await row.executeTakeFirstOrThrow()).notify_at;
  };
  return { store, tasks, webhooks, end, dueAt, statements, watch };
}

test('an owner whose webhooks are not answered has eight at a time, and others are notified at once', async () => {
  const { webhooks, end } = await prepared();
  const [slow, other] = [await newReceiver(), await newReceiver()];
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  slow.answered = answered;
  await end('many', slow, 30);
  webhooks.start();
  await eventually('all places are taken', () => slow.notices.length === 8);
  const [first] = await end('few', other);
  await eventually('another owner is notified', () => other.noticesOf(first).length === 1);
  assert.equal(slow.notices.length, 8);
  answer();
  await eventually('all are notified', () => slow.notices.length === 30);
});

test('at whichever statement the sending stops, nothing is read or written afterwards', async () => {
  const receiver = await newReceiver();
  let statement = 0;
  for (let isReached = true; isReached; ) {
    statement++;
    isReached = false;
    const stopped = Promise.withResolvers<void>();
    const { tasks, webhooks, end, statements, watch } = await prepared();
    const ids = await end('ann', receiver, 2);
    statements.length = 0;
    watch.onStatement = () => {
      if (statements.length !== statement) return;
      isReached = true;
      webhooks.stop().then(stopped.resolve, stopped.reject);
    };
    webhooks.start();
    const areSent = () => ids.every((id) => receiver.noticesOf(id).length === 1);
    await eventually('it stops, or all are notified', () => isReached || areSent());
    if (!isReached) break;
    await Promise.all([stopped.promise, tasks.stop(deadlineMs(5000))]);
    const before = statements.length;
    await pause(10);
    assert.deepEqual(statements.slice(before), [], `after a stop at statement ${statement}`);
  }
  assert.ok(statement > 5, `${statement} statements`);
});

test('a host that does not respond to one owner is not paused for another', async () => {
  const { webhooks, end, dueAt } = await prepared();
  const receiver = await newReceiver();
  receiver.statuses = [0, 204];
  const [failed] = await end('ann', receiver);
  const endedAt = Date.now();
  webhooks.start();
  await eventually('a failed attempt', async () => Number(await dueAt(failed)) > endedAt + 60_000);
  const [paused] = await end('ann', receiver);
  await eventually('paused with the host', async () => (await dueAt(paused)) === (await dueAt(failed)));
  const [sent] = await end('ben', receiver);
  await eventually('sent', async () => (await dueAt(sent)) === null);
  assert.deepEqual(
    [failed, paused, sent].map((taskId) => receiver.noticesOf(taskId).length),
    [1, 0, 1],
  );
});

test('webhooks that wait for a host are paused together, while those of others are sent', async () => {
  const { store, webhooks, end, dueAt, statements } = await prepared();
  const [dead, other] = [await newReceiver(), await newReceiver()];
  dead.statuses = [0];
  await end('ann', dead);
  const endedAt = Date.now();
  webhooks.start();
  await eventually('a failed attempt', async () => {
    const first = await store.db.selectFrom('tasks').select('notify_at').executeTakeFirstOrThrow();
    return Number(first.notify_at) > endedAt + 60_000;
  });
  const before = statements.length;
  const all = await end('ann', dead, 250);
  const [sent] = await end('ben', other);
  await eventually('sent', async () => (await dueAt(sent)) === null);
  await eventually('paused', async () => Number(await dueAt(all.at(-1))) > endedAt + 60_000);
  const pauses = statements.slice(before).filter((sql) => sql.startsWith('update "tasks" set "notify_at"'));
  const single = pauses.filter((sql) => !sql.includes(' in ('));
  assert.equal(dead.notices.length, 1);
  // Those of the ends of the tasks are of one task each, and repeated after a conflict.
  assert(single.length >= 251 && single.length < 300, `${single.length} updates of one task`);
  assert(pauses.length - single.length < 10, `${pauses.length - single.length} updates`);
});

test('tasks whose webhook is to be sent are deleted before their retention time only beyond a limit of their own', async () => {
  let now = Date.now();
  const { tasks, end } = await prepared({ ownerBytesMax: 100_000, clock: () => now });
  const text = 'ä'.repeat(12_000);
  const receiver = await newReceiver();
  const ids = async () => (await tasks.list({ limit: 100 })).items.map(({ taskId }) => taskId).toReversed();
  const eventuallyDeleted = (remaining: readonly string[]) =>
    eventually('the others are deleted', async () => JSON.stringify(await ids()) === JSON.stringify(remaining));
  const waiting = await end('ann', receiver, 1, text);
  await end('ann', undefined, 9, text);
  now += 61_000;
  const last = [...(await end('ann', undefined, 4, text))];
  await eventuallyDeleted([...waiting, ...last]);
  await end('ann', receiver, 9, text);
  now += 61_000;
  await eventuallyDeleted([...last, ...(await end('ann', receiver, 4, text))]);
});

if (stores.name === 'SQLite')
  test('the next webhook of each owner is found by an index', async () => {
    const { store } = await prepared();
    const heads = headsOfOwners(store.db, hasPendingNotification, (rows) => rows.orderBy('notify_at')).compile();
    const plan = await store.db.executeQuery<{ detail: string }>({ ...heads, sql: `explain query plan ${heads.sql}` });
    const text = plan.rows.map(({ detail }) => detail).join('; ');
    assert.match(text, /INDEX tasks_notify_owner \(owner=\?/);
    assert.doesNotMatch(text, /SCAN tasks|TEMP B-TREE/, text);
  });
