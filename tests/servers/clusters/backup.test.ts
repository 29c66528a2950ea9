// Catalogs of a cluster are backed up while two servers write to them all the time: a backup contains what was acknowledged before it, no half
// of a write, and nothing that depends on what it lacks. Writes wait for it and are not refused. A server that dies while it backs up leaves
// its work to the other one.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { DirectoryTarget } from '../../../src/backups/targets/directory_target.ts';
import { verifyBackups } from '../../../src/backups/verification.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../../postgresql.ts';
import { Random, seedFrom } from '../../random.ts';
import { endOfTask, type Reply, type ServerProcess } from '../../server.ts';
import { kill, newPlaces, type Places } from '../two_servers.ts';
import { availabilityIs, createWarehouse, register } from './cluster_server.ts';

const catalog = '/api/v2/catalogs/lake';
const tables = `${catalog}/databases/d/tables`;
const rowsPerGroup = 5;
const quietRows = 20_000;
const killWithinMs = 2_000;
const timeout = deadlineMs(240_000);

/** Writes groups of rows to the table `causes`, and after each of them to the table `effects`. */
class GroupWriter {
  readonly acknowledged: number[] = [];
  refused = 0;
  server: ServerProcess;
  #isOver = false;
  readonly #running: Promise<void>;

  constructor(server: ServerProcess, first: number) {
    this.server = server;
    this.#running = this.#run(first);
  }

  async #run(first: number): Promise<void> {
    for (let group = first; !this.#isOver; group++) {
      for (const table of ['causes', 'effects'])
        await this.#insert(
          table,
          group,
          Array.from({ length: rowsPerGroup }, (_, place) => [group * rowsPerGroup + place, group]),
        );
      this.acknowledged.push(group);
      await pause(20);
    }
  }

  async #insert(table: string, group: number, rows: readonly number[][]): Promise<void> {
    const headers = { 'x-service-idempotency-key': `${table}-${group}` };
    for (;;) {
      const sent = this.server.send('POST', `${tables}/${table}/rows`, { body: { rows }, headers });
      const status = await sent.then(
        (reply) => reply.status,
        () => 0,
      );
      if (status === 201) return;
      assert.ok(status === 503 || status === 0, `status ${status}`);
      this.refused++;
      await pause(20);
    }
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }
}

