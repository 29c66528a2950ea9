// An issuer of tokens for tests: a real HTTP server with a discovery document and keys, which can be changed, removed and counted.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';

export interface IssuerKey {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

export async function makeKey(alg: string, kid: string): Promise<IssuerKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

type Answer = (response: ServerResponse) => void;

export class TokenIssuer {
  keys: JWK[] = [];
  /** The number of requests for the keys and for the discovery document. */
  keyRequests = 0;
  discoveryRequests = 0;
  /** Replaces the usual response. */
  answerKeys: Answer | undefined;
  discovery: Record<string, unknown> = {};
  /** Other paths; by default there are none. */
  answerOther: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) =>
    void response.writeHead(404).end();
  readonly #server = createServer((request, response) => {
    if (request.url === '/keys') {
      this.keyRequests++;
      if (this.answerKeys) this.answerKeys(response);
      else json(response, { keys: this.keys });
    } else if (request.url === '/.well-known/openid-configuration') {
      this.discoveryRequests++;
      json(response, { issuer: this.url, jwks_uri: this.jwksUri, ...this.discovery });
    } else this.answerOther(request, response);
  });
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get jwksUri(): string {
    return `${this.url}/keys`;
  }

  /** The same port after a `stop`. */
  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** A token that is valid unless the claims say otherwise; `undefined` omits one. `nowMs`: its time of issue. */
  async token(key: IssuerKey, claims: JWTPayload = {}, header: Record<string, unknown> = {}, nowMs = Date.now()) {
    const now = Math.floor(nowMs / 1000);
    const all = { iss: this.url, aud: 'tabularium', sub: 'subject-1', iat: now, exp: now + 600, ...claims };
    return new SignJWT(JSON.parse(JSON.stringify(all)) as JWTPayload)
      .setProtectedHeader({ alg: key.alg, kid: key.kid, ...header })
      .sign(key.privateKey);
  }
}

function json(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
