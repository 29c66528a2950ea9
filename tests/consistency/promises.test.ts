// The sentences of docs/consistency.md, one test each, on a running server and engine; see histories.test.ts for kills.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';

let server: TestServer;
const page = readFileSync(new URL('../../docs/consistency.md', import.meta.url), 'utf8');

before(async () => {
  server = await start({ pageBytesMax: 65_536 });
  await server.client.databases.create({ name: 'shop' });
});
after(() => server.close());

const table = async (sql: string) => (await server.post('/api/v2/databases/shop/tables', { sql })).is(201);
const rowsOf = (name: string) => `/api/v2/databases/shop/tables/${name}/rows`;
const singleValue = async (sql: string) => (await server.rows('shop', sql))[0]?.[0];

/** Each promise is a sentence of the page, so that neither changes without the other. */
function promise(sentence: string, test: () => Promise<void>): void {
  it(sentence, async () => {
    assert.ok(page.replace(/\s+/g, ' ').includes(sentence), 'this sentence is not in docs/consistency.md');
    await test();
  });
}

describe('one statement', () => {
  promise(
    'A statement sees one snapshot of a catalog, and its changes become visible all at once or not at all.',
    async () => {
      await table('CREATE TABLE accounts (id INT PRIMARY KEY, amount BIGINT)');
      await server.query('shop', 'INSERT INTO accounts SELECT range, 100 FROM range(200)');
      let isOver = false;
      const move = async (amount: number) => {
        for (let n = 0; n < 25; n++) {
          const sql = `UPDATE accounts SET amount = amount + CASE id % 2 WHEN 0 THEN ${amount} ELSE ${-amount} END`;
          (await server.query('shop', sql)).is(200);
        }
      };
      const read = async () => {
        while (!isOver) assert.equal(await singleValue('SELECT sum(amount) FROM accounts'), 20_000);
      };
      const reading = [read(), read()];
      await Promise.all([move(3), move(-7)]);
      isOver = true;
      await Promise.all(reading);
      assert.equal(await singleValue('SELECT min(amount) FROM accounts'), 100 + 25 * -4);
    },
  );

  promise('Statements that change the same rows concurrently are serialized: no update is lost.', async () => {
    await table('CREATE TABLE counters (id INT PRIMARY KEY, n BIGINT)');
    await server.query('shop', 'INSERT INTO counters VALUES (1, 0)');
    let acknowledged = 0;
    const client = async () => {
      for (let i = 0; i < 20; i++) {
        const reply = await server.query('shop', 'UPDATE counters SET n = n + 1 WHERE id = 1');
        // Under very many conflicts a statement gives up without having changed anything.
        if (reply.status !== 503) acknowledged += Number(reply.is(200) !== undefined);
      }
    };
    await Promise.all(Array.from({ length: 6 }, client));
    assert.ok(acknowledged > 0);
    assert.equal(await singleValue('SELECT n FROM counters'), acknowledged);
  });

  promise('A statement changes one catalog, but can read several.', async () => {
    await server.client.catalogs.create({ name: 'other' });
    await server.client.catalogs('other').databases.create({ name: 'shop' });
    const createCopies = { sql: 'CREATE TABLE copies (id INT)' };
    await server.client.catalogs('other').databases('shop').tables.create(createCopies).done();
    (await server.query('shop', 'INSERT INTO other.shop.copies SELECT id FROM counters')).is(200);
    const crossCatalog = 'INSERT INTO other.shop.copies VALUES (2); INSERT INTO counters VALUES (2, 0)';
    (await server.query('shop', crossCatalog)).is(400, 'SQL_NOT_SUPPORTED');
    assert.equal(await singleValue('SELECT count(*) FROM other.shop.copies'), 1);
  });
});

describe('after the response', () => {
  promise(
    'Every request that begins after a change was acknowledged sees it, through SQL and REST, from any caller.',
    async () => {
      await table('CREATE TABLE notes (id INT PRIMARY KEY, text VARCHAR)');
      for (let n = 0; n < 20; n++) {
        if (n % 2 === 0) (await server.query('shop', `INSERT INTO notes VALUES (${n}, 'by SQL')`)).is(200);
        else (await server.post(rowsOf('notes'), { rows: [[n, 'by REST']] })).is(201);
        const [listed, counted] = await Promise.all([
          server.get(rowsOf('notes')),
          singleValue('SELECT count(*) FROM notes'),
        ]);
        assert.equal(listed.is(200).at<unknown[]>('rows').length, n + 1);
        assert.equal(counted, n + 1);
      }
      (await server.patch('/api/v2/databases/shop/tables/notes', { comment: 'seen at once' })).is(200);
      (await server.get('/api/v2/databases/shop/tables/notes')).is(200, '0', { comment: 'seen at once' });
      await server.client.databases('shop').tables('notes').columns.create({ name: 'added', type: 'INT' }).done();
      assert.equal(await singleValue('SELECT added FROM notes LIMIT 1'), null);
    },
  );

  promise(
    'While a table is changed, a statement sees its columns before or after the change, never a mixture.',
    async () => {
      await table('CREATE TABLE shapes (id INT)');
      await server.query('shop', 'INSERT INTO shapes SELECT range FROM range(10)');
      const columns = '/api/v2/databases/shop/tables/shapes/columns';
      const names = ['a', 'b', 'c', 'd'];
      let isOver = false;
      const reading = (async () => {
        while (!isOver) {
          const reply = await server.query('shop', 'SELECT * FROM shapes');
          // Refused if the table changes all the time.
          if (reply.status === 503) continue;
          const leakedNames = names.filter((name) => JSON.stringify(reply.at('columns')).includes(`"${name}"`));
          assert.deepEqual(leakedNames, names.slice(0, leakedNames.length));
          for (const row of reply.is(200).at<unknown[][]>('rows'))
            assert.deepEqual(
              row.slice(1),
              leakedNames.map((name) => names.indexOf(name)),
            );
        }
      })();
      for (const [n, name] of names.entries())
        (await server.post(columns, { name, type: 'INT', defaultValue: String(n), nullable: false })).is(201);
      isOver = true;
      await reading;
    },
  );
});

describe('results', () => {
  promise('All pages of a stored result are of the snapshot in which the statement ran.', async () => {
    await table('CREATE TABLE numbers (n BIGINT)');
    await server.query('shop', 'INSERT INTO numbers SELECT range FROM range(30000)');
    const first = (await server.query('shop', "SELECT n, repeat('x', 20) FROM numbers")).is(200);
    (await server.query('shop', 'UPDATE numbers SET n = -1')).is(200);
    (await server.query('shop', 'DELETE FROM numbers WHERE n < 0')).is(200);
    const values: number[] = first.at<[number, string][]>('rows').map(([n]) => n);
    for (let next = first.at<string | undefined>('nextPage'); next !== undefined; ) {
      const reply = (await server.get(next)).is(200);
      values.push(...reply.at<[number, string][]>('rows').map(([n]) => n));
      next = reply.at<string | undefined>('nextPage');
    }
    assert.ok(first.at<number>('pageCount') > 1);
    assert.deepEqual(
      values.sort((a, b) => a - b),
      Array.from({ length: 30_000 }, (_, n) => n),
    );
  });

  promise(
    'The counts in records (`statistics`, `rowCount` of tablets) follow the rows within seconds; they are not part of any snapshot.',
    async () => {
      (await server.query('shop', 'INSERT INTO numbers SELECT range FROM range(77)')).is(200);
      const path = '/api/v2/databases/shop/tables/numbers';
      await eventually('the count', async () => (await server.get(path)).at('statistics', 'rowCount') === 77, 60_000);
    },
  );
});