describe('a catalog of a cluster', { skip: missingRing || missingPostgresql }, () => {
  const random = new Random(seedFrom('BACKUP_SEED'));
  let ring: Ring;
  let places: Places;
  let one: ServerProcess;
  let two: ServerProcess;
  const targetIn = (name: string) => ({ path: join(places.directory, 'backups', name) }) as const;
  const flags = () => ['--cluster-hosts=127.0.0.1', `--backup-directories=${join(places.directory, 'backups')}`];
  before(async () => {
    [ring, places] = await Promise.all([startRing(2), newPlaces()]);
    mkdirSync(join(places.directory, 'backups'));
    one = await places.one.start(flags());
    two = await places.two.start(flags());
    await createWarehouse(one, 'w', clusters.shards);
    for (const [index, node] of ring.nodes.entries()) (await register(one, 'w', `node${index}`, node)).is(201);
    for (const server of [one, two])
      for (const index of ring.nodes.keys()) await availabilityIs(server, 'w', [`node${index}`], 'available');
    (await one.post('/api/v2/catalogs', { name: 'lake', warehouse: 'w' })).is(201);
    (await one.post(`${catalog}/databases`, { name: 'd' })).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'group', type: 'BIGINT' },
    ];
    for (const name of ['causes', 'effects', 'quiet']) (await one.post(tables, { name, columns })).is(201);
    (await query(one, 'lake', `INSERT INTO d.quiet SELECT number, number FROM numbers(${quietRows})`)).is(200);
    await eventually(
      'the other server knows the catalog',
      async () => (await two.get(`${tables}/quiet`)).status === 200,
    );
  });
  after(async () => {
    await one?.close();
    await two?.close();
    await ring?.close();
    places?.remove();
  });

  const query = (server: ServerProcess, name: string, sql: string): Promise<Reply> =>
    server.post(`/api/v2/catalogs/${name}/query`, { sql });
  const rows = async (name: string, sql: string) => (await query(two, name, sql)).is(200).at<unknown[][]>('rows');

  /** `acknowledged`: the groups that the backup must have. */
  async function requireConsistent(name: string, acknowledged: readonly number[]): Promise<void> {
    for (const table of ['causes', 'effects']) {
      const parts = `SELECT "group", count(*) FROM d.${table} GROUP BY "group" HAVING count(*) != ${rowsPerGroup} OR count(DISTINCT id) != ${rowsPerGroup}`;
      assert.deepEqual(await rows(name, parts), [], `${table}: writes of which only a part is in the backup`);
    }
    const groups = async (table: string) =>
      new Set((await rows(name, `SELECT DISTINCT "group" FROM d.${table}`)).map(([group]) => Number(group)));
    const [causes, effects] = [await groups('causes'), await groups('effects')];
    assert.deepEqual(
      [...effects].filter((group) => !causes.has(group)),
      [],
      'effects without their causes',
    );
    assert.deepEqual(
      acknowledged.filter((group) => !effects.has(group)),
      [],
      'acknowledged before the backup',
    );
    assert.deepEqual(await rows(name, 'SELECT count(*), sum(id) FROM d.quiet'), [
      [quietRows, (quietRows * (quietRows - 1)) / 2],
    ]);
  }

  const acknowledgedBy = (writers: readonly GroupWriter[]) => writers.flatMap(({ acknowledged }) => [...acknowledged]);

  test('is backed up while two servers write to it, and restored', { timeout }, async (t) => {
    const writers = [new GroupWriter(one, 1_000_000), new GroupWriter(two, 2_000_000)];
    await eventually('both write', () => writers.every(({ acknowledged }) => acknowledged.length > 3));
    const to = targetIn('written');
    const results: { readonly backupId: string; readonly since: string | null; readonly before: number[] }[] = [];
    for (const server of [one, two]) {
      const before = acknowledgedBy(writers);
      const accepted = (await server.post(`${catalog}/backup`, { to })).is(202);
      const ended = (await endOfTask(server, accepted.at('uri'))).is(200, '0', { state: 'succeeded' });
      results.push({ backupId: ended.at('result', 'backupId'), since: ended.at('result', 'since'), before });
    }
    for (const writer of writers) await writer.end();
    t.diagnostic(JSON.stringify(writers.map(({ acknowledged, refused }) => [acknowledged.length, refused])));
    assert.deepEqual(
      writers.map(({ refused }) => refused),
      [0, 0],
      'writes wait for a snapshot',
    );
    assert.equal(results[1]?.since, results[0]?.backupId);
    for (const [index, { backupId, before }] of results.entries()) {
      const body = { name: `restored${index}`, from: to, backupId, warehouse: 'w' };
      const accepted = (await two.post('/api/v2/catalogs/restore', body)).is(202);
      (await endOfTask(two, accepted.at('uri'))).is(200, '0', { state: 'succeeded' });
      await requireConsistent(body.name, before);
    }
    const { faults, unnamed } = await verifyBackups(new DirectoryTarget(to.path));
    assert.deepEqual([faults, unnamed], [[], { files: 0, bytes: 0 }]);
  });

  test('unchanged rows are sent once', { timeout }, async () => {
    const to = targetIn('unchanged');
    const sent: number[] = [];
    for (const server of [one, two]) {
      const accepted = (await server.post(`${catalog}/databases/d/backup`, { to })).is(202);
      const ended = (await endOfTask(server, accepted.at('uri'))).is(200, '0', { state: 'succeeded' });
      sent.push(ended.at('result', 'filesSent'));
    }
    assert.ok((sent[0] ?? 0) > 0);
    assert.equal(sent[1], 0);
    const body = { name: 'again', from: to };
    const accepted = (await one.post(`${catalog}/databases/restore`, body)).is(202);
    (await endOfTask(one, accepted.at('uri'))).is(200, '0', { state: 'succeeded' });
    assert.deepEqual(await rows('lake', 'SELECT count(*) FROM again.quiet'), [[quietRows]]);
  });

  test('rows of another engine are refused', { timeout }, async () => {
    const accepted = (await one.post('/api/v2/catalogs/restore', { name: 'elsewhere', from: targetIn('written') })).is(
      202,
    );
    const ended = (await endOfTask(one, accepted.at('uri'))).is(200, '0', { state: 'failed' });
    assert.equal(ended.at('error', 'code'), 'DATA_INVALID');
    assert.match(ended.at('error', 'message'), /engine clickhouse/);
    (await one.get('/api/v2/catalogs/elsewhere')).is(404, 'OBJECT_NOT_FOUND');
  });

  test('is backed up although the server that began it is killed', { timeout }, async (t) => {
    t.diagnostic(`BACKUP_SEED=${random.seed}`);
    const to = targetIn('killed');
    const writers = [new GroupWriter(two, 3_000_000)];
    await eventually('it writes', () => acknowledgedBy(writers).length > 3);
    const before = acknowledgedBy(writers);
    const accepted = (await one.post(`${catalog}/backup`, { to })).is(202);
    await pause(random.below(killWithinMs));
    await kill(one);
    const ended = (await endOfTask(two, accepted.at('uri'))).is(200, '0', { state: 'succeeded' });
    for (const writer of writers) await writer.end();
    one = await places.one.start(flags());
    const backupId = ended.at<string>('result', 'backupId');
    const body = { name: 'afterwards', from: to, backupId, warehouse: 'w' };
    const restoring = (await two.post('/api/v2/catalogs/restore', body)).is(202);
    (await endOfTask(two, restoring.at('uri'))).is(200, '0', { state: 'succeeded' });
    await requireConsistent(body.name, before);
  });
});
