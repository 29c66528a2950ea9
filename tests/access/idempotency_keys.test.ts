// Edge cases of idempotency keys: two servers on one store, a store that fails, the expiry of a key with an unknown outcome.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { IdempotencyKeys, markKey } from '../../src/access/idempotency_keys.ts';
import { IdempotentRequests, type KeyedRequest } from '../../src/http/idempotency/replay.ts';
import type { Guard } from '../../src/model/principal.ts';
import { Failure } from '../../src/standard/failure.ts';
import { endEarlierLeases, LeaseHolder, leaseMs } from '../../src/store/leases.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../deadline.ts';
import { storesOf } from '../stores.ts';

const hourMs = 3_600_000;
let store: Store;
let now = Date.parse('2026-01-31T10:00:00Z');
before(async () => {
  ({ store } = await storesOf(import.meta.url).open());
});
after(async () => {
  await store.close();
});

const nothingEarlier = { recover: async () => {}, rowsOf: async () => undefined };
const server = (keys: IdempotencyKeys = new IdempotencyKeys(store, () => now)) =>
  new IdempotentRequests(keys, nothingEarlier);
const responseWith = (text: string) => ({ status: 200 as const, headers: {}, body: [JSON.stringify({ text })] });
const textOf = ({ body }: { readonly body: readonly unknown[] }) => body.join('');
const keyed = (key: string, run: KeyedRequest['run']): KeyedRequest => ({
  owner: 'o',
  key,
  fingerprint: 'f',
  secretFields: [],
  granted: [],
  authorize: async () => {},
  run,
  again: async (_guard, objectId) => responseWith(`made: ${objectId}`),
});
/** A change like those of the catalog and the tasks: the object and the mark of the key are written in one transaction. */
const change = (guard: Guard, objectIds: string[], objectId: string) =>
  store.transaction(async (tx) => {
    await markKey(tx, guard, objectId);
    objectIds.push(objectId);
  });
const outcomeWith = (text: string) => ({ response: responseWith(text), stored: responseWith(text) });

test('large responses of one caller are stored up to a limit, for a day; further ones are built again', async () => {
  const requests = server(new IdempotencyKeys(store, () => now, undefined, undefined, 100_000));
  const large = 'x'.repeat(40_000);
  let runs = 0;
  const respond = async (key: string, text: string, owner = 'o') => {
    const run = async (guard: Guard) => {
      runs++;
      await change(guard, [], key);
      return outcomeWith(text);
    };
    return textOf(await requests.respond({ ...keyed(key, run), owner }));
  };
  const again = async (key: string, owner?: string) => (await respond(key, '', owner)).slice(0, 20);
  for (const key of ['large 1', 'large 2', 'large 3']) assert.ok((await respond(key, large)).length > 40_000);
  await respond('small', 'y');
  await respond('large 1', large, 'p');
  const repeated = ['large 1', 'large 2', 'large 3', 'small'];
  const stored = '{"text":"xxxxxxxxxxx';
  assert.deepEqual(await Promise.all(repeated.map((key) => again(key))), [
    stored,
    stored,
    '{"text":"made: large',
    '{"text":"y"}',
  ]);
  assert.equal(await again('large 1', 'p'), stored);
  assert.equal(runs, 5);
  now += 25 * hourMs;
  await respond('large 4', large);
  assert.equal(await again('large 4'), stored);
  now -= 25 * hourMs;
});

test('of two attempts of a key, only the later one makes a change', async () => {
  const objectIds: string[] = [];
  const started = Promise.withResolvers<void>();
  const overtaken = Promise.withResolvers<void>();
  const first = server().respond(
    keyed('raced', async (guard) => {
      started.resolve();
      await overtaken.promise;
      await change(guard, objectIds, 'first');
      return outcomeWith('first');
    }),
  );
  first.catch(() => {});
  await started.promise;
  const second = await server().respond(
    keyed('raced', async (guard) => {
      await change(guard, objectIds, 'second');
      return outcomeWith('second');
    }),
  );
  overtaken.resolve();
  await assert.rejects(first, { code: 'CHANGE_IN_PROGRESS' });
  assert.deepEqual([objectIds, textOf(second)], [['second'], '{"text":"second"}']);
  const replayed = await server().respond(keyed('raced', async () => assert.fail('it ran again')));
  assert.equal(textOf(replayed), '{"text":"second"}');
});

/** A server among several, with a lease that its test renews by hand if `renewEveryMs` is absent. */
const serverCalled = (serverId: string, renewEveryMs = 3_600_000) =>
  server(new IdempotencyKeys(store, () => now, new LeaseHolder(serverId, renewEveryMs)));
