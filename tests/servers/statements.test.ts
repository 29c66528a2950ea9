// The statements that run on two servers of one store: each server lists, finds, shows and cancels those of both, under the same
// permissions, and ends those of a server that is lost.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually, statementWaitSeconds } from '../deadline.ts';
import { missingPostgresql } from '../postgresql.ts';
import { endOfTask, type Reply, type ServerProcess } from '../server.ts';
import { kill, newPlaces, type Places, seeEachOther } from './two_servers.ts';

const far = '/api/v2/catalogs/far';
const elsewhere = 'WAREHOUSE_ON_ANOTHER_SERVER';
const wait = { waitSeconds: statementWaitSeconds() };
/** A task whose statement was cancelled. */
const stopped = { state: 'failed', error: { code: 'STATEMENT_CANCELLED' } };
const silent = ['--log-level=silent'];

/** Runs until it is cancelled. `name` finds it. */
const endless = (name: string) =>
  `SELECT count(*) AS ${name} FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3`;

interface Listed {
  readonly queryId: string;
  readonly uri: string;
  readonly state: string;
  readonly queuePosition: number | null;
  readonly task: string | null;
}

describe('statements of two servers', { skip: missingPostgresql }, () => {
  let places: Places;
  let one: ServerProcess;
  let two: ServerProcess;
  before(async () => {
    places = await newPlaces();
    one = await places.one.start(silent);
    two = await places.two.start(silent);
    (await two.post('/api/v2/warehouses', { name: 'second', threads: 1, queriesMax: 1 })).is(201);
    await seeEachOther(one, two, ['default', 'second']);
    (await one.post('/api/v2/catalogs', { name: 'far', warehouse: 'second' })).is(201);
  });
  after(async () => {
    await one?.close();
    await two?.close();
    places?.remove();
  });

  const search = async (server: ServerProcess, text: string, more: object = {}): Promise<readonly Listed[]> =>
    (await server.post('/api/v2/queries/search', { text, ...more })).is(200).at('queries');
  /** The statement as a server knows it, once it runs. */
  const running = async (server: ServerProcess, name: string): Promise<Listed> => {
    let found: Listed | undefined;
    await eventually(`${name} runs, as ${server.url} knows`, async () => {
      [found] = await search(server, name, { state: 'running' });
      return found !== undefined;
    });
    return found as Listed;
  };
  const begin = async (name: string): Promise<string> =>
    (await one.post(`${far}/query`, { sql: endless(name), waitSeconds: 0 })).is(202).at('uri');

  test('one that runs is listed, found, shown and cancelled through either server', async () => {
    for (const server of [one, two]) {
      const task = await begin('shown');
      const { uri, queryId } = await running(server, 'shown');
      const shown = (await server.get(uri)).is(200, '0', { state: 'running', warehouse: 'second', catalog: 'far' });
      assert.equal(shown.at('task'), task);
      const listed = (await server.get('/api/v2/queries')).is(200).at<Listed[]>('queries');
      assert.equal(listed.filter((entry) => entry.queryId === queryId).length, 1);
      (await server.post(`${uri}/cancel`)).is(200);
      (await endOfTask(server, task)).is(200, undefined, stopped);
      for (const reader of [one, two])
        await eventually('its end is known', async () => (await reader.get(uri)).at('state') === 'cancelled');
      (await server.delete(uri)).is(200, '0', { deleted: true });
      for (const reader of [one, two]) (await reader.get(uri)).is(404, 'OBJECT_NOT_FOUND');
    }
  });

  test('deleting one that runs on the other server cancels it', async () => {
    const task = await begin('deleted');
    const { uri } = await running(one, 'deleted');
    (await one.delete(uri)).is(200, '0', { deleted: true });
    (await endOfTask(one, task)).is(200, undefined, stopped);
  });

  test('those that wait have their positions in the queue of their server', async () => {
    const first = await begin('ahead');
    await running(one, 'ahead');
    const more = [await begin('waits_1'), await begin('waits_2')];
    for (const [server, text] of [
      [one, 'waits_1'],
      [two, 'waits_1'],
      [one, 'waits_2'],
      [two, 'waits_2'],
    ] as const)
      await eventually(`the position of ${text}`, async () => {
        const [entry] = await search(server, text, { state: 'queued' });
        return entry?.queuePosition === Number(text.at(-1));
      });
    for (const task of [...more, first]) (await one.delete(task)).is(200);
  });

  test('a statement that has just ended is shown by the other server, as by its own', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 20; i++)
      ids.push((await one.post(`${far}/query`, { sql: `SELECT ${i} AS short`, ...wait })).is(200).at('queryId'));
    const last = `/api/v2/queries/${ids.at(-1)}`;
    for (const server of [one, two]) (await server.get(last)).is(200, '0', { state: 'succeeded' });
    assert.deepEqual(
      (await search(two, 'AS short')).map(({ queryId }) => queryId),
      ids.reverse(),
    );
  });

  test('users see and cancel their own through either server, and no others', async () => {
    const tokenOf = async (name: string): Promise<{ authorization: string }> => {
      (await one.post('/api/v2/users', { name })).is(201);
      const secret = (await one.post(`/api/v2/users/${name}/tokens`, { name: 't' })).is(201).at<string>('secret');
      return { authorization: `Bearer ${secret}` };
    };
    const [ann, eve] = [await tokenOf('ann'), await tokenOf('eve')];
    (await one.post('/api/v2/users/ann/grants', { privilege: 'read', on: far })).is(201);
    (await one.post('/api/v2/users/ann/grants', { privilege: 'use', on: '/api/v2/warehouses/second' })).is(201);
    const body = { sql: endless('hers'), waitSeconds: 0 };
    const submit = (): Promise<Reply> => one.request('POST', `${far}/query`, { headers: ann, body });
    let task = '';
    await eventually('the grants are in force', async () => {
      const reply = await submit();
      if (reply.status === 202) task = reply.at('uri');
      return reply.status === 202;
    });
    const { uri } = await running(one, 'hers');
    for (const server of [one, two]) {
      (await server.request('GET', uri, { headers: eve })).is(403, 'FORBIDDEN');
      (await server.request('POST', `${uri}/cancel`, { headers: eve, body: {} })).is(403, 'FORBIDDEN');
      (await server.request('GET', uri, { headers: ann })).is(200, '0', { state: 'running' });
      const listed = (await server.request('GET', '/api/v2/queries', { headers: eve })).is(200);
      assert.deepEqual(listed.at('queries'), []);
    }
    (await one.request('POST', `${uri}/cancel`, { headers: ann, body: {} })).is(200);
    (await endOfTask(one, task)).is(200, undefined, stopped);
  });

  test('those of a server that is lost fail, and those of one that was frozen are shown as they are', async () => {
    const task = await begin('frozen');
    const { uri } = await running(one, 'frozen');
    two.child.kill('SIGSTOP');
    await eventually('it counts as lost', async () => (await one.get(uri)).at('state') === 'failed', 30_000);
    (await one.get(uri)).is(200, '0', { error: { code: 'STATEMENT_INTERRUPTED' } });
    two.child.kill('SIGCONT');
    await eventually('it runs still', async () => (await one.get(uri)).at('state') === 'running', 30_000);
    await eventually('it is cancelled', async () => (await one.post(`${uri}/cancel`)).status === 200);
    (await endOfTask(one, task)).is(200, undefined, stopped);

    const retried = await begin('lost');
    const { uri: lost } = await running(one, 'lost');
    await kill(two);
    (await one.get(lost)).is(200, '0', { state: 'running' });
    (await one.post(`${lost}/cancel`)).is(503, elsewhere, { serverId: places.two.id(), outcome: 'notApplied' });
    await eventually('it has failed', async () => (await one.get(lost)).at('state') === 'failed', 30_000);
    const shown = (await one.post(`${lost}/cancel`)).is(200, '0', { state: 'failed' });
    assert.equal(shown.at('error', 'code'), 'STATEMENT_INTERRUPTED');
    assert.deepEqual(await search(one, 'lost', { state: 'running' }), []);

    // The next process of a server ends what the earlier one ran.
    two = await places.two.start(silent);
    await seeEachOther(one, two, ['second']);
    (await one.delete(retried)).is(200);
    await begin('restarted');
    const { uri: earlier } = await running(one, 'restarted');
    await kill(two);
    two = await places.two.start(silent);
    for (const server of [one, two])
      await eventually('it has ended', async () => (await server.get(earlier)).at('state') === 'failed', 30_000);
  });
});
