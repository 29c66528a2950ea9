// Tokens of identity providers: which are valid, what they contain, and every way in which a token can be invalid. See
// oidc_keys.test.ts for keys and unavailable issuers.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { exportSPKI, importJWK, type JWTPayload, SignJWT } from 'jose';
import { type IdentityProvider, Oidc, type OidcOptions } from '../../src/access/authentication/oidc.ts';
import { HostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { guardedFetch } from '../../src/outbound/http_client.ts';
import { Failure } from '../../src/standard/failure.ts';
import { type IssuerKey, makeKey, TokenIssuer } from './token_issuer.ts';

const issuer = new TokenIssuer();
const clientSecret = 'a secret of at least sixty-four characters, so that HS512 takes it too';
const keys = new Map<string, IssuerKey>();
const key = (alg: string): IssuerKey => keys.get(alg) as IssuerKey;
const open = new Set<Oidc>();

before(async () => {
  await issuer.start();
  for (const alg of ['RS256', 'PS384', 'ES256', 'ES512', 'EdDSA']) keys.set(alg, await makeKey(alg, `of ${alg}`));
  issuer.keys = [...keys.values()].map((key) => key.jwk);
});
after(async () => {
  for (const oidc of open) oidc.close();
  await issuer.stop();
});

const provider = (rest: Partial<IdentityProvider> = {}): IdentityProvider => ({
  id: 'p1',
  name: 'company',
  issuer: issuer.url,
  audiences: ['other', 'tabularium'],
  algorithms: ['RS256', 'PS384', 'ES256', 'ES512', 'EdDSA'],
  userClaim: 'sub',
  disabled: false,
  ...rest,
});

function oidcWith(rest: Partial<IdentityProvider> = {}, options: Partial<OidcOptions> = {}): Oidc {
  const oidc = new Oidc({ fetch: guardedFetch(new HostAllowlist(['127.0.0.1'])), observe: () => {}, ...options });
  open.add(oidc);
  oidc.setProviders([provider(rest)]);
  return oidc;
}

const refusal = (message = 'the token is not valid') => ({
  name: 'Failure',
  code: 'UNAUTHENTICATED',
  message,
  result: {},
});
const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const nowSeconds = () => Math.floor(Date.now() / 1000);

describe('a valid token', () => {
  for (const alg of ['RS256', 'PS384', 'ES256', 'ES512', 'EdDSA'])
    it(`of ${alg} identifies its subject and its expiry`, async () => {
      const exp = nowSeconds() + 300;
      const token = await issuer.token(key(alg), { exp, jti: 'id-1' });
      assert.deepEqual(await oidcWith().verify(token), {
        providerId: 'p1',
        issuer: issuer.url,
        subject: 'subject-1',
        userName: 'subject-1',
        roles: [],
        expiresAt: (exp + 30) * 1000,
        tokenId: 'id-1',
      });
    });

  for (const alg of ['HS256', 'HS512'])
    it(`of ${alg} needs the client secret`, async () => {
      const secret = new TextEncoder().encode(clientSecret);
      const claims = { iss: issuer.url, aud: 'tabularium', sub: 'x', exp: nowSeconds() + 60 };
      const token = await new SignJWT(claims).setProtectedHeader({ alg }).sign(secret);
      // Its keys are not fetched.
      const noFetch = { fetch: () => assert.fail('fetches') };
      assert.equal((await oidcWith({ algorithms: [alg], clientSecret }, noFetch).verify(token)).subject, 'x');
      await assert.rejects(oidcWith({ algorithms: [alg] }).verify(token), refusal());
      await assert.rejects(oidcWith({ algorithms: ['RS256'], clientSecret }).verify(token), refusal());
      await assert.rejects(oidcWith({ algorithms: [alg], clientSecret: `${clientSecret}x` }).verify(token), refusal());
    });

  it('can have several audiences, the type of an access token, and no time of issue', async () => {
    const token = await issuer.token(
      key('ES256'),
      { aud: ['a', 'tabularium'], iat: undefined as never },
      {
        typ: 'at+jwt',
      },
    );
    assert.equal((await oidcWith().verify(token)).subject, 'subject-1');
  });

  for (const typ of ['logout+jwt', 'application/secevent+jwt', 'dpop+jwt', '', 7])
    it(`of the type ${JSON.stringify(typ)} does not authenticate`, async () => {
      const token = await issuer.token(key('ES256'), {}, { typ });
      await assert.rejects(oidcWith().verify(token), refusal());
    });

  it('has a single text: a signature with other unused bits is another token', async () => {
    const token = await issuer.token(key('ES256'));
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const last = alphabet.indexOf(token.at(-1) as string);
    // 64 bytes end with two significant bits in the last group of six.
    const other = token.slice(0, -1) + alphabet[last ^ 1];
    assert.deepEqual(Buffer.from(other, 'base64url'), Buffer.from(token, 'base64url'));
    await assert.rejects(oidcWith().verify(other), refusal());
  });

  it('need not name its key', async () => {
    const second = await makeKey('ES256', 'a second');
    const before = issuer.keys;
    issuer.keys = [second.jwk, ...before];
    try {
      const oidc = oidcWith();
      for (const signingKey of [second, key('ES256')])
        assert.ok(await oidc.verify(await issuer.token(signingKey, {}, { kid: undefined })));
      const stranger = await makeKey('ES256', 'a stranger');
      await assert.rejects(oidc.verify(await issuer.token(stranger, {}, { kid: undefined })), refusal());
      const expiredToken = await issuer.token(second, { exp: nowSeconds() - 60 }, { kid: undefined });
      await assert.rejects(oidc.verify(expiredToken), refusal('the token is not valid: it has expired'));
    } finally {
      issuer.keys = before;
    }
  });

  it('is verified from the cache until it expires or providers change', async () => {
    let now = Date.now();
    const oidc = oidcWith({}, { clock: () => now });
    const exp = Math.floor(now / 1000) + 100;
    const token = await issuer.token(key('RS256'), { exp });
    assert.equal(oidc.cached(token), undefined);
    const verified = await oidc.verify(token);
    assert.equal(oidc.cached(token), verified);
    assert.equal(oidc.cached(`${token}x`), undefined);
    oidc.setProviders([provider({ disabled: true })]);
    assert.equal(oidc.cached(token), undefined);
    await assert.rejects(oidc.verify(token), refusal('the token is not valid: its issuer is unknown'));
    oidc.setProviders([provider()]);
    assert.ok(await oidc.verify(token));
    now = (exp + 30) * 1000 - 1;
    assert.ok(oidc.cached(token));
    assert.ok(await oidc.verify(token));
    now++;
    assert.equal(oidc.cached(token), undefined);
    await assert.rejects(oidc.verify(token), refusal('the token is not valid: it has expired'));
  });
});

describe('claims', () => {
  const rolesClaim = 'realm_access.roles';
  const roleMapping = { finance: 'analysts', sales: 'readers', trade: 'readers' };
  const rolesOf = async (claims: JWTPayload, rest: Partial<IdentityProvider> = {}) =>
    (await oidcWith({ rolesClaim, roleMapping, ...rest }).verify(await issuer.token(key('ES256'), claims))).roles;

  it('give the roles that they are mapped to, each once, and no others', async () => {
    const roles = ['sales', 'trade', 'root', 'finance', '__proto__', 'constructor', 7, null, ['finance']];
    assert.deepEqual(await rolesOf({ realm_access: { roles } }), ['readers', 'analysts']);
    assert.deepEqual(await rolesOf({ realm_access: { roles: 'finance' } }), ['analysts']);
    assert.deepEqual(await rolesOf({ realm_access: { roles: ['nothing'] } }), []);
  });

  it('can be named with dots', async () => {
    const name = 'https://example.com/roles';
    assert.deepEqual(await rolesOf({ [name]: ['sales'] }, { rolesClaim: name }), ['readers']);
  });

  it('that are missing or of another type give no roles', async () => {
    for (const claims of [{}, { realm_access: null }, { realm_access: 'roles' }, { realm_access: { roles: {} } }])
      assert.deepEqual(await rolesOf(claims as JWTPayload), []);
    assert.deepEqual(await rolesOf({ toString: 'finance' } as JWTPayload, { rolesClaim: 'toString.name' }), []);
  });

  it('name the user', async () => {
    const signInNamed = async (claims: JWTPayload, userClaim: string) =>
      (await oidcWith({ userClaim }).verify(await issuer.token(key('ES256'), claims))).userName;
    // Valid for a user that is known by its subject, although it contains no name.
    assert.equal(await signInNamed({ email: 'ada@example.com' }, 'email'), undefined);
    assert.equal(await signInNamed({ user: { name: 'ada' } }, 'user.name'), 'ada');
    const email = 'ada@example.com';
    assert.equal(await signInNamed({ email, email_verified: true }, 'email'), email);
    for (const email_verified of [false, 'false', 0, null, {}])
      await assert.rejects(signInNamed({ email, email_verified }, 'email'), refusal(), JSON.stringify(email_verified));
    assert.equal(await signInNamed({ sub: 'ada', email, email_verified: false }, 'sub'), 'ada');
    for (const email of [undefined, '', '  ', 7, null, ['a'], 'x'.repeat(513), 'a\ud800'])
      await assert.rejects(
        signInNamed({ email, email_verified: true } as JWTPayload, 'email'),
        refusal(),
        JSON.stringify(email),
      );
  });
});

describe('a token is refused', () => {
  const expired = 'the token is not valid: it has expired';
  const unknown = 'the token is not valid: its issuer is unknown';
  const now = nowSeconds();
  const cases: [string, Record<string, unknown>, string?][] = [
    ['that has expired', { exp: now - 31 }, expired],
    ['that does not expire', { exp: undefined }],
    ['that reports a logout', { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }],
    ['that is a refresh token', { typ: 'Refresh' }],
    ['whose end is no number', { exp: '2100-01-01' }],
    ['that is not valid yet', { nbf: now + 60 }],
    ['that was issued in the future', { iat: now + 60 }],
    ['whose time of issue is no number', { iat: 'now' }],
    ['for somebody else', { aud: 'another' }],
    ['for nobody', { aud: undefined }],
    ['of an issuer that is not known', { iss: 'https://elsewhere.example.com' }, unknown],
    ['of an issuer with a slash more', { iss: 'SLASH' }, unknown],
    ['of no issuer', { iss: undefined }, unknown],
    ['of several issuers', { iss: ['a'] }, unknown],
    ['without a subject', { sub: undefined }],
    ['with an empty subject', { sub: '' }],
    ['with a subject that is no text', { sub: 7 }],
  ];
  for (const [description, claims, message] of cases)
    it(description, async () => {
      const sent = claims.iss === 'SLASH' ? { iss: `${issuer.url}/` } : claims;
      const token = await issuer.token(key('ES256'), sent as JWTPayload);
      await assert.rejects(oidcWith().verify(token), refusal(message));
    });

  it('not for a clock that is off by half a minute', async () => {
    for (const claims of [{ exp: nowSeconds() - 20 }, { nbf: nowSeconds() + 20 }, { iat: nowSeconds() + 20 }])
      assert.ok(await oidcWith().verify(await issuer.token(key('ES256'), claims)));
  });

  it('that is older than its provider allows', async () => {
    const oidc = oidcWith({ maxTokenAgeSeconds: 100 });
    assert.ok(await oidc.verify(await issuer.token(key('ES256'), { iat: nowSeconds() - 90 })));
    for (const iat of [nowSeconds() - 140, undefined])
      await assert.rejects(oidc.verify(await issuer.token(key('ES256'), { iat } as JWTPayload)), {
        code: 'UNAUTHENTICATED',
      });
  });

  it('whose algorithm is not allowed', async () => {
    const token = await issuer.token(key('RS256'));
    await assert.rejects(oidcWith({ algorithms: ['ES256', 'PS256'] }).verify(token), refusal());
    for (const algorithms of [[], ['none'], ['toString']])
      await assert.rejects(oidcWith({ algorithms }).verify(token), refusal());
  });

  it('that is not signed', async () => {
    const claims = base64url({ iss: issuer.url, aud: 'tabularium', sub: 'x', exp: nowSeconds() + 60 });
    for (const alg of ['none', 'None', 'NONE', '', undefined, 'RS256', 'HS256']) {
      const token = `${base64url({ alg, kid: 'of RS256' })}.${claims}.`;
      await assert.rejects(oidcWith({ algorithms: ['none', 'RS256', 'HS256'] }).verify(token), refusal(), String(alg));
    }
  });

  it('that uses the public key as a secret', async () => {
    const head = `${base64url({ alg: 'HS256', kid: 'of RS256' })}.${base64url({ iss: issuer.url, aud: 'tabularium', sub: 'x', exp: nowSeconds() + 60 })}`;
    const rsa = await importJWK(key('RS256').jwk, 'RS256', { extractable: true });
    const pem = await exportSPKI(rsa as CryptoKey);
    for (const secret of [pem, pem.trim(), JSON.stringify(key('RS256').jwk), key('RS256').jwk.n ?? '', '', 'undefined'])
      for (const options of [{}, { clientSecret }, { clientSecret: 'short' }]) {
        const token = `${head}.${createHmac('sha256', secret).update(head).digest('base64url')}`;
        await assert.rejects(oidcWith({ algorithms: ['RS256', 'HS256'], ...options }).verify(token), refusal());
      }
  });

  it('that contains its key', async () => {
    const ownKey = await makeKey('ES256', 'of ES256');
    const headers = [
      { jwk: ownKey.jwk },
      { jwk: ownKey.jwk, kid: undefined },
      { jku: 'http://127.0.0.1:1/keys' },
      { x5u: 'http://127.0.0.1:1/chain' },
      { x5c: ['MIIB'] },
    ];
    for (const header of headers)
      await assert.rejects(
        oidcWith().verify(await issuer.token(ownKey, {}, header)),
        refusal(),
        JSON.stringify(header),
      );
  });

  it('that requires an unknown critical extension', async () => {
    const [head = '', claims, signature] = (await issuer.token(key('ES256'))).split('.');
    const header = JSON.parse(Buffer.from(head, 'base64url').toString());
    for (const crit of [['b64'], ['exp'], [], 'exp', null])
      await assert.rejects(
        oidcWith().verify(`${base64url({ ...header, crit, b64: true, exp: 1 })}.${claims}.${signature}`),
        refusal(),
      );
    const signed = await new SignJWT({ iss: issuer.url, aud: 'tabularium', sub: 'x', exp: nowSeconds() + 60 })
      .setProtectedHeader({ alg: 'ES256', kid: 'of ES256', crit: ['b64'], b64: true })
      .sign(key('ES256').privateKey);
    await assert.rejects(oidcWith().verify(signed), refusal());
  });

  it('with a changed bit', async () => {
    const oidc = oidcWith();
    const token = await issuer.token(key('ES256'));
    const signature = Buffer.from(token.split('.')[2] ?? '', 'base64url');
    for (let index = 0; index < signature.length; index++) {
      const changedSignature = Buffer.from(signature);
      changedSignature[index] = (changedSignature[index] ?? 0) ^ 1;
      const forged = [...token.split('.').slice(0, 2), changedSignature.toString('base64url')].join('.');
      await assert.rejects(oidc.verify(forged), refusal());
    }
    const [head, , tail] = token.split('.');
    const other = base64url({ iss: issuer.url, aud: 'tabularium', sub: 'root', exp: nowSeconds() + 600 });
    await assert.rejects(oidc.verify(`${head}.${other}.${tail}`), refusal());
  });

  it('that is very long', async () => {
    const token = await issuer.token(key('ES256'), { more: 'x'.repeat(16_384) });
    const oidc = oidcWith();
    await assert.rejects(oidc.verify(token), refusal());
    assert.equal(oidc.cached(token), undefined);
  });

  it('that is malformed', async () => {
    const oidc = oidcWith();
    const deepText = base64url('[').repeat(10);
    const head = base64url({ alg: 'ES256', kid: 'of ES256' });
    const garbage = [
      '',
      '.',
      '..',
      '...',
      'a.b',
      'a.b.c',
      'a.b.c.d',
      `${head}..`,
      `${head}.${deepText}.AA`,
      '\0.\0.\0',
    ];
    const wrong = [null, 7, 'x', [], {}].map((payload) => `${head}.${base64url(payload)}.AAAA`);
    const heads = [null, 7, [], {}, { alg: 7 }, { alg: ['ES256'] }].map(
      (header) => `${base64url(header)}.${base64url({})}.AA`,
    );
    for (const token of [...garbage, ...wrong, ...heads, '😀.😀.😀', `${head}.${head}.${'A'.repeat(16_000)}`])
      await assert.rejects(
        oidc.verify(token),
        (error: unknown) => {
          assert.ok(error instanceof Failure && error.code === 'UNAUTHENTICATED', String(error));
          assert.match(error.message, /^the token is not valid(: its issuer is unknown)?$/);
          return true;
        },
        token,
      );
  });
});
