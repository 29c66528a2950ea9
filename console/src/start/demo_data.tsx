// Demo data to try the console with: a database that the server fills by itself, so that it needs no file.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { queryClient } from '../app/queries.ts';
import { RoomLink } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { objectsStore } from '../explorer/objects_store.ts';
import { Button } from '../ui/button.tsx';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Progress } from '../ui/feedback.tsx';
import { findDatabase } from './find_database.ts';
import { refreshWork } from './server_state.tsx';
import styles from './start_room.module.css';

const database = 'demo';
/** Each table depends on those before it. */
const tables: readonly { readonly name: string; readonly comment: string; readonly sql: string }[] = [
  {
    name: 'customers',
    comment: '1,000 customers',
    sql: `SELECT i AS id, 'Customer ' || i AS name, ['Berlin', 'Lagos', 'Lima', 'Osaka', 'Oslo'][1 + i % 5] AS city,
      DATE '2024-01-01' + (i * 37 % 700)::INT AS since FROM range(1, 1001) t(i)`,
  },
  {
    name: 'orders',
    comment: '200,000 orders of two years',
    sql: `SELECT i AS id, 1 + hash(i) % 1000 AS customer_id, TIMESTAMP '2024-01-01' + INTERVAL 1 SECOND * (i * 315) AS placed_at,
      ['book', 'chair', 'lamp', 'table'][1 + (hash(i + 1) % 4)::INT] AS product, 1 + (hash(i + 2) % 5)::INT AS quantity,
      (5 + hash(i + 3) % 20000 / 100.0)::DECIMAL(10, 2) AS price FROM range(200000) t(i)`,
  },
];
const demoQuery = `SELECT c.city, date_trunc('month', o.placed_at) AS month, sum(o.quantity * o.price) AS revenue
FROM demo.orders o JOIN demo.customers c ON o.customer_id = c.id
GROUP BY ALL
ORDER BY month, city`;

async function exists(signal: AbortSignal): Promise<boolean> {
  const demo = await findDatabase(database, signal);
  return demo !== undefined && demo.tableCount >= tables.length;
}

export function DemoData() {
  const { data: isThere = false, error: failedRead } = useQuery({
    queryKey: ['databases', 'default', database, 'exists'],
    queryFn: ({ signal }) => exists(signal),
  });
  const [step, setStep] = useState<number>();
  const [error, setError] = useState<unknown>();
  const create = async () => {
    setError(undefined);
    setStep(0);
    try {
      await client.databases.create({ name: database, comment: 'Demo data' }, { ifExists: 'return' });
      for (const [i, { name, comment, sql }] of tables.entries()) {
        setStep(i);
        await client
          .databases(database)
          .tables.create({ name, comment, asSelect: { sql } }, { ifExists: 'return' })
          .done();
      }
      objectsStore.refresh();
      await queryClient.invalidateQueries({ queryKey: ['databases'] });
    } catch (failure) {
      setError(failure);
    }
    setStep(undefined);
    await refreshWork();
  };
  return (
    <section className={styles.panel} aria-labelledby="demo">
      <h2 id="demo">Try the demo data</h2>
      {isThere ? (
        <>
          <p className={styles.hint}>
            The database <code>demo</code> has 200,000 orders of 1,000 customers.
          </p>
          <CodeBlock label="Revenue by city" code={demoQuery} />
          <p>
            <RoomLink room="sql" search={{ sql: demoQuery, catalog: 'default', database }}>
              Open the query in the editor
            </RoomLink>
          </p>
        </>
      ) : (
        <>
          <p className={styles.hint}>
            Creates the database <code>demo</code> with 200,000 orders of 1,000 customers.
          </p>
          <div>
            <Button disabled={step !== undefined} onClick={() => void create()}>
              Create the demo data
            </Button>
          </div>
        </>
      )}
      {step !== undefined && <Progress label="Creating the demo data" value={step / tables.length} />}
      {(error ?? failedRead) != null && (
        <ErrorPanel title="The demo data could not be created" error={error ?? failedRead} />
      )}
    </section>
  );
}
