// A server that is cut off from the store while it runs an export or a query, and continues after another server has completed the task:
// what the other one has stored remains as it is, whether the run of the first succeeds or fails.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { FaultInjector } from '../../../src/store/store.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { openTestBucket } from '../../file_stores.ts';
import { type ObjectStoreServer, startObjectStore } from '../../outbound/object_store_server.ts';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../../postgresql.ts';
import { endOfTask, type Reply, start, type TestServer } from '../../server.ts';
import { clusterSettings, registerAll } from './cluster_server.ts';

/** Each run has other rows. */
const sql = 'SELECT generateUUIDv4(number) AS id FROM numbers(20000)';
const lake = '/api/v2/catalogs/lake';

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
  });
  after(async () => {
    await one?.close();
    await store?.end();
    await s3?.close();
    await ring?.close();
    await rm(directory, { recursive: true, force: true });
  });

  async function filesInStore(task: Reply): Promise<string[]> {
    const bucket = await openTestBucket(s3);
    try {
      const keys = (await Array.fromAsync(bucket.list(`out/${task.at('taskId')}/`))).map(({ key }) => key);
      const stored = keys.map(async (key) => `${key.split('/').at(-1)} ${digestOf(await bucket.readSmall(key, 1e9))}`);
      return (await Promise.all(stored)).filter((file) => !file.startsWith('manifest.json'));
    } finally {
      bucket.close();
    }
  }
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

  const kinds: Record<string, { submit(): Promise<Reply>; verify(task: Reply, server: TestServer): Promise<void> }> = {
    'an export to an object store': {
      submit: () => {
        const { endpoint, bucket, accessKeyId, secretAccessKey } = s3;
        const to = { s3: { endpoint, bucket, prefix: 'out', accessKeyId, secretAccessKey } };
        return one.post(`${lake}/export`, { sql, format: 'parquet', to });
      },
      verify: async (task) => assert.deepEqual(await filesInStore(task), inManifest(task)),
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

  for (const [name, { submit, verify }] of Object.entries(kinds))
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
});
