// The keys of issuers: fetched in advance, refreshed when they change, not fetched whenever an unauthenticated caller wants,
// retained while an issuer is unavailable; and issuers with invalid responses.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { exportJWK } from 'jose';
import { type IdentityProvider, Oidc, type OidcOptions } from '../../src/access/authentication/oidc.ts';
import { secureUrl } from '../../src/access/authentication/oidc_keys.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { HostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { guardedFetch } from '../../src/outbound/http_client.ts';
import { eventually } from '../deadline.ts';
import { type IssuerKey, makeKey, TokenIssuer } from './token_issuer.ts';

const notValid = { name: 'Failure', code: 'UNAUTHENTICATED', message: 'the token is not valid' };
const unavailable = { name: 'Failure', code: 'IDENTITY_PROVIDER_UNAVAILABLE' };
const hour = 3_600_000;

/** A new server for each test, because connections to the previous one may be reused. */
let issuer: TokenIssuer;
let signingKey: IssuerKey;
let secondKey: IssuerKey;
let now = 0;
const open = new Set<Oidc>();

before(async () => {
  signingKey = await makeKey('ES256', 'one');
  secondKey = await makeKey('ES256', 'two');
});
beforeEach(async () => {
  issuer = await new TokenIssuer().start();
  issuer.keys = [signingKey.jwk];
  now = Date.now();
});
afterEach(async () => {
  for (const oidc of open) oidc.close();
  open.clear();
  await issuer.stop();
});

const provider = (rest: Partial<IdentityProvider> = {}): IdentityProvider => ({
  id: 'p1',
  name: 'company',
  issuer: issuer.url,
  audiences: ['tabularium'],
  algorithms: ['ES256'],
  userClaim: 'sub',
  disabled: false,
  ...rest,
});

function oidcWith(rest: Partial<IdentityProvider> = {}, options: Partial<OidcOptions> = {}): Oidc {
  const oidc = new Oidc({
    fetch: guardedFetch(new HostAllowlist(['127.0.0.1'])),
    observe: () => {},
    clock: () => now,
    ...options,
  });
  open.add(oidc);
  oidc.setProviders([provider(rest)]);
  return oidc;
}

const token = (key: IssuerKey, claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}) =>
  issuer.token(key, claims, header, now);

const fetchCounts = (oidc: Oidc) =>
  eventually('keys', () => oidc.status('p1').keysFetchedAt !== undefined || oidc.status('p1').error !== undefined);

describe('keys', () => {
  it('are fetched once, before the first token arrives', async () => {
    const oidc = oidcWith();
    await fetchCounts(oidc);
    assert.deepEqual(oidc.status('p1'), { keysFetchedAt: now, error: undefined });
    const tokens = await Promise.all(Array.from({ length: 20 }, (_, i) => token(signingKey, { sub: `user ${i}` })));
    await Promise.all(tokens.map((candidate) => oidc.verify(candidate)));
    assert.deepEqual([issuer.discoveryRequests, issuer.keyRequests], [1, 1]);
    assert.deepEqual(oidc.status('another'), { keysFetchedAt: undefined, error: undefined });
  });

  it('are fetched from the address of the provider, without discovery', async () => {
    const oidc = oidcWith({ issuer: 'https://login.invalid/realm', jwksUri: issuer.jwksUri });
    assert.ok(await oidc.verify(await token(signingKey, { iss: 'https://login.invalid/realm' })));
    assert.deepEqual([issuer.discoveryRequests, issuer.keyRequests], [0, 1]);
  });

  it('are retained when other fields of the provider change, and dropped with the provider', async () => {
    const oidc = oidcWith();
    await fetchCounts(oidc);
    oidc.setProviders([provider({ audiences: ['another'] })]);
    await assert.rejects(oidc.verify(await token(signingKey)), notValid);
    assert.ok(await oidc.verify(await token(signingKey, { aud: 'another' })));
    assert.equal(issuer.keyRequests, 1);
    oidc.setProviders([]);
    assert.deepEqual(oidc.status('p1'), { keysFetchedAt: undefined, error: undefined });
  });

  it('are refreshed periodically, also after a failure', async () => {
    const changes: number[] = [];
    const oidc = oidcWith(
      {},
      { limits: { refreshMs: 5, backgroundRetryMs: 5 }, changed: () => void changes.push(issuer.keyRequests) },
    );
    await eventually('three fetches', () => issuer.keyRequests >= 3);
    assert.deepEqual(changes, []);
    issuer.answerKeys = (response) => response.writeHead(500).end();
    await eventually('a failure', () => oidc.status('p1').error !== undefined);
    assert.equal(oidc.status('p1').error, 'it returned status 500');
    issuer.answerKeys = undefined;
    await eventually('recovery', () => oidc.status('p1').error === undefined);
    const validToken = await token(signingKey);
    assert.ok(await oidc.verify(validToken));
    assert.ok(oidc.cached(validToken));
    issuer.keys = [secondKey.jwk];
    await eventually('a change', () => changes.length > 0);
    assert.equal(oidc.cached(validToken), undefined, 'a token of a withdrawn key is not valid for long');
    await assert.rejects(oidc.verify(validToken), notValid);
    oidc.close();
    const requests = issuer.keyRequests;
    await sleep(50);
    assert.ok(issuer.keyRequests <= requests + 1);
  });
});

