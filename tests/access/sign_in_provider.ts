// An OpenID Connect provider for tests: a real HTTP server that signs its only user in without a page, checks redirect URI, PKCE and client
// credentials (RFC 6749, RFC 7636), and gives each code once.
import { createHash, randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type IssuerKey, makeKey, TokenIssuer } from './token_issuer.ts';

interface Granted {
  readonly redirectUri: string;
  readonly challenge: string;
  readonly nonce: string;
}

export class SignInProvider {
  readonly issuer = new TokenIssuer();
  readonly clientId = 'tabularium-console';
  clientSecret: string | undefined;
  /** Claims of the ID tokens besides the usual ones. */
  claims: Readonly<Record<string, unknown>> = {};
  readonly #codes = new Map<string, Granted>();
  #key: IssuerKey | undefined;

  async start(): Promise<this> {
    await this.issuer.start();
    this.#key = await makeKey('RS256', 'one');
    this.issuer.keys = [this.#key.jwk];
    this.issuer.discovery = {
      authorization_endpoint: `${this.issuer.url}/authorize`,
      token_endpoint: `${this.issuer.url}/token`,
    };
    this.issuer.answerOther = (request, response) => void this.#answer(request, response);
    return this;
  }

  stop(): Promise<void> {
    return this.issuer.stop();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.issuer.url);
    if (url.pathname === '/authorize' && request.method === 'GET') return this.#authorize(url.searchParams, response);
    if (url.pathname === '/token' && request.method === 'POST') return this.#token(request, response);
    response.writeHead(404).end();
  }

  #authorize(query: URLSearchParams, response: ServerResponse): void {
    const value = (name: string) => query.get(name) ?? '';
    const isValid =
      value('response_type') === 'code' &&
      value('client_id') === this.clientId &&
      value('scope').split(' ').includes('openid') &&
      value('code_challenge_method') === 'S256';
    if (!isValid) return void response.writeHead(400).end('the request is not valid');
    const code = randomUUID();
    const redirectUri = value('redirect_uri');
    this.#codes.set(code, { redirectUri, challenge: value('code_challenge'), nonce: value('nonce') });
    const target = new URL(redirectUri);
    target.searchParams.set('code', code);
    target.searchParams.set('state', value('state'));
    response.writeHead(302, { location: target.href }).end();
  }

  async #token(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const chunk of request) text += chunk;
    const form = new URLSearchParams(text);
    const granted = this.#codes.get(form.get('code') ?? '');
    this.#codes.delete(form.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const credentials = `Basic ${Buffer.from([this.clientId, this.clientSecret ?? ''].map(encodeURIComponent).join(':')).toString('base64')}`;
    const isValid =
      granted !== undefined &&
      form.get('grant_type') === 'authorization_code' &&
      form.get('redirect_uri') === granted.redirectUri &&
      form.get('client_id') === this.clientId &&
      challenge === granted.challenge &&
      (this.clientSecret === undefined || request.headers.authorization === credentials);
    const headers = { 'content-type': 'application/json' };
    if (!granted || !isValid) return void response.writeHead(400, headers).end('{"error":"invalid_grant"}');
    const claims = { aud: this.clientId, nonce: granted.nonce, ...this.claims };
    const idToken = await this.issuer.token(this.#key as IssuerKey, claims);
    response.writeHead(200, headers).end(JSON.stringify({ token_type: 'Bearer', id_token: idToken }));
  }
}

/** What the console does in the browser: asks the provider for a code. `clientId`, `scope`: as in the way to sign in. */
export async function authorizationCode(
  { authorizationEndpoint, clientId, scope }: Readonly<Record<string, string>>,
  redirectUri: string,
) {
  const codeVerifier = randomUUID() + randomUUID();
  const nonce = randomUUID();
  const url = new URL(authorizationEndpoint as string);
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: clientId as string,
    scope: scope as string,
    redirect_uri: redirectUri,
    code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
    nonce,
    state: 'state',
  }).toString();
  const signInResponse = await fetch(url, { redirect: 'manual' });
  const code = new URL(signInResponse.headers.get('location') ?? '').searchParams.get('code') as string;
  return { code, codeVerifier, redirectUri, nonce };
}
