// Sign-in to the console by an identity provider: authorization code with PKCE (RFC 6749, RFC 7636). The browser gets the code from the
// provider; the server exchanges it for an ID token, so that the page connects to no other server. See oidc.ts for its verification.
import type { Observe } from '../../observe/observations.ts';
import { Failure } from '../../standard/failure.ts';
import type { IdentityProvider } from './oidc.ts';
import { jose, readJson, secureUrl } from './oidc_keys.ts';

export interface SignInMethod {
  readonly name: string;
  readonly issuer: string;
  readonly clientId: string;
  /** Null while the provider is unavailable. */
  readonly authorizationEndpoint: string | null;
  readonly scope: string;
}

/** What the browser got from the provider, and what it asked with. */
export interface AuthorizationCode {
  readonly code: string;
  readonly codeVerifier: string;
  readonly redirectUri: string;
  readonly nonce: string;
}

export type FetchProvider = (
  url: URL,
  options: {
    readonly headers: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
    readonly method?: 'POST';
    readonly body?: string;
  },
) => Promise<Response>;

interface Endpoints {
  readonly authorization: string;
  readonly token: URL;
}

export interface OidcSignInOptions {
  readonly providers: () => readonly IdentityProvider[];
  /** Does not follow redirects. */
  readonly fetch: FetchProvider;
  readonly observe: Observe;
  readonly clock?: () => number;
}

const scope = 'openid profile email';
const discoveryPath = '/.well-known/openid-configuration';
const cachedMs = 600_000;
/** After a failure, so that a page that is reloaded does not wait for the provider each time. */
const retryMs = 5000;
const fetchMs = 5000;

export class OidcSignIn {
  readonly #options: OidcSignInOptions;
  readonly #clock: () => number;
  readonly #endpoints = new Map<string, { readonly found: Promise<Endpoints | undefined>; until: number }>();

  constructor(options: OidcSignInOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** The providers by which one can sign in. */
  methods(): Promise<SignInMethod[]> {
    const providers = this.#options.providers().filter(({ disabled }) => !disabled);
    const methods = providers.map(async ({ name, issuer, consoleClientId: clientId }) => {
      if (clientId === undefined) return [];
      const authorizationEndpoint = (await this.#endpointsOf(issuer))?.authorization ?? null;
      return [{ name, issuer, clientId, authorizationEndpoint, scope }];
    });
    return Promise.all(methods).then((all) => all.flat());
  }

  /** The ID token for a code, not verified except for its nonce. Throws UNAUTHENTICATED, IDENTITY_PROVIDER_UNAVAILABLE. */
  async idTokenOf(name: string, { nonce, ...code }: AuthorizationCode): Promise<string> {
    const provider = this.#options.providers().find((one) => one.name === name && !one.disabled);
    const clientId = provider?.consoleClientId;
    if (!provider || clientId === undefined)
      throw refused('no identity provider with this name can be used to sign in to the console');
    const endpoints = await this.#endpointsOf(provider.issuer);
    if (!endpoints) throw unavailable();
    const idToken = await this.#exchange(endpoints.token, clientId, provider, code);
    // A token that was requested by another sign-in has another nonce.
    if (nonceOf(idToken) !== nonce) throw refused('the ID token is not for this sign-in');
    return idToken;
  }

  async #exchange(
    url: URL,
    clientId: string,
    { name, clientSecret }: IdentityProvider,
    { code, codeVerifier, redirectUri }: Omit<AuthorizationCode, 'nonce'>,
  ): Promise<string> {
    const form = { grant_type: 'authorization_code', code, code_verifier: codeVerifier, redirect_uri: redirectUri };
    const credentials = clientSecret === undefined ? undefined : basicOf(clientId, clientSecret);
    const body = new URLSearchParams({ ...form, client_id: clientId }).toString();
    const headers = {
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': String(Buffer.byteLength(body)),
      ...(credentials === undefined ? {} : { authorization: credentials }),
    };
    const signal = AbortSignal.timeout(fetchMs);
    const answered = await this.#options
      .fetch(url, { method: 'POST', headers, body, signal })
      .catch((error: unknown) => {
        this.#failed(name, error);
        throw unavailable();
      });
    if (answered.status >= 400 && answered.status < 500) {
      await answered.body?.cancel();
      throw refused('the identity provider does not accept the code');
    }
    const { id_token: idToken } = await readJson(answered).catch((error: unknown) => {
      this.#failed(name, error);
      throw unavailable();
    });
    if (typeof idToken !== 'string') throw refused('the identity provider returned no ID token');
    return idToken;
  }

  #endpointsOf(issuer: string): Promise<Endpoints | undefined> {
    const now = this.#clock();
    const known = this.#endpoints.get(issuer);
    if (known && known.until > now) return known.found;
    const found = this.#discover(issuer);
    const entry = { found, until: now + cachedMs };
    this.#endpoints.set(issuer, entry);
    void found.then((endpoints) => {
      if (!endpoints) entry.until = now + retryMs;
    });
    return found;
  }

  /** Undefined if the provider is unavailable or does not describe itself. */
  async #discover(issuer: string): Promise<Endpoints | undefined> {
    try {
      const url = secureUrl(issuer.replace(/\/$/, '') + discoveryPath);
      if (!url) throw new Error('its URL is not an https URL');
      const headers = { accept: 'application/json' };
      const found = await readJson(await this.#options.fetch(url, { headers, signal: AbortSignal.timeout(fetchMs) }));
      const token = secureUrl(String(found.token_endpoint));
      const authorization = secureUrl(String(found.authorization_endpoint));
      if (found.issuer !== issuer || !token || !authorization)
        throw new Error('its discovery document is for another issuer, or lacks its endpoints');
      // A remote issuer must not refer to this machine.
      if (issuer.startsWith('https:') && (token.protocol !== 'https:' || authorization.protocol !== 'https:'))
        throw new Error('its URL is not an https URL');
      return { authorization: authorization.href, token };
    } catch (error) {
      this.#failed(issuer, error);
      return undefined;
    }
  }

  #failed(provider: string, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#options.observe({ kind: 'identityKeysFailed', provider, reason });
  }
}

/** Client credentials (RFC 6749, 2.3.1). */
function basicOf(clientId: string, secret: string): string {
  const encoded = [clientId, secret].map(encodeURIComponent).join(':');
  return `Basic ${Buffer.from(encoded).toString('base64')}`;
}

function nonceOf(idToken: string): unknown {
  try {
    return jose().decodeJwt(idToken).nonce;
  } catch {
    throw refused('the identity provider returned no ID token');
  }
}

const refused = (message: string) => new Failure('UNAUTHENTICATED', message);
const unavailable = () =>
  new Failure('IDENTITY_PROVIDER_UNAVAILABLE', 'the identity provider did not respond, or its response is invalid');
