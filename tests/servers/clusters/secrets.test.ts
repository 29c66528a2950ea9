// The password of a cluster: planted in every place that takes it, and then searched for in the answers, the log at its most verbose level, the
// metrics, the audit trail and all files.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { type Reply, type ServerProcess, startProcess } from '../../server.ts';
import { availabilityIs, backendsOf, warehouses } from './cluster_server.ts';

const plant = () => `planted${randomBytes(16).toString('hex')}`;
const user = 'loader';
/** Of the user of the cluster, from the beginning. */
const password = plant();
const refused = plant();
const wrongType = plant();
const inUrl = plant();
const misspelt = plant();

const settingsOf = (secret: string) => `<password>${secret}</password><profile>default</profile><quota>default</quota>
  <networks><ip>127.0.0.1</ip></networks>`;
const usersFile = `<clickhouse>
  <profiles><default/></profiles><quotas><default/></quotas>
  <users><default>${settingsOf('')}</default><${user}>${settingsOf(password)}</${user}></users>
</clickhouse>`;

/** Each text, also as it may be sent in a header or a URL. */
const planted = [password, refused, wrongType, inUrl, misspelt].flatMap((text) => [
  text,
  Buffer.from(text).toString('base64'),
  Buffer.from(`${user}:${text}`).toString('base64'),
]);

function assertNone(text: string, source: string): void {
  for (const secret of planted) {
    const position = text.indexOf(secret);
    if (position >= 0) assert.fail(`${source}: ${text.slice(Math.max(position - 200, 0), position + 80)}`);
  }
}

describe('the password of a cluster', { skip: missingRing }, () => {
  let ring: Ring;
  let server: ServerProcess;
  let output = '';
  const answers: Reply[] = [];

  before(async () => {
    [ring, server] = await Promise.all([
      startRing(1, {
        files: {
          'config.d/users.xml': '<clickhouse><users_config>users.xml</users_config></clickhouse>',
          'users.xml': usersFile,
        },
      }),
      startProcess(['--log-level=trace', '--cluster-hosts=127.0.0.1']),
    ]);
    for (const stream of [server.child.stdout, server.child.stderr])
      stream?.on('data', (chunk: Buffer) => {
        output += chunk;
      });
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  async function ask(method: string, path: string, body?: unknown, key?: string): Promise<Reply> {
    const headers = key === undefined ? {} : { 'x-service-idempotency-key': key };
    const reply = await server.request(method, path, { body, headers });
    answers.push(reply);
    return reply;
  }

  const location = () => {
    const [node] = ring.nodes;
    assert.ok(node);
    return node.url;
  };

  test('it is used to connect, and in no answer', async () => {
    const body = { name: 'cluster', engine: 'clickhouse', cluster: clusters.copies, user, password: refused };
    for (const repeat of ['first', 'repeated']) {
      const created = await ask('POST', warehouses, body, 'create-the-warehouse');
      assert.equal(created.is(201).at('user'), user, repeat);
    }
    const path = `${warehouses}/cluster`;
    const backend = { name: 'node1', location: location() };
    (await ask('POST', backendsOf('cluster'), backend)).is(400, 'BACKEND_UNSUITABLE', { reason: 'credentials' });
    (await ask('PATCH', path, { password: [wrongType] })).is(400, 'INVALID_PARAMETER');
    (await ask('PATCH', path, { passwrod: misspelt })).is(400, 'UNKNOWN_FIELD');
    const url = location().replace('http://', `http://${user}:${inUrl}@`);
    (await ask('POST', backendsOf('cluster'), { name: 'node1', location: url })).is(400, 'INVALID_PARAMETER');
    for (let repeat = 0; repeat < 2; repeat++)
      (await ask('PATCH', path, { password }, 'change-the-password')).is(200, '0', { user, version: 2 });
    (await ask('POST', backendsOf('cluster'), backend)).is(201, '0', { availability: 'available' });
    await availabilityIs(server, 'cluster', ['node1'], 'available');
    (await ask('POST', '/api/v2/catalogs', { name: 'sales', warehouse: 'cluster' })).is(201);
    (await ask('PUT', '/api/v2/catalogs/sales/databases/shop')).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await ask('POST', '/api/v2/catalogs/sales/databases/shop/tables', { name: 'orders', columns })).is(201);
    const query = '/api/v2/catalogs/sales/databases/shop/query';
    (await ask('POST', query, { sql: 'SELECT count(*) FROM orders' })).is(200, '0', { rows: [[0]] });
    (await ask('PATCH', path, { user: 'nobody' })).is(200);
    const lost = await ask('POST', query, { sql: 'SELECT sum(id) FROM orders' });
    assert.ok(lost.status === 200 || lost.status === 503, lost.text);
    for (const read of [path, warehouses, backendsOf('cluster'), '/api/v2/queries']) await ask('GET', read);
    for (const { request, text, headers } of answers) assertNone(`${text} ${JSON.stringify(headers)}`, request);
  });

  test('it is not in the metrics and the audit trail', async () => {
    assertNone((await server.send('GET', '/metrics')).text, 'the metrics');
    const trail = await server.post('/api/v2/audit_events/search', { pageSize: 1000 });
    assert.equal(trail.is(200).at('nextPageToken'), undefined, 'the trail is longer than a page');
    assert.match(trail.text, /warehouses\.update/);
    assertNone(trail.text, 'the audit trail');
  });

  test('it is not in the log or a file, in clear', async () => {
    server.child.kill('SIGTERM');
    await server.exited;
    assert.match(output, /"endpoint":"warehouses\.update"/);
    assertNone(output, 'the log');
    const files = readdirSync(server.dataDirectory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
    const store = files.find((file) => file.endsWith('metadata.sqlite'));
    assert.ok(store);
    assert.match(readFileSync(store, 'latin1'), new RegExp(user), 'the store is searchable as text');
    for (const file of files) assertNone(readFileSync(file, 'latin1'), file);
  });
});
