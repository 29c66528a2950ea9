// Signing in without a token of one's own: by the one-time link that the server prints, and by identity providers (authorization code
// with PKCE, RFC 7636). Both exchange what the page was opened with for a token that expires within hours.
import { errors } from '../../../src/client/index.ts';
import { Transport } from '../../../src/client/transport.ts';
import { type Arrival, arrival, type PendingSignIn, pending, redirectPath, rememberSignIn } from './arrival.ts';
import { plainFetch, signInWithToken } from './session.ts';

/** An identity provider by which one can sign in. */
export interface SignInMethod {
  readonly name: string;
  readonly clientId: string;
  /** Null while the provider does not answer. */
  readonly authorizationEndpoint: string | null;
  readonly scope: string;
}

const transport = new Transport({ url: location.origin, retryForMs: 0, fetch: plainFetch });

export async function signInMethods(signal: AbortSignal): Promise<readonly SignInMethod[]> {
  const { result } = await transport.send({ method: 'GET', path: '/console/sign_in_methods', isRead: true, signal });
  return result.identityProviders as readonly SignInMethod[];
}

/** Whether the browser has what PKCE needs, which it has not over plain HTTP to another machine. */
export const canUseProviders = globalThis.isSecureContext;

/** Leaves the page for the identity provider, which sends the browser back. */
export async function openProvider({ name, clientId, scope, authorizationEndpoint }: SignInMethod): Promise<void> {
  if (authorizationEndpoint === null) return;
  const [state, nonce, codeVerifier] = [randomText(), randomText(), randomText()];
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(codeVerifier));
  const redirectUri = location.origin + redirectPath;
  const returnTo = location.pathname + location.search + location.hash;
  rememberSignIn({ identityProvider: name, state, nonce, codeVerifier, redirectUri, returnTo });
  const url = new URL(authorizationEndpoint);
  const parameters = {
    response_type: 'code',
    client_id: clientId,
    scope,
    redirect_uri: redirectUri,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: 'S256',
    state,
    nonce,
  };
  for (const [field, value] of Object.entries(parameters)) url.searchParams.set(field, value);
  location.assign(url);
}

/** Signs in with what the page was opened with; undefined if that is nothing. */
export const arrivalSignIn: Promise<void> | undefined = arrival && signInBy(arrival, pending);
// Shown by the sign-in page, which there is not while another session is in use.
arrivalSignIn?.catch(() => undefined);

async function signInBy(by: Arrival, remembered: PendingSignIn | undefined): Promise<void> {
  const isByLink = 'link' in by;
  const body = isByLink ? { link: by.link } : codeOf(by, remembered);
  const { result } = await transport.send({ method: 'POST', path: '/console/tokens', body, isRead: false });
  // The roles of an identity provider belong to this token: another one, made with it, would not have them.
  await signInWithToken(String(result.secret), { name: String(result.name), isRenewable: isByLink });
}

function codeOf({ code, error, state }: Exclude<Arrival, { link: string }>, remembered: PendingSignIn | undefined) {
  if (code === undefined) throw refused(`The identity provider refused the sign-in (${error ?? 'no reason given'}).`);
  if (remembered?.state !== state) throw refused('This sign-in was not begun in this tab. Sign in again.');
  const { identityProvider, nonce, codeVerifier, redirectUri } = remembered;
  return { identityProvider, code, codeVerifier, redirectUri, nonce };
}

function refused(message: string): Error {
  return new errors.UNAUTHENTICATED({ status: 401, message });
}

/** 256 random bits. */
const randomText = (): string => base64url(crypto.getRandomValues(new Uint8Array(32)));

const base64url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
