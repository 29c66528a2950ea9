// The same few SELECTs are repeated while rows are inserted whose values exceed every previous range: each result is of one
// instant, contains what was acknowledged before the request, and nothing that was sent after the response.
import assert from 'node:assert/strict';
import type { Random } from '../../random.ts';
import type { TestServer } from '../../server.ts';

export interface ReadingReport {
  readonly batches: number;
  readonly reads: number;
}

const batchRows = 10;
const writers = 3;
const readers = 4;

/** The first two columns of each: the number of rows, and how many of them are the last of their batch. */
const questions = [
  'SELECT count(*), count(*) FILTER (WHERE last), max(id), (SELECT id FROM t ORDER BY id DESC LIMIT 1) FROM t',
  'SELECT sum(n), sum(l) FROM (SELECT v, count(*) AS n, count(*) FILTER (WHERE last) AS l FROM t GROUP BY v)',
  'SELECT count(*), sum(last::INT) FROM (SELECT * FROM t ORDER BY v, id)',
  'SELECT count(DISTINCT id), count(DISTINCT batch) FROM t WHERE id >= 0 OR id < 0',
  `SELECT count(*), count(*) // ${batchRows} FROM t a JOIN (SELECT DISTINCT id AS b FROM t) ON a.id = b`,
];

export async function readRows(server: TestServer, random: Random, batchesEach: number): Promise<ReadingReport> {
  (await server.delete('/api/v2/databases/read?cascade=true')).is(200);
  await server.client.databases.create({ name: 'read' });
  const columns = ['id BIGINT', 'batch INT', 'v STRING', 'last BOOLEAN'].map((text) => {
    const [name = '', type = ''] = text.split(' ');
    return { name, type };
  });
  await server.client.databases('read').tables.create({ name: 't', columns }).done();
  let [sent, acknowledged, reads, isOver] = [0, 0, 0, false];

  const write = async (writerRandom: Random): Promise<void> => {
    for (let n = 0; n < batchesEach; n++) {
      const batch = ++sent;
      const rows = Array.from({ length: batchRows }, (_, i) => {
        // Farther out each time, in both directions; texts of other lengths, and null.
        const id = (batch % 2 ? 1 : -1) * (batch ** 4 * batchRows + i);
        return [
          id,
          batch,
          writerRandom.chance(0.3) ? null : 'v'.repeat(writerRandom.below(batch) + 1),
          i === batchRows - 1,
        ];
      });
      await server.client.databases('read').tables('t').rows.create({ rows });
      acknowledged++;
    }
  };
  const read = async (readerRandom: Random): Promise<void> => {
    while (!isOver) {
      const sql = readerRandom.pick(questions);
      const before = acknowledged;
      const [row] = (await server.query('read', sql)).is(200).at<unknown[][]>('rows');
      const [rows, batches] = (row ?? []).map(Number);
      const description = `${sql}: ${JSON.stringify(row)}, where ${before} to ${sent} batches existed`;
      assert.equal(rows, (batches as number) * batchRows, description);
      assert((batches as number) >= before && (batches as number) <= sent, description);
      if (row?.length === 4) assert.equal(row[2], row[3], description);
      reads++;
    }
  };
  const reading = Array.from({ length: readers }, (_, i) => read(random.fork(i)));
  const writing = Array.from({ length: writers }, (_, i) => write(random.fork(100 + i)));
  await Promise.all([
    Promise.all(writing).finally(() => {
      isOver = true;
    }),
    ...reading,
  ]);
  return { batches: acknowledged, reads };
}
