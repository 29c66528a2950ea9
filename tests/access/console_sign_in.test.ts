// Signing in to the console: a link that works once, on this machine, for a while; the code of an identity provider with PKCE; short-lived
// tokens; and no requests of pages of other sites.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { noTrail } from '../../src/access/audit/audit_log.ts';
import { linkLifetimeMs, SignInLinks } from '../../src/access/authentication/sign_in_links.ts';
import { Tokens } from '../../src/access/authentication/tokens.ts';
import { Directory } from '../../src/access/authorization/directory.ts';
import type { RunningServer } from '../../src/cli/serve.ts';
import { startServer } from '../../src/main.ts';
import { dayMs } from '../../src/model/durations.ts';
import { systemActor } from '../../src/model/principal.ts';
import { readSettings } from '../../src/settings/read_settings.ts';
import { ChangeFeed } from '../../src/store/changes/change_feed.ts';
import { deadlineMs } from '../deadline.ts';
import { TestServer } from '../server.ts';
import { newDirectory, withStore } from './sealed_store.ts';
import { authorizationCode, SignInProvider } from './sign_in_provider.ts';

const main = join(import.meta.dirname, '../../src/main.ts');
const provider = new SignInProvider();
let dataDir: string;
let running: RunningServer;
let server: TestServer;

async function open(): Promise<void> {
  const flags = ['--port', '0', '--data-dir', dataDir, '--log-level', 'silent', '--warehouse-threads', '2'];
  const reaching = { identityProviderHosts: '127.0.0.1', trustedProxies: '127.0.0.1', spareEngine: false };
  running = await startServer({ ...readSettings(flags, {}), ...reaching });
  server = new TestServer(running, () => running.close());
}

before(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'tabularium-sign-in-'));
  await provider.start();
  await open();
});
after(async () => {
  await server.close();
  await provider.stop();
  await rm(dataDir, { recursive: true, force: true });
});

const post = (body: unknown, headers: Record<string, string | undefined> = {}) =>
  server.request('POST', '/console/tokens', { body, headers: { authorization: undefined, ...headers } });
const linkOf = (url: string | undefined) => new URL(url as string).hash.replace('#sign_in=', '');
const newLink = () => linkOf(running.signInUrl());
const bearer = (secret: string) => ({ headers: { authorization: `Bearer ${secret}` } });

test('a link signs in as root, once, by a token that expires within a day and can be revoked', async () => {
  const link = newLink();
  const created = (await post({ link })).is(201, '0', { user: 'root' });
  const { secret, name, expiresAt } = created.result as Record<string, string>;
  assert.ok(Date.parse(expiresAt as string) - Date.now() <= 24 * 3_600_000);
  const user = { name: 'root', credential: 'token' };
  (await server.request('POST', '/api/v2/users/identify', { body: {}, ...bearer(secret as string) })).is(
    200,
    '0',
    user,
  );
  (await server.get(`/api/v2/users/root/tokens/${name}`)).is(200, '0', { expiresAt, state: 'active' });
  (await post({ link })).is(401, 'UNAUTHENTICATED');
  (await server.delete(created.at('uri'))).is(200, '0', { deleted: true });
  (await server.request('POST', '/api/v2/users/identify', { body: {}, ...bearer(secret as string) })).is(
    401,
    'UNAUTHENTICATED',
  );
  const events = (await server.post('/api/v2/audit_events/search', { action: 'tokens.create' })).is(200).text;
  assert.match(events, new RegExp(name as string));
  assert.ok(!events.includes(link) && !events.includes(secret as string), 'no secret is recorded');
});

test('a link expires', () => {
  let now = 1000;
  const links = new SignInLinks(() => now);
  const [early, late] = [links.create('root'), links.create('root')];
  now += linkLifetimeMs - 1;
  assert.equal(links.redeem(early), 'root');
  now += 1;
  assert.throws(() => links.redeem(late), { code: 'UNAUTHENTICATED' });
});

test('a link works only from this machine, and is not used up by an attempt from elsewhere', async () => {
  const link = newLink();
  for (const address of ['10.1.2.3', '192.168.0.2', '2001:db8::1', '::ffff:10.1.2.3'])
    (await post({ link }, { 'x-forwarded-for': address })).is(403, 'FORBIDDEN');
  (await post({ link })).is(201);
});

test('a link of an earlier start does not work', async () => {
  const link = newLink();
  await server.close();
  await open();
  (await post({ link })).is(401, 'UNAUTHENTICATED');
});

test('guesses are throttled', async () => {
  let refused = 0;
  for (let i = 0; i < 40; i++) {
    const reply = await post({ link: `guess ${i}` }, { 'x-forwarded-for': '127.9.9.9' });
    if (reply.code === 'RATE_LIMITED') refused++;
  }
  assert.ok(refused > 0, 'some of 40 guesses are refused');
});

