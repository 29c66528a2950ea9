// A statement that became a task: the task has the id of the statement, the statement the URI of the task, and its place in the queue of a
// warehouse whose only slot is taken.
import { after, before, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { endOfTask, type Reply, start, type TestServer } from '../../server.ts';

const endless = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = b.range % 11';

let server: TestServer;
before(async () => {
  server = await start();
  (await server.post('/api/v2/warehouses', { name: 'single', queriesMax: 1 })).is(201);
  (await server.post('/api/v2/catalogs', { name: 'lab', warehouse: 'single' })).is(201);
});
after(() => server.close());

/** Not as tasks from the start: those take turns with the requests of the same principal. */
const query = async (sql: string): Promise<Reply> =>
  (await server.post('/api/v2/catalogs/lab/query', { sql, waitSeconds: 0.2 })).is(202);

test('a task shows which statement it runs, and the statement its place in the queue and its task', async () => {
  const running = await query(endless);
  await eventually('it runs', async () => {
    const { queryId } = (await server.get(running.at('uri'))).result as { queryId?: string };
    return queryId !== undefined && (await server.get(`/api/v2/queries/${queryId}`)).at('state') === 'running';
  });
  const waiting = [await query("SELECT 'second'"), await query("SELECT 'third'")];
  for (const [i, task] of waiting.entries()) {
    const uri = task.at<string>('uri');
    const queryId = (await server.get(uri)).is(200).at<string>('queryId');
    const expected = { state: 'queued', queuePosition: i + 1, task: uri };
    (await server.get(`/api/v2/queries/${queryId}`)).is(200, '0', expected);
  }
  (await server.post(`${running.at<string>('uri')}/cancel`)).is(200);
  for (const task of waiting) {
    const uri = task.at<string>('uri');
    const ended = (await endOfTask(server, uri)).is(200, '0', { state: 'succeeded' });
    const queryId = ended.at<string>('queryId');
    ended.is(200, '0', { result: { queryId } });
    // The history is not flushed yet, or is: the task stays known.
    (await server.get(`/api/v2/queries/${queryId}`)).is(200, '0', { state: 'succeeded', task: uri });
  }
});
