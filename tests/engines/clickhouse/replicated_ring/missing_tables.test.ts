// A node of a cluster lacks tables that are defined: an operator has dropped them there by hand, or its disk was lost. Whatever a request does,
// its answer is right or a 503, and the node gets the tables again.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { type Code, codes } from '../../../../src/standard/codes.ts';
import { eventually } from '../../../deadline.ts';
import { type Reply, start, type TestServer } from '../../../server.ts';
import { availabilityIs, createDatabase, registerAll } from '../../../servers/clusters/cluster_server.ts';
import { askNode, dropHidden } from '../ring/ask_node.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const nodes = ['node1', 'node2'];
const lacking = 1;
const catalog = '/api/v2/catalogs/c';
const database = `${catalog}/databases/d`;
const table = `${database}/tables/t`;
/** So that a request very probably meets the node, which is one of two. */
const requestsMax = 8;
/** Of requests that need all nodes. */
const requestsOfAll = 2;

describe('a node that lacks tables', { skip: missingOldestVersion }, () => {
  let ring: ReplicatedRing;
  let server: TestServer;
  let directory: string;
  let number = 0;

  const onNode = (index: number, sql: string) => askNode(ring.servers[index], sql);
  const has = async (name: string) => (await onNode(lacking, `EXISTS TABLE c__d.${name}`)) === '1';
  const drop = async (...names: readonly string[]) => {
    for (const name of names) await onNode(lacking, `DROP TABLE IF EXISTS c__d.${name} SYNC`);
  };
  const query = (sql: string) => server.post(`${database}/query`, { sql });
  const rowsOf = async (sql: string) => (await query(sql)).is(200).at('rows');

  /** Whether the request succeeded; anything but 503 is no refusal. */
  async function isDone(reply: Reply): Promise<Reply | undefined> {
    if (reply.status === 503) return undefined;
    if (reply.status !== 202) {
      assert.ok(reply.status < 300, `${reply.request}: ${reply.text}`);
      return reply;
    }
    const task = await server.ended(reply);
    if (task.at('state') === 'succeeded') return task;
    const code = task.at<Code>('error', 'code');
    assert.equal(codes[code]?.status, 503, task.text);
    return undefined;
  }

  async function everyAnswer(
    send: () => Promise<Reply>,
    isRight: (reply: Reply) => unknown,
    requests: number,
  ): Promise<void> {
    for (let n = 0; n < requests; n++) {
      const reply = await isDone(await send());
      if (reply) await isRight(reply);
    }
  }

  const restored = async (...names: readonly string[]) => {
    // A request that needs the tables finds that they are missing, whichever did not.
    await eventually('the node has the tables again', async () => {
      await Promise.all([query('SELECT count(*) FROM t'), query('SELECT count(*) FROM v')]);
      return (await Promise.all(names.map(has))).every(Boolean);
    });
    await availabilityIs(server, 'w', nodes, 'available');
  };

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tabularium-missing-'));
    await writeFile(join(directory, 'rows.csv'), 'id,s\n7,loaded\n');
    ring = await startReplicatedRing({ version: '24.8', sessionMs: 10_000, shards: [1, 1] });
    server = await start({ clusterHosts: '127.0.0.1', loadDirectories: directory });
    await registerAll(server, 'w', { nodes: ring.servers }, clusterName);
    await createDatabase(server, 'w');
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 's', type: 'STRING' },
    ];
    for (const name of ['t', 'target']) (await server.post(`${database}/tables`, { name, columns })).is(201);
    const rows = [1, 2, 3].map((id) => [id, `row ${id}`]);
    (await server.post(`${table}/rows`, { rows })).is(201);
    (await server.post(`${database}/views`, { name: 'v', sql: 'SELECT id FROM t' })).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
    await rm(directory, { recursive: true, force: true });
  });

  const threeRows = [[1], [2], [3]];
  const count = async (name: string) => Number(((await rowsOf(`SELECT count(*) FROM ${name}`)) as [[number]])[0][0]);
  /** That the rows of `target` are those of the requests that succeeded, and of no other one that says so. */
  const adds =
    (rowCount: number, send: () => Promise<Reply>, requests = requestsMax) =>
    async () => {
      const beforeAll = await count('target');
      let done = 0;
      let unknown = 0;
      for (let n = 0; n < requests; n++) {
        const sent = await send();
        const reply = await isDone(sent);
        if (reply) done++;
        else if (sent.status !== 503 || sent.at('outcome') !== 'notApplied') unknown++;
      }
      await restored('t', 't__local', 'target', 'target__local', 'v');
      const added = (await count('target')) - beforeAll;
      assert.ok(added >= done * rowCount && added <= (done + unknown) * rowCount, `${added} rows, ${done} requests`);
    };
  const reads =
    (send: () => Promise<Reply>, isRight: (reply: Reply) => unknown, requests = requestsMax) =>
    () =>
      everyAnswer(send, isRight, requests);

  const doors: Readonly<Record<string, () => Promise<void>>> = {
    'a query': reads(
      () => query('SELECT id FROM t ORDER BY id'),
      (reply) => assert.deepEqual(reply.at('rows'), threeRows),
    ),
    'a query of a view': reads(
      () => query('SELECT id FROM v ORDER BY id'),
      (reply) => assert.deepEqual(reply.at('rows'), threeRows),
    ),
    'a query of two tables': reads(
      () => query('SELECT t.id FROM t LEFT JOIN target ON t.id = target.id ORDER BY t.id LIMIT 1'),
      (reply) => assert.deepEqual(reply.at('rows'), [[1]]),
    ),
    'a plan': reads(
      () => server.post(`${database}/explain`, { sql: 'SELECT id FROM t' }),
      (reply) => assert.ok(reply.at<string>('plan').length > 0),
    ),
    'an export of a table': reads(
      () => server.post(`${table}/export`, { format: 'csv' }),
      (reply) => assert.equal(reply.at('result', 'rowCount'), 3),
    ),
    'an export of a query': reads(
      () => server.post(`${database}/export`, { format: 'csv', sql: 'SELECT id FROM v' }),
      (reply) => assert.equal(reply.at('result', 'rowCount'), 3),
    ),
    'a checksum': reads(
      () => server.post(`${table}/checksum`),
      (reply) => assert.equal(reply.at('result', 'rowCount') ?? reply.at('rowCount'), 3),
    ),
    'an optimization': reads(
      () => server.post(`${table}/optimize`),
      (reply) => assert.equal(reply.at('result', 'rowCount'), 3),
      requestsOfAll,
    ),
    'rows to insert': adds(1, () => server.post(`${database}/tables/target/rows`, { rows: [[++number, 'x']] })),
    'an INSERT': adds(2, () => query("INSERT INTO target VALUES (4, 'x'), (5, 'y')")),
    'an insertion of a query': adds(3, () =>
      server.post(`${database}/tables/target/insert_select`, { sql: 'SELECT id, s FROM t' }),
    ),
    'a load': adds(
      1,
      () => server.post(`${database}/tables/target/load`, { source: { path: join(directory, 'rows.csv') } }),
      requestsOfAll,
    ),
    'an UPDATE': reads(
      () => server.post(`${table}/update`, { set: { s: "concat('row ', toString(id))" }, where: 'id > 1' }),
      (reply) => assert.equal(reply.at('rowCount'), 2),
    ),
    'a DELETE': reads(
      () => server.post(`${table}/delete_rows`, { where: 'id > 3' }),
      (reply) => assert.equal(reply.at('rowCount'), 0),
    ),
    'a copy of a definition': reads(
      () => server.post(`${table}/copy_definition`, { newName: `copy_${++number}` }),
      (reply) => reply.is(201),
    ),
    'a new view': reads(
      () => server.post(`${database}/views`, { name: `view_${++number}`, sql: 'SELECT id FROM v' }),
      (reply) => reply.is(201),
    ),
    'a changed view': reads(
      () => server.patch(`${database}/views/v`, { sql: 'SELECT id FROM t WHERE id > 0' }),
      (reply) => reply.is(200),
    ),
    'a new column': reads(
      () => server.post(`${table}/columns`, { name: `c${++number}`, type: 'INT' }),
      (reply) => reply.at('name'),
    ),
  };

  for (const [name, ask] of Object.entries(doors)) {
    test(`${name}: tables that take statements are missing`, async () => {
      await drop('t', 't__local', 'target', 'target__local', 'v');
      await ask();
      await restored('t', 't__local', 'target', 'target__local', 'v');
    });
  }

  // Reads find the rows on other replicas, and no error reports the loss.
  const missingRows = async (names: readonly string[]) => {
    await drop('t__local', 'target__local');
    for (const name of names) await doors[name]?.();
    await restored('t', 't__local', 'target', 'target__local', 'v');
  };
  const writing = ['rows to insert', 'an INSERT', 'an insertion of a query', 'a load', 'an UPDATE', 'a new column'];
  test('reading, while tables with rows are missing', () =>
    missingRows(Object.keys(doors).filter((name) => !writing.includes(name))));
  for (const name of writing) test(`${name}: tables with rows are missing`, () => missingRows([name]));

  for (const [what, names] of Object.entries({ 'a table': ['r', 'r__local'], 'a table with rows': ['r__local'] }))
    test(`a new name: ${what} is missing`, async () => {
      const columns = [{ name: 'id', type: 'BIGINT' }];
      (await server.post(`${database}/tables`, { name: 'r', columns })).is(201);
      (await server.post(`${database}/tables/r/rows`, { rows: [[1], [2], [3]] })).is(201);
      await drop(...names);
      await eventually('the table has the new name', async () => {
        const reply = await server.post(`${database}/tables/r/rename`, { newName: 'renamed' });
        if (reply.status === 200) return true;
        assert.equal(reply.status, 503, reply.text);
        // Nothing is half done: the rows are there by the name that the table has.
        assert.equal(reply.at('outcome'), 'notApplied', reply.text);
        await everyAnswer(
          () => query('SELECT count(*) FROM r'),
          (each) => assert.deepEqual(each.at('rows'), [[3]]),
          2,
        );
        return false;
      });
      await restored('renamed', 'renamed__local');
      await eventually('nothing has the former name', async () => !(await has('r')) && !(await has('r__local')));
      await everyAnswer(
        () => query('SELECT count(*) FROM renamed'),
        (each) => assert.deepEqual(each.is(200).at('rows'), [[3]]),
        requestsMax,
      );
      (await server.delete(`${database}/tables/renamed?purge=true`)).is(200);
    });

  test('a dropped table is restored: its hidden copy is missing', async () => {
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.post(`${database}/tables`, { name: 'r', columns })).is(201);
    (await server.post(`${database}/tables/r/rows`, { rows: [[1], [2], [3]] })).is(201);
    (await server.delete(`${database}/tables/r`)).is(200);
    await dropHidden(ring.servers[lacking]);
    await eventually('the table is there again', async () => {
      const reply = await server.post(`${database}/tables/undrop`, { name: 'r' });
      if (reply.status === 200) return true;
      assert.equal(reply.status, 503, reply.text);
      assert.equal(reply.at('outcome'), 'notApplied', reply.text);
      return false;
    });
    await restored('r', 'r__local');
    await everyAnswer(
      () => query('SELECT count(*) FROM r'),
      (each) => assert.deepEqual(each.is(200).at('rows'), [[3]]),
      requestsMax,
    );
    (await server.delete(`${database}/tables/r?purge=true`)).is(200);
  });

  test('a table that was altered by hand is made anew', async () => {
    const stored = async () => {
      const sql =
        "SELECT name, type FROM system.columns WHERE database = 'c__d' AND table = 't' AND name != '_load' ORDER BY position FORMAT JSONCompact";
      return (JSON.parse(await onNode(lacking, sql)) as { readonly data: readonly [string, string][] }).data;
    };
    // By the definition as it is now: an earlier test may have left a column that is added only later.
    const isDefined = async () => {
      const columns = (await server.get(table)).is(200).at<{ name: string }[]>('columns');
      const found = await stored();
      const text = found.find(([name]) => name === 's');
      return (
        text?.[1] === 'Nullable(String)' &&
        isDeepStrictEqual(
          found.map(([name]) => name),
          columns.map(({ name }) => name),
        )
      );
    };
    for (const change of ['ADD COLUMN extra Int32', 'MODIFY COLUMN s String']) {
      await onNode(lacking, `ALTER TABLE c__d.t ${change}`);
      await eventually('the node has the columns of the table again', isDefined, 30_000).catch(async (error: Error) => {
        throw new Error(`${error.message}: it has ${JSON.stringify(await stored())}`);
      });
      await availabilityIs(server, 'w', nodes, 'available');
      assert.deepEqual(await rowsOf('SELECT id FROM t WHERE s IS NOT NULL ORDER BY id'), threeRows);
    }
  });

  test('a table that was dropped, and one that never was', async () => {
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.post(`${database}/tables`, { name: 'gone', columns })).is(201);
    (await server.delete(`${database}/tables/gone`)).is(200);
    for (const name of ['gone', 'misspelled']) {
      (await query(`SELECT *\nFROM ${name}`)).is(400, 'SQL_INVALID', { line: 2, column: 6 });
      (await server.post(`${database}/tables/${name}/rows`, { rows: [[1]] })).is(404, 'OBJECT_NOT_FOUND');
      (await server.post(`${database}/tables/${name}/checksum`)).is(404, 'OBJECT_NOT_FOUND');
    }
    (await query('SELECT misspelled FROM t')).is(400, 'SQL_INVALID', { line: 1, column: 8 });
    for (const node of nodes)
      assert.equal((await server.get(`/api/v2/warehouses/w/backends/${node}`)).at('availability'), 'available');
  });

  test('a move to another engine', async () => {
    await drop('t', 't__local', 'v');
    const move = async () =>
      isDone(await server.post(`${catalog}/move`, { warehouse: 'default', forgetDroppedObjects: true }));
    await eventually('the catalog is moved', async () => (await move()) !== undefined);
    assert.deepEqual(await rowsOf('SELECT id FROM v ORDER BY id'), threeRows);
  });
});
