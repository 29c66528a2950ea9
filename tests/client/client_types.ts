// What must compile, and what must not: calls of the typed client. Checked by the compiler alone; nothing here runs.
import type { Client, Task } from '../../src/client/index.ts';

declare const client: Client;
const shop = client.catalogs('default').databases('shop');
const orders = shop.tables('orders');

export async function good(): Promise<unknown[]> {
  const table = await orders.get();
  const rowCount: number | null | undefined = table.statistics?.rowCount;
  const columnNames: string[] = table.columns.map(({ name }) => name);
  const created = await shop.tables.create({ name: 't', columns: [{ name: 'id', type: 'BIGINT' }] });
  const wasCreated: boolean = 'taskId' in created || created.created;
  const renamed = await client.databases('shop').rename({ newName: 'store' }).done();
  const uri: string = 'uri' in renamed ? renamed.uri : renamed.name;
  const { rowsLoaded }: { rowsLoaded: number } = await orders.load({ source: { path: '/a.csv' } }).done();
  const optimizing: Task<{ dataBytes: number }> = await orders.optimize();
  const { dataBytes } = await optimizing.done();
  for await (const database of client.catalogs('default').databases.list({ pageSize: 10 })) database.name.trim();
  for await (const task of client.tasks.search({ state: 'failed' })) task.taskId.trim();
  const { deleted } = await orders.delete();
  const changed = await orders.updateRows({ set: { a: '1' }, where: 'true' });
  const accepted: boolean = 'taskId' in changed;
  const task: Task = await client.task('id');
  await task.done({ onProgress: ({ progress }) => progress?.toFixed(), signal: AbortSignal.timeout(1) });
  const record = await client.tasks('id').get({ waitSeconds: 3 });
  const provider = await client.identityProviders('x').get();
  for await (const row of client.query<{ n: bigint }>('SELECT 1 AS n', { parameters: [1] })) row.n.toString();
  return [
    rowsLoaded,
    dataBytes,
    rowCount,
    columnNames,
    wasCreated,
    uri,
    deleted,
    accepted,
    record.state,
    provider.name,
  ];
}

export async function mustNotCompile(): Promise<void> {
  // @ts-expect-error no such category
  client.schemas;
  // @ts-expect-error a category that is in another one
  client.tables;
  // @ts-expect-error no such action
  orders.vacuum({});
  // @ts-expect-error an action of the collection
  orders.search({});
  // @ts-expect-error a body without its required field
  orders.rename({});
  // @ts-expect-error a field that the body does not have
  orders.rename({ newName: 'a', colour: 'red' });
  // @ts-expect-error a field of the wrong type
  shop.tables.create({ name: 1 });
  // @ts-expect-error a field that the record does not have
  (await orders.get()).colour;
  // @ts-expect-error a field that the result of a load does not have
  (await orders.load({ source: { path: '/a.csv' } }).done()).rowCount;
  // @ts-expect-error a renamed database has no such field when a task renamed it
  (await client.databases('shop').rename({ newName: 'store' }).done()).uri;
  // @ts-expect-error a query parameter that does not exist
  client.tasks('id').get({ seconds: 3 });
  // @ts-expect-error a state that does not exist
  client.tasks.search({ state: 'lost' });
  // @ts-expect-error backends belong to a warehouse
  client.catalogs('default').backends;
}
