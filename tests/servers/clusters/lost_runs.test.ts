// A server that is cut off from the store while it runs an export, a query or a backup, and continues after another server has completed the task:
// what the other one has stored remains as it is, whether the run of the first succeeds or fails.
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { Snapshot } from '../../../src/engines/port/snapshot.ts';
import type { FaultInjector } from '../../../src/store/store.ts';
import { eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { openTestBucket } from '../../file_stores.ts';
import { type ObjectStoreServer, startObjectStore } from '../../outbound/object_store_server.ts';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../../postgresql.ts';
import { endOfTask, type Reply, start, type TestServer } from '../../server.ts';
import { clusterSettings, registerAll } from './cluster_server.ts';

/** Each run has other rows. */
const sql = 'SELECT generateUUIDv4(number) AS id FROM numbers(20000)';
const lake = '/api/v2/catalogs/lake';
const rowsOfTable = `${lake}/databases/d/tables/t/rows`;

interface LinkedFile {
  readonly name: string;
  readonly sha256: string;
  readonly link: string;
}

const digestOf = (content: Buffer): string => createHash('sha256').update(content).digest('hex');

describe('a run of a task that another server has completed meanwhile', {
  skip: missingRing || missingPostgresql,
}, () => {
  if (missingRing !== false || missingPostgresql !== false) return;
  let directory: string;
  let ring: Ring;
  let s3: ObjectStoreServer;
  let store: Client;
  let one: TestServer;
  let startOther: () => Promise<TestServer>;
  /** Whether the first server cannot renew the leases of its tasks. */
  let isCutOff = false;
  let taskId = '';
  let target = '';
  let run = Promise.withResolvers<void>();
  let computed = Promise.withResolvers<void>();
  let ended = Promise.withResolvers<void>();

  const injectStore: FaultInjector = ({ sql: statement, parameters }) => {
    if (isCutOff && statement.startsWith('update "tasks" set "lease_until"')) throw new Error('cut off');
    // The end of a run is saved.
    if (/"progress_text" = \$\d+, "state"/.test(statement) && parameters.includes(taskId)) ended.resolve();
  };
  const held = (engine: EngineWarehouse): EngineWarehouse =>
    engineWith(engine, {
      async execute(...[statement, options]: Parameters<EngineWarehouse['execute']>) {
        const result = await engine.execute(statement, options);
        if (!statement.sql.includes('generateUUIDv4')) return result;
        computed.resolve();
        await run.promise;
        return result;
      },
      async snapshot(...options: Parameters<EngineWarehouse['snapshot']>) {
        const snapshot = await engine.snapshot(...options);
        const write: Snapshot['write'] = async (...part) => {
          const rows = await snapshot.write(...part);
          computed.resolve();
          await run.promise;
          return rows;
        };
        return new Proxy(snapshot, {
          get: (target, key) => {
            if (key === 'write') return write;
            const value: unknown = Reflect.get(target, key, target);
            return typeof value === 'function' ? value.bind(target) : value;
          },
        });
      },
    });
  const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => held(engine.open(options)) });

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tabularium-lost-runs-'));
    [ring, s3] = await Promise.all([startRing(1), startObjectStore()]);
    const url = urlOfDatabase(await newStoreDatabase());
    store = new Client(url);
    await store.connect();
    const { endpoint, bucket, accessKeyId, secretAccessKey } = s3;
    const fileStore = {
      fileStore: `s3://${bucket}/shop`,
      fileStoreEndpoint: endpoint,
      fileStoreAccessKeyId: accessKeyId,
      fileStoreSecretAccessKey: secretAccessKey,
    };
    const settings = { ...clusterSettings, ...fileStore, store: url, exportHosts: '127.0.0.1' };
    one = await start({ ...settings, dataDir: join(directory, 'one') }, { injectStore, wrapEngine });
    const secretKeyFile = join(directory, 'one', 'secret.key');
    startOther = () => start({ ...settings, dataDir: join(directory, 'other'), secretKeyFile });
    await registerAll(one, 'cluster', ring, clusters.copies);
    (await one.post('/api/v2/catalogs', { name: 'lake', warehouse: 'cluster' })).is(201);
    (await one.post(`${lake}/databases`, { name: 'd' })).is(201);
    (await one.post(`${lake}/databases/d/tables`, { name: 't', columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
    (await one.post(rowsOfTable, { rows: [[1]] })).is(201);
  });
  after(async () => {
    await one?.close();
    await store?.end();
    await s3?.close();
    await ring?.close();
    await rm(directory, { recursive: true, force: true });
  });

  async function filesInStore(folder: string): Promise<string[]> {
    const bucket = await openTestBucket(s3);
    try {
      const keys = (await Array.fromAsync(bucket.list(`${folder}/`))).map(({ key }) => key);
      const stored = keys.map(async (key) => `${key.split('/').at(-1)} ${digestOf(await bucket.readSmall(key, 1e9))}`);
      return await Promise.all(stored);
    } finally {
      bucket.close();
    }
  }
  const s3Target = (prefix: string) => {
    const { endpoint, bucket, accessKeyId, secretAccessKey } = s3;
    return { s3: { endpoint, bucket, prefix, accessKeyId, secretAccessKey } };
  };
  async function downloads(task: Reply, server: TestServer): Promise<string[]> {
    const files = (await server.get(task.at('uri'))).at<LinkedFile[]>('result', 'files');
    const fetched = files.map(async ({ name, link }) => {
      const response = await fetch(new URL(link, server.url));
      assert.equal(response.status, 200);
      return `${name} ${digestOf(Buffer.from(await response.arrayBuffer()))}`;
    });
    return Promise.all(fetched);
  }
  const inManifest = (task: Reply): string[] =>
    task.at<LinkedFile[]>('result', 'files').map(({ name, sha256 }) => `${name} ${sha256}`);
  const countOf = async (table: string): Promise<number> =>
    (await store.query(`select count(*)::int as n from ${table} where task_id = $1`, [taskId])).rows[0].n;

  interface Kind {
    submit(): Promise<Reply>;
    /** Called while the first server runs the task. */
    meanwhile?(): Promise<unknown>;
    verify(task: Reply, server: TestServer): Promise<void>;
  }
  const kinds: Record<string, Kind> = {
    'an export to an object store': {
      submit: () => one.post(`${lake}/export`, { sql, format: 'parquet', to: s3Target('out') }),
      verify: async (task) => {
        const files = await filesInStore(`out/${task.at('taskId')}`);
        assert.deepEqual(
          files.filter((file) => !file.startsWith('manifest.json')),
          inManifest(task),
        );
      },
    },
    'a backup': {
      submit: () => {
        // In a target of its own, so that it has files to write.
        target = randomUUID();
        return one.post(`${lake}/backup`, { to: s3Target(target) });
      },
      meanwhile: async () => (await one.post(rowsOfTable, { rows: [[2]] })).is(201),
      verify: async (task) => {
        const files = await filesInStore(`${target}/backups/${task.at('taskId')}`);
        assert.ok(files.some((file) => file.startsWith('manifest.json')));
        assert.ok(files.length >= 2);
        first ??= files.join();
        assert.equal(files.join(), first);
      },
    },
    'an export to download': {
      submit: () => one.post(`${lake}/export`, { sql, format: 'parquet' }),
      verify: async (task, server) => {
        assert.deepEqual(await downloads(task, server), inManifest(task));
        // With the manifest.
        assert.equal(await countOf('files'), inManifest(task).length + 1);
      },
    },
    'a query': {
      submit: () => one.post(`${lake}/query`, { sql, waitSeconds: 0 }),
      verify: async (task, server) => {
        const page = (await server.get(task.at('firstPage'))).is(200);
        const digest = digestOf(Buffer.from(page.text));
        first ??= digest;
        assert.equal(digest, first);
      },
    },
  };
  let first: string | undefined;

  for (const [name, { submit, meanwhile, verify }] of Object.entries(kinds))
    for (const fails of [false, true])
      test(`${name}: the run ${fails ? 'fails' : 'succeeds'}`, async (t) => {
        first = undefined;
        run = Promise.withResolvers();
        computed = Promise.withResolvers();
        ended = Promise.withResolvers();
        run.promise.catch(() => undefined);
        const accepted = (await submit()).is(202);
        taskId = accepted.at('taskId');
        await computed.promise;
        await meanwhile?.();
        isCutOff = true;
        await store.query('update tasks set leased_by = null, lease_until = null where task_id = $1', [taskId]);
        const other = await startOther();
        t.after(() => other.close());
        const task = (await endOfTask(other, accepted.at('uri'))).is(200, '0', { state: 'succeeded' });
        await verify(task, other);
        if (fails) run.reject(new Error('the engine fails'));
        else run.resolve();
        await ended.promise;
        isCutOff = false;
        const later = (await other.get(accepted.at('uri'))).is(200, '0', { state: 'succeeded' });
        assert.deepEqual(later.at('result', 'queryId'), task.at('result', 'queryId'));
        await verify(task, other);
      });

  test('rows that waited are not inserted unless the server knows which table has the name now', async () => {
    [run, computed] = [Promise.withResolvers(), Promise.withResolvers()];
    (await one.patch('/api/v2/warehouses/cluster', { queriesMax: 1 })).is(200);
    const long = one.post(`${lake}/query`, { sql, waitSeconds: 60 });
    await computed.promise;
    const waiting = one.post(rowsOfTable, { rows: [[9]] });
    await eventually('they wait', async () => (await one.get('/api/v2/warehouses/cluster')).at('queuedQueries') === 1);
    await store.query('begin');
    try {
      await store.query('lock table changes in access exclusive mode');
      run.resolve();
      (await waiting).is(503, 'STORE_UNAVAILABLE');
    } finally {
      await store.query('rollback');
    }
    await long;
  });
});