describe('an unknown key', () => {
  it('is fetched at once if the issuer has changed its keys', async () => {
    let changes = 0;
    const oidc = oidcWith({}, { changed: () => void changes++ });
    await fetchCounts(oidc);
    issuer.keys = [signingKey.jwk, secondKey.jwk];
    assert.ok(await oidc.verify(await token(secondKey)));
    assert.ok(await oidc.verify(await token(signingKey)));
    assert.deepEqual([issuer.keyRequests, changes], [2, 1]);
  });

  it('is not fetched whenever an unauthenticated caller names one', async () => {
    const oidc = oidcWith();
    await fetchCounts(oidc);
    const sendUnknownKeys = async () => {
      const strangerTokens = await Promise.all(
        Array.from({ length: 100 }, (_, i) => token(secondKey, {}, { kid: `made up ${i}` })),
      );
      for (const token of strangerTokens.slice(0, 50)) await assert.rejects(oidc.verify(token), notValid);
      await Promise.all(strangerTokens.slice(50).map((candidate) => assert.rejects(oidc.verify(candidate), notValid)));
    };
    await sendUnknownKeys();
    assert.equal(issuer.keyRequests, 2);
    now += 29_999;
    await sendUnknownKeys();
    assert.equal(issuer.keyRequests, 2);
    now += 1;
    await sendUnknownKeys();
    assert.equal(issuer.keyRequests, 3);
    assert.ok(await oidc.verify(await token(signingKey)));
  });

  it('is not valid while the issuer is unavailable', async () => {
    const oidc = oidcWith();
    await fetchCounts(oidc);
    await issuer.stop();
    await assert.rejects(oidc.verify(await token(secondKey)), notValid);
    assert.ok(await oidc.verify(await token(signingKey)));
  });
});

describe('an issuer that is unavailable', () => {
  it('from the start makes its tokens wait for it, without a request for each token', async () => {
    await issuer.stop();
    let requests = 0;
    const counting: typeof fetch = (...given) => {
      requests++;
      return fetch(...given);
    };
    const oidc = oidcWith({}, { fetch: counting });
    await fetchCounts(oidc);
    const validToken = await token(signingKey);
    for (let i = 0; i < 20; i++) await assert.rejects(oidc.verify(validToken), unavailable);
    assert.equal(requests, 1);
    assert.deepEqual(oidc.status('p1'), { keysFetchedAt: undefined, error: 'it is not reachable' });
    await issuer.start();
    await assert.rejects(oidc.verify(validToken), unavailable);
    now += 5000;
    assert.ok(await oidc.verify(validToken));
    assert.deepEqual(oidc.status('p1'), { keysFetchedAt: now, error: undefined });
  });

  it('later leaves its keys valid for a day', async () => {
    const observations: Observation[] = [];
    const oidc = oidcWith({}, { observe: (o) => void observations.push(o) });
    await fetchCounts(oidc);
    const since = now;
    await issuer.stop();
    now = since + 24 * hour - 1;
    assert.ok(await oidc.verify(await token(signingKey)));
    now++;
    await assert.rejects(oidc.verify(await token(signingKey)), unavailable);
    assert.equal(oidc.status('p1').error, 'it is not reachable');
    assert.deepEqual(observations, [
      { kind: 'identityKeysFetched', provider: 'company', keys: 1 },
      { kind: 'identityKeysFailed', provider: 'company', reason: 'it is not reachable' },
    ]);
    await issuer.start();
    now += 5000;
    assert.ok(await oidc.verify(await token(signingKey)));
  });
});