const failIfRun = async () => assert.fail('it ran again');

/** A request whose first run waits for `finish`. */
function waiting(key: string) {
  const { promise: started, resolve: start } = Promise.withResolvers<void>();
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>();
  const objectIds: string[] = [];
  const request = keyed(key, async (guard) => {
    start();
    await finished;
    await change(guard, objectIds, key);
    return outcomeWith('first');
  });
  return { request, started, finish, objectIds };
}

test('while a server runs a request with a key, the others wait for its response', async () => {
  const first = waiting('two servers');
  const response = serverCalled('first').respond(first.request);
  await first.started;
  const repeated = serverCalled('second').respond(keyed('two servers', failIfRun));
  const conflicting = { ...keyed('two servers', failIfRun), fingerprint: 'g' };
  await assert.rejects(serverCalled('second').respond(conflicting), { code: 'IDEMPOTENCY_KEY_REUSED' });
  first.finish();
  assert.equal(textOf(await response), '{"text":"first"}');
  assert.equal(textOf(await repeated), '{"text":"first"}');
});

test('after the change of another server, its response is awaited; if it does not come, it is built again', async () => {
  for (const isStored of [true, false]) {
    const key = `changed, ${isStored}`;
    const changed = Promise.withResolvers<void>();
    const { promise: finished, resolve: finish } = Promise.withResolvers<void>();
    const request = keyed(key, async (guard) => {
      await change(guard, [], key);
      changed.resolve();
      await finished;
      return outcomeWith('first');
    });
    const response = serverCalled('first').respond(request);
    await changed.promise;
    const keys = new IdempotencyKeys(store, () => now, new LeaseHolder('second'));
    const asked = Promise.withResolvers<void>();
    const begin = keys.begin.bind(keys);
    keys.begin = async (...parameters) => {
      const begun = await begin(...parameters);
      asked.resolve();
      return begun;
    };
    const repeated = server(keys).respond(keyed(key, failIfRun));
    await asked.promise;
    if (isStored) finish();
    assert.equal(textOf(await repeated), isStored ? '{"text":"first"}' : `{"text":"made: ${key}"}`);
    finish();
    await response;
  }
});

test('a server renews the lease of a key while the request runs', async () => {
  const first = waiting('long');
  const response = serverCalled('first', 5).respond(first.request);
  await first.started;
  for (let n = 0; n < 5; n++) {
    now += leaseMs - 1;
    await eventually('the lease is renewed', async () => {
      const rows = store.db.selectFrom('idempotency_keys').select('lease_until').where('key', '=', 'long');
      return (await rows.executeTakeFirstOrThrow()).lease_until === now + leaseMs;
    });
  }
  const repeated = serverCalled('second').respond(keyed('long', failIfRun));
  first.finish();
  await response;
  assert.equal(textOf(await repeated), '{"text":"first"}');
});

test('a request runs on another server when the lease has expired; the late server changes nothing', async () => {
  const first = waiting('expired');
  const late = assert.rejects(serverCalled('first').respond(first.request), { code: 'CHANGE_IN_PROGRESS' });
  await first.started;
  now += leaseMs + 1;
  const second = keyed('expired', async (guard) => {
    await change(guard, first.objectIds, 'second');
    return outcomeWith('second');
  });
  assert.equal(textOf(await serverCalled('second').respond(second)), '{"text":"second"}');
  first.finish();
  await late;
  assert.deepEqual(first.objectIds, ['second']);
  const replayed = await serverCalled('first').respond(keyed('expired', failIfRun));
  assert.equal(textOf(replayed), '{"text":"second"}');
});

test('the next process of a server that died, and any server after an unknown outcome, run a request at once', async () => {
  const dead = waiting('dead');
  const late = assert.rejects(serverCalled('first').respond(dead.request), { code: 'CHANGE_IN_PROGRESS' });
  await dead.started;
  const run = async () => outcomeWith('again');
  assert.equal(textOf(await serverCalled('first').respond(keyed('dead', run))), '{"text":"again"}');
  dead.finish();
  await late;
  const failToRun = async () => {
    throw new Failure('WAREHOUSE_FAILED', 'gone', {}, { outcome: 'unknown' });
  };
  await assert.rejects(serverCalled('first').respond(keyed('failed', failToRun)), { code: 'WAREHOUSE_FAILED' });
  assert.equal(textOf(await serverCalled('second').respond(keyed('failed', run))), '{"text":"again"}');
  const unstored = async () => ({ response: responseWith('read'), stored: undefined });
  await serverCalled('first').respond(keyed('read', unstored));
  assert.equal(textOf(await serverCalled('second').respond(keyed('read', run))), '{"text":"again"}');
});

