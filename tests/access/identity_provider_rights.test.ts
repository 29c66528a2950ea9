// Identity providers through REST: who may let new users in, which hosts the server connects to, and that nothing about its network
// is revealed.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { after, before, test } from 'node:test';
import { eventually } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';

const path = '/api/v2/identity_providers';
const password = 'correct horse battery';
const headers = { authorization: `Basic ${Buffer.from(`ada:${password}`).toString('base64')}` };
let server: TestServer;

before(async () => {
  server = await start();
  await server.client.users.create({ name: 'ada', password });
  for (const privilege of ['create', 'read', 'alter'] as const)
    await server.client.users('ada').grants.create({ privilege, on: path });
});
after(() => server.close());

test('createUsers needs the right to create users', async () => {
  const ada = (method: string, to: string, body: object) => server.request(method, to, { body, headers });
  const provider = { name: 'company', issuer: 'https://one.invalid', audiences: ['x'], disabled: true };
  (await ada('POST', path, { ...provider, createUsers: true })).is(403, 'FORBIDDEN', { privilege: 'create' });
  (await ada('POST', path, provider)).is(201);
  (await ada('PATCH', `${path}/company`, { createUsers: true })).is(403, 'FORBIDDEN', { privilege: 'create' });
  await server.client.users('ada').grants.create({ privilege: 'create', on: '/api/v2/users' });
  (await ada('PATCH', `${path}/company`, { createUsers: true })).is(200, '0', { createUsers: true });
});

test('PATCH changes only the mapped values that it lists, and null removes one', async () => {
  for (const role of ['analysts', 'readers']) await server.client.roles.create({ name: role });
  const provider = { name: 'mapped', issuer: 'https://mapped.invalid', audiences: ['x'], disabled: true };
  const roleMapping = { finance: 'analysts', sales: 'readers' };
  (await server.post(path, { ...provider, roleMapping })).is(201, '0', { roleMapping });
  const patch = async (change: object, expected: object) => {
    const record = (await server.patch(`${path}/mapped`, { roleMapping: change })).is(200);
    assert.deepEqual(record.at('roleMapping'), expected);
  };
  await patch({ trade: 'readers' }, { ...roleMapping, trade: 'readers' });
  await patch({ finance: 'readers', sales: null }, { finance: 'readers', trade: 'readers' });
  await patch({ unknown: null }, { finance: 'readers', trade: 'readers' });
  const many = Object.fromEntries(Array.from({ length: 999 }, (_, n) => [`group ${n}`, 'readers']));
  (await server.patch(`${path}/mapped`, { roleMapping: many })).is(400, 'INVALID_PARAMETER');
  (await server.patch(`${path}/mapped`, { roleMapping: { trade: 'nobody' } })).is(400, 'INVALID_PARAMETER');
  await patch({}, { finance: 'readers', trade: 'readers' });
});

test('PATCH of the identity of a user changes the member that it lists', async () => {
  const provider = { name: 'of ann', issuer: 'https://ann.invalid', audiences: ['x'], disabled: true };
  (await server.post(path, provider)).is(201);
  const user = '/api/v2/users/ann';
  (await server.post('/api/v2/users', { name: 'ann' })).is(201);
  const incomplete = (await server.patch(user, { identity: { subject: 'a-1' } })).is(400, 'INVALID_PARAMETER');
  assert.match(incomplete.text, /\/identity\/provider/);
  const identity = { provider: 'of ann', subject: 'a-1' };
  (await server.patch(user, { identity })).is(200, '0', { identity });
  (await server.patch(user, { identity: { subject: 'a-2' } })).is(200, '0', {
    identity: { ...identity, subject: 'a-2' },
  });
  (await server.patch(user, { comment: 'Ann' })).is(200, '0', { identity: { ...identity, subject: 'a-2' } });
  (await server.patch(user, { identity: null })).is(200, '0', { identity: null });
});

test('an issuer on a host that is not allowed is refused, whether or not a server answers there', async () => {
  for (const issuer of ['https://10.1.2.3', 'https://[fd00::1]', 'http://localhost:1', 'https://elsewhere.test'])
    for (const field of ['issuer', 'jwksUri']) {
      const body = { name: 'p', issuer: 'https://two.invalid', audiences: ['x'], [field]: issuer };
      const reply = (await server.post(path, body)).is(400, 'INVALID_PARAMETER');
      assert.match(reply.text, /identityProviderHosts/);
    }
});

test('every reason why keys are unavailable has the same text', async () => {
  const errors = new Set<string>();
  const answering = createServer((_, response) => response.writeHead(404).end());
  const garbage = createTcpServer((socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
  const closedPort = createTcpServer();
  const servers = [answering, garbage, closedPort];
  for (const candidate of servers) await new Promise<void>((resolve) => candidate.listen(0, '127.0.0.1', resolve));
  const ports = servers.map((candidate) => (candidate.address() as AddressInfo).port);
  await new Promise((resolve) => closedPort.close(resolve));
  try {
    for (const [n, port] of ports.entries()) {
      const body = { name: `port ${n}`, issuer: `http://127.0.0.1:${port}`, audiences: ['x'] };
      const uri = (await server.post(path, body)).is(201).at<string>('uri');
      await eventually('an error', async () => {
        const error = (await server.get(uri)).at<string | null>('error');
        if (error !== null) errors.add(error);
        return error !== null;
      });
    }
  } finally {
    answering.close();
    garbage.close();
  }
  assert.equal(errors.size, 1, [...errors].join('; '));
});