test('requests of pages of other sites are refused, and those of no JSON', async () => {
  const link = newLink();
  const { host } = new URL(server.url);
  for (const headers of [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'http://evil.test' },
    { origin: 'null' },
  ])
    (await post({ link }, headers)).is(403, 'FORBIDDEN');
  (await post({ link }, { 'content-type': 'text/plain' })).is(415, 'UNSUPPORTED_MEDIA_TYPE');
  (await post({ link: 7 })).is(400, 'INVALID_PARAMETER');
  (await post({})).is(400, 'INVALID_PARAMETER');
  (await post('{"link"')).is(400, 'MALFORMED_JSON');
  (await server.request('GET', '/console/tokens')).is(405, 'METHOD_NOT_ALLOWED');
  const options = { body: 'x'.repeat(20_000), headers: { 'content-type': 'application/json' } };
  (await server.request('POST', '/console/tokens', options)).is(400, 'BODY_TOO_LARGE');
  (await post({ link }, { 'sec-fetch-site': 'same-origin', origin: `http://${host}` })).is(201);
});

test('credentials that a browser remembers are of no use to pages of other sites, with and without Sec-Fetch-Site', async () => {
  (await server.post('/api/v2/users', { name: 'ada', password: 'correct horse battery' })).is(201);
  const basic = `Basic ${Buffer.from('ada:correct horse battery').toString('base64')}`;
  const startSignIn = (headers: Record<string, string>) =>
    server.request('POST', '/api/v2/users/identify', { body: {}, headers: { authorization: basic, ...headers } });
  const { host } = new URL(server.url);
  (await startSignIn({ origin: 'http://evil.test' })).is(403, 'FORBIDDEN');
  (await startSignIn({ origin: `http://${host}` })).is(200);
  (await startSignIn({ 'sec-fetch-site': 'same-site', origin: `http://${host}` })).is(403, 'FORBIDDEN');
  // Browsers do not send tokens by themselves: a caller that sends one has it.
  const token = { authorization: `Bearer ${server.token}` };
  (await startSignIn({ ...token, origin: 'http://behind.test' })).is(200);
});

test('a 401 to a script of a page does not open the dialog of a browser', async () => {
  const challenge = async (headers: Record<string, string | undefined>) => {
    const reply = await server.request('GET', '/api/v2/catalogs', {
      headers: { authorization: undefined, ...headers },
    });
    return String(reply.is(401, 'UNAUTHENTICATED').headers['www-authenticate']);
  };
  for (const headers of [
    { 'sec-fetch-mode': 'cors' },
    { 'sec-fetch-mode': 'same-origin' },
    { 'x-requested-with': 'XMLHttpRequest' },
    { origin: server.url },
  ])
    assert.doesNotMatch(await challenge(headers), /Basic/, JSON.stringify(headers));
  for (const headers of [{}, { 'sec-fetch-mode': 'navigate' }, { authorization: 'Basic YTpi' }])
    assert.match(await challenge(headers), /Bearer.*Basic/, JSON.stringify(headers));
  assert.doesNotMatch(String((await post({ link: 'x' }, { origin: server.url })).headers['www-authenticate']), /Basic/);
});

const providerBody = () => ({
  name: 'company',
  issuer: provider.issuer.url,
  audiences: [provider.clientId],
  consoleClientId: provider.clientId,
  userClaim: 'preferred_username',
  rolesClaim: 'groups',
  roleMapping: { finance: 'analysts' },
  createUsers: true,
});
const methods = async () =>
  (await server.request('GET', '/console/sign_in_methods', { headers: { authorization: undefined } }))
    .is(200)
    .at<Record<string, string>[]>('identityProviders');
const redirectUri = 'http://127.0.0.1/console/sign_in';
async function signIn(change: object = {}) {
  const [method] = await methods();
  const code = await authorizationCode(method as Record<string, string>, redirectUri);
  return post({ identityProvider: 'company', ...code, ...change });
}