test('when a server that died is started again, other servers run its requests at once', async () => {
  const dead = waiting('restarted');
  const late = assert.rejects(serverCalled('first').respond(dead.request), { code: 'CHANGE_IN_PROGRESS' });
  await dead.started;
  const running = waiting('of the other server');
  const response = serverCalled('second').respond(running.request);
  await running.started;
  await endEarlierLeases(store, new LeaseHolder('first'));
  const run = async () => outcomeWith('again');
  assert.equal(textOf(await serverCalled('second').respond(keyed('restarted', run))), '{"text":"again"}');
  const begun = await new IdempotencyKeys(store, () => now, new LeaseHolder('first')).begin(
    'o',
    'of the other server',
    'f',
  );
  assert.equal(begun.kind, 'running');
  dead.finish();
  await late;
  running.finish();
  await response;
});

test('if the response cannot be stored, the change is confirmed and not repeated', async () => {
  class FailingKeys extends IdempotencyKeys {
    override storeResponse(): Promise<void> {
      return Promise.reject(new Error('the disk is full'));
    }
    override release(): Promise<void> {
      return Promise.reject(new Error('the disk is full'));
    }
  }
  const failing = server(new FailingKeys(store, () => now));
  const objectIds: string[] = [];
  const run = async (guard: Guard) => {
    await change(guard, objectIds, 'x');
    return outcomeWith('made');
  };
  assert.equal(textOf(await failing.respond(keyed('unsaved', run))), '{"text":"made"}');
  assert.equal(textOf(await failing.respond(keyed('unsaved', run))), '{"text":"made: x"}');
  assert.deepEqual(objectIds, ['x']);
  // If even the release fails, the caller gets the failure of its request.
  const reserveBusyKey = async () => {
    throw new Failure('WAREHOUSE_BUSY', 'full');
  };
  await assert.rejects(failing.respond(keyed('unreleased', reserveBusyKey)), { code: 'WAREHOUSE_BUSY' });
  assert.equal(textOf(await failing.respond(keyed('unreleased', run))), '{"text":"made"}');
});

test('a key with an unknown outcome is retained beyond a day, an answered one is not', async () => {
  const keys = new IdempotencyKeys(store, () => now);
  const steps: string[] = [];
  const lost = keyed('lost', async ({ keyId }) => {
    steps.push(keyId);
    throw new Failure('WAREHOUSE_FAILED', 'the engine died', {}, { outcome: 'unknown' });
  });
  await assert.rejects(server(keys).respond(lost), { code: 'WAREHOUSE_FAILED' });
  await server(keys).respond(keyed('answered', async () => outcomeWith('once')));
  now += 25 * hourMs;
  await keys.sweep();
  await assert.rejects(server(keys).respond(lost), { code: 'WAREHOUSE_FAILED', outcome: 'unknown' });
  assert.equal(steps[0], steps[1], 'the engine knows the work by the same step');
  assert.equal(
    textOf(await server(keys).respond(keyed('answered', async () => outcomeWith('anew')))),
    '{"text":"anew"}',
  );
  now += 25 * hourMs;
  await keys.sweep();
  await assert.rejects(server(keys).respond(lost), { code: 'WAREHOUSE_FAILED' });
  assert.notEqual(steps[2], steps[0]);
});

test('a key becomes free for another request only if certainly nothing was changed', async () => {
  const other = (key: string) => ({ ...keyed(key, async () => outcomeWith('other')), fingerprint: 'g' });
  for (const [outcome, isFree] of [
    ['notApplied', true],
    ['unknown', false],
  ] as const) {
    const failToRun = async () => {
      throw new Failure('WAREHOUSE_FAILED', 'gone', {}, { outcome });
    };
    await assert.rejects(server().respond(keyed(outcome, failToRun)), { code: 'WAREHOUSE_FAILED' });
    const repeated = server().respond(other(outcome));
    if (isFree) assert.equal(textOf(await repeated), '{"text":"other"}');
    else await assert.rejects(repeated, { code: 'IDEMPOTENCY_KEY_REUSED' });
  }
  // A cancelled statement is run again; one that was killed at its timeout may have been applied.
  for (const failure of [
    new Failure('STATEMENT_CANCELLED', 'cancelled'),
    new Failure('STATEMENT_TIMEOUT', 'killed', {}, { outcome: 'unknown' }),
  ]) {
    const key = failure.code;
    await assert.rejects(server().respond(keyed(key, () => Promise.reject(failure))), { code: key });
    assert.equal(textOf(await server().respond(keyed(key, async () => outcomeWith('done')))), '{"text":"done"}');
  }
});