describe('an issuer that answers with', () => {
  const send =
    (body: string | Buffer, status = 200) =>
    (response: ServerResponse) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  const cases: [string, (response: ServerResponse) => void, string][] = [
    ['an error', send('no', 503), 'it returned status 503'],
    ['no content', send('', 204), 'it returned status 204'],
    ['a page', send('<html>'), 'its response is not a JSON object'],
    ['null', send('null'), 'its response is not a JSON object'],
    ['no keys', send('{}'), 'its response is not a set of keys'],
    ['keys that are no list', send('{"keys": {"0": {}}}'), 'its response is not a set of keys'],
    ['too many keys', send(JSON.stringify({ keys: Array(101).fill({ kty: 'EC' }) })), 'it has more than 100 keys'],
    ['too much', send(Buffer.alloc(1024 * 1024 + 1, ' ')), 'its response is larger than 1048576 bytes'],
  ];
  for (const [description, answer, error] of cases)
    it(`${description} has no keys`, async () => {
      issuer.answerKeys = answer;
      const oidc = oidcWith();
      await fetchCounts(oidc);
      assert.deepEqual(oidc.status('p1'), { keysFetchedAt: undefined, error });
      await assert.rejects(oidc.verify(await token(signingKey)), unavailable);
    });

  it('a redirect is not followed', async () => {
    const other = await new TokenIssuer().start();
    other.keys = [signingKey.jwk];
    try {
      for (const status of [301, 302, 307, 308]) {
        issuer.answerKeys = (response) => response.writeHead(status, { location: other.jwksUri }).end();
        const oidc = oidcWith();
        await fetchCounts(oidc);
        assert.equal(oidc.status('p1').error, 'it redirects');
        await assert.rejects(oidc.verify(await token(signingKey)), unavailable);
      }
      assert.equal(other.keyRequests, 0);
    } finally {
      await other.stop();
    }
  });

  it('nothing, or with an endless response, is not waited for', async () => {
    for (const answer of [() => {}, (response: ServerResponse) => void response.writeHead(200).write('{')]) {
      issuer.answerKeys = answer;
      const oidc = oidcWith({}, { limits: { fetchMs: 50 } });
      await fetchCounts(oidc);
      assert.equal(oidc.status('p1').error, 'it did not respond in time');
      await assert.rejects(oidc.verify(await token(signingKey)), unavailable);
    }
  });

  it('keys that are not public, or none of a known type, has none of those', async () => {
    const secret = { kty: 'oct', kid: 'secret', k: 'AAAA', alg: 'HS256' };
    const publishedKey = { ...(await exportJWK(secondKey.privateKey)), kid: 'two', alg: 'ES256' };
    const strange = [{}, { kty: 7 }, { kty: 'XX', kid: 'one' }, null, 'key'];
    issuer.answerKeys = send(JSON.stringify({ keys: [...strange, secret, publishedKey, signingKey.jwk] }));
    const oidc = oidcWith();
    await fetchCounts(oidc);
    assert.equal(oidc.status('p1').error, undefined);
    assert.ok(await oidc.verify(await token(signingKey)));
    await assert.rejects(oidc.verify(await token(secondKey)), notValid);
  });

  const documents: [string, Record<string, unknown>, string][] = [
    [
      'the document of another issuer',
      { issuer: 'https://elsewhere.example.com' },
      'its discovery document is for another issuer',
    ],
    ['the document of no issuer', { issuer: null }, 'its discovery document is for another issuer'],
    ['a document without keys', { jwks_uri: 7 }, 'its discovery document has no jwks_uri'],
    ['keys over plain HTTP', { jwks_uri: 'http://keys.example.com/' }, 'its URL is not an https URL'],
    ['keys in a file', { jwks_uri: 'file:///etc/passwd' }, 'its URL is not an https URL'],
  ];
  for (const [description, discovery, error] of documents)
    it(`${description} is not trusted`, async () => {
      issuer.discovery = discovery;
      const oidc = oidcWith();
      await fetchCounts(oidc);
      assert.equal(oidc.status('p1').error, error);
      assert.equal(issuer.keyRequests, 0);
      await assert.rejects(oidc.verify(await token(signingKey)), unavailable);
    });

  it('keys on this machine, from elsewhere, is not trusted', async () => {
    const requestedUrls: string[] = [];
    const fetchElsewhere: typeof fetch = async (url) => {
      requestedUrls.push(String(url));
      return Response.json({ issuer: 'https://login.example.com/', jwks_uri: issuer.jwksUri });
    };
    const oidc = oidcWith({ issuer: 'https://login.example.com/' }, { fetch: fetchElsewhere });
    await fetchCounts(oidc);
    assert.equal(oidc.status('p1').error, 'its URL is not an https URL');
    assert.deepEqual(requestedUrls, ['https://login.example.com/.well-known/openid-configuration']);
  });
});

describe('an address', () => {
  for (const validUrl of [
    'https://login.example.com/a?b=c',
    'http://localhost:1/',
    'http://127.1.2.3/',
    'http://[::1]:8/x',
  ])
    it(`is accepted: ${validUrl}`, () => assert.equal(secureUrl(validUrl)?.href, validUrl));
  for (const invalidUrl of [
    '',
    'login.example.com',
    'http://login.example.com/',
    'http://localhost.example.com/',
    'http://127.0.0.1.example.com/',
    'http://10.0.0.1/',
    'ftp://localhost/',
    'https://user@login.example.com/',
    'https://:word@login.example.com/',
    'https://login.example.com/#a',
  ])
    it(`is refused: ${invalidUrl}`, () => assert.equal(secureUrl(invalidUrl), undefined));

  it('without TLS on another machine is never requested', async () => {
    let requests = 0;
    const oidc = oidcWith({ issuer: 'http://login.example.com' }, { fetch: () => Promise.reject(requests++) });
    await assert.rejects(oidc.verify(await token(signingKey, { iss: 'http://login.example.com' })), notValid);
    const named = oidcWith({ jwksUri: 'http://login.example.com/keys' }, { fetch: () => Promise.reject(requests++) });
    await assert.rejects(named.verify(await token(signingKey)), unavailable);
    assert.equal(requests, 0);
  });
});