test('an identity provider signs its user in by code and PKCE, with the roles of its claims', async () => {
  provider.claims = { preferred_username: 'eva', groups: ['finance', 'others'] };
  (await server.put('/api/v2/roles/analysts')).is(201);
  assert.deepEqual(await methods(), []);
  const otherClient = { ...providerBody(), consoleClientId: 'another' };
  (await server.post('/api/v2/identity_providers', otherClient)).is(400, 'INVALID_PARAMETER');
  (await server.post('/api/v2/identity_providers', providerBody())).is(201);
  const [method] = await methods();
  assert.deepEqual(method, {
    name: 'company',
    issuer: provider.issuer.url,
    clientId: provider.clientId,
    authorizationEndpoint: `${provider.issuer.url}/authorize`,
    scope: 'openid profile email',
  });
  const created = (await signIn()).is(201, '0', { user: 'eva' });
  const secret = created.at<string>('secret');
  const identify = () => server.request('POST', '/api/v2/users/identify', { body: {}, ...bearer(secret) });
  (await identify()).is(200, '0', { name: 'eva', credential: 'token', roles: ['analysts'] });
  // The roles survive a restart, and end with their mapping.
  await server.close();
  await open();
  (await identify()).is(200, '0', { roles: ['analysts'] });
  (await server.patch('/api/v2/identity_providers/company', { roleMapping: { finance: null } })).is(200);
  (await identify()).is(200, '0', { roles: [] });
  (await server.patch('/api/v2/identity_providers/company', { disabled: true })).is(200);
  (await identify()).is(401, 'UNAUTHENTICATED');
  assert.deepEqual(await methods(), []);
  (
    await server.patch('/api/v2/identity_providers/company', { disabled: false, roleMapping: { finance: 'analysts' } })
  ).is(200);
  (await identify()).is(200, '0', { roles: ['analysts'] });
});

test('a code works once, with its verifier, redirect URI and nonce', async () => {
  for (const change of [{ codeVerifier: 'another' }, { redirectUri: 'http://evil.test/' }, { nonce: 'another' }])
    (await signIn(change)).is(401, 'UNAUTHENTICATED');
  const [method] = await methods();
  const code = {
    identityProvider: 'company',
    ...(await authorizationCode(method as Record<string, string>, redirectUri)),
  };
  (await post(code)).is(201);
  (await post(code)).is(401, 'UNAUTHENTICATED');
  (await post({ ...code, identityProvider: 'nobody' })).is(401, 'UNAUTHENTICATED');
});

test('a token for another audience is refused, and a provider that does not answer is a 503', async () => {
  provider.claims = { preferred_username: 'eva', aud: 'another' };
  (await signIn()).is(401, 'UNAUTHENTICATED');
  provider.claims = { preferred_username: 'eva' };
  provider.clientSecret = 'a secret of the client with 32 or more characters';
  (await signIn()).is(401, 'UNAUTHENTICATED');
  (await server.patch('/api/v2/identity_providers/company', { clientSecret: provider.clientSecret })).is(200);
  const [method] = await methods();
  const code = await authorizationCode(method as Record<string, string>, redirectUri);
  await provider.issuer.stop();
  (await post({ identityProvider: 'company', ...code })).is(503, 'IDENTITY_PROVIDER_UNAVAILABLE');
  await provider.issuer.start();
  (await signIn()).is(201, '0', { user: 'eva' });
});

test('tokens that expired a month ago are deleted', async () => {
  await withStore(newDirectory(), async (store) => {
    let now = Date.now();
    const directory = new Directory();
    await directory.load(store);
    const changes = await ChangeFeed.open({ store, serverId: 'test', observe: () => {} });
    changes.follow({ changed: (change) => directory.changed(change), reload: () => directory.reload(store) });
    const tokens = new Tokens({ store, changes, directory, trail: noTrail, observe: () => {}, clock: () => now });
    const names = async () => (await tokens.list('root', {})).map(({ name }) => name);
    for (const [name, expiresAt] of [['console', now + 1000] as const, ['lasting', undefined] as const])
      await tokens.create({ userId: 'root', name, scopes: undefined, expiresAt }, systemActor);
    now += 30 * dayMs;
    await tokens.sweep();
    assert.deepEqual(await names(), ['console', 'lasting'], 'an expired token is shown for a while');
    now += 1000;
    await tokens.sweep();
    assert.deepEqual(await names(), ['lasting']);
    assert.equal(directory.tokens.size, 1);
  });
});

test('`serve` prints the address of the console first, with a link that signs in', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-serve-'));
  const flags = ['--port=0', `--data-dir=${directory}`, '--log-level=error', '--warehouse-threads=2'];
  const child = spawn(process.execPath, [main, ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs(30_000));
  try {
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) if (lines.push(line) === 4) break;
    const signInUrl = /^ {2}open +(http:\/\/127\.0\.0\.1:\d+\/console\/#sign_in=\S+)$/.exec(lines[1] as string)?.[1];
    assert.ok(signInUrl, lines.join('\n'));
    const body = JSON.stringify({ link: linkOf(signInUrl) });
    const headers = { 'content-type': 'application/json' };
    const created = await fetch(new URL('/console/tokens', signInUrl), { method: 'POST', headers, body });
    assert.equal(created.status, 201);
  } finally {
    clearTimeout(timer);
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await exited;
    await rm(directory, { recursive: true, force: true });
  }
});
