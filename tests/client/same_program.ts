// A program on the typed client, as a user writes it: it knows the name of a catalog and nothing of engines. Returns what it saw.
import type { Client } from '../../src/client/index.ts';

const database = 'shop';
const orderCount = 2_500;

/** Leaves nothing behind. */
export async function runProgram(client: Client, catalog: string): Promise<object> {
  const { databases } = client.catalogs(catalog);
  await databases.create({ name: database, comment: 'of a program' });
  const { tables } = databases(database);
  await tables
    .create({
      name: 'orders',
      columns: [
        { name: 'id', type: 'BIGINT', nullable: false },
        { name: 'customer', type: 'VARCHAR(40)', nullable: false },
        { name: 'amount', type: 'DECIMAL(12,2)' },
        { name: 'placed', type: 'DATE' },
        { name: 'placed_at', type: 'DATETIME' },
        { name: 'paid', type: 'BOOLEAN' },
      ],
    })
    .done();
  const orders = tables('orders');
  const rows = Array.from({ length: orderCount }, (_, i) => ({
    id: i + 1,
    customer: ['Ada', 'Grace', 'Linus'][i % 3],
    amount: i % 10 === 0 ? null : (i % 1000) + 0.25,
    placed: `2026-01-${String((i % 31) + 1).padStart(2, '0')}`,
    placed_at: `2026-01-31T10:00:${String(i % 60).padStart(2, '0')}.123456`,
    paid: i % 4 === 0,
  }));
  const { rowCount: inserted } = await orders.rows.create({ rows });

  const options = { catalog, database };
  const totals = await client
    .query(
      'SELECT customer, count(*) AS orders, sum(amount) AS total FROM orders WHERE id > $1 GROUP BY customer ORDER BY customer',
      { ...options, parameters: [10] },
    )
    .all();
  const first = await client.query('SELECT * FROM orders WHERE id <= 3 ORDER BY id', options).all();
  let pagedRows = 0;
  for await (const row of client.query('SELECT id, customer FROM orders ORDER BY id', options))
    if (Number(row.id) === ++pagedRows) continue;
    else throw new Error(`row ${pagedRows} has the id ${row.id}`);

  await client.query("UPDATE orders SET paid = true WHERE customer = 'Ada'", options).summary();
  await client.query('DELETE FROM orders WHERE id > 2000', options).summary();
  await orders.columns.create({ name: 'note', type: 'STRING' }).done();
  await orders.rows.create({ rows: [{ id: 9001, customer: 'Margaret', amount: '99.99', note: 'é "quoted"' }] });
  const after = await client
    .query('SELECT paid, count(*) AS n, count(note) AS notes FROM orders GROUP BY paid ORDER BY n, paid', options)
    .all();
  const columns = await orders.columns.list().all();
  await tables('orders').rename({ newName: 'sales' });
  const names = (await tables.list().all()).map(({ name }) => name);
  const failure = await client
    .query('SELECT missing FROM sales', options)
    .all()
    .catch((error: { readonly code?: string }) => error.code);
  await databases(database).delete({ cascade: true });
  const text = (value: unknown) =>
    JSON.parse(JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each))) as unknown;
  return {
    inserted,
    totals: text(totals),
    first: text(first),
    pagedRows,
    after: text(after),
    columns: columns.map(({ name, type, nullable }) => ({ name, type, nullable })),
    names,
    failure,
  };
}
