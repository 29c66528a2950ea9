// How the page was opened, if that signs somebody in: by the one-time link that the server prints, or by an identity provider that sent the
// browser back. Imported first of all, because it restores the address before the router reads it: a secret or a code stays in no history.

export interface ProviderAnswer {
  readonly state: string;
  /** Undefined if the provider refused. */
  readonly code: string | undefined;
  readonly error: string | undefined;
}

export type Arrival = { readonly link: string } | ProviderAnswer;

/** What is remembered while the browser is at the identity provider. */
export interface PendingSignIn {
  readonly identityProvider: string;
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
  readonly redirectUri: string;
  /** Path, search and fragment of the page that asked to sign in. */
  readonly returnTo: string;
}

const pendingKey = 'tabularium.pending_sign_in';
const linkPrefix = '#sign_in=';
export const redirectPath = '/console/sign_in';

export function rememberSignIn(pending: PendingSignIn): void {
  sessionStorage.setItem(pendingKey, JSON.stringify(pending));
}

/** Forgets it: it is of use once. */
function takePending(): PendingSignIn | undefined {
  try {
    const text = sessionStorage.getItem(pendingKey);
    sessionStorage.removeItem(pendingKey);
    return text === null ? undefined : (JSON.parse(text) as PendingSignIn);
  } catch {
    return undefined;
  }
}

function arrive(): { readonly arrival: Arrival | undefined; readonly pending: PendingSignIn | undefined } {
  const { hash, pathname, search } = location;
  if (hash.startsWith(linkPrefix)) {
    history.replaceState(null, '', pathname + search);
    return { arrival: { link: hash.slice(linkPrefix.length) }, pending: undefined };
  }
  if (pathname !== redirectPath) return { arrival: undefined, pending: undefined };
  const pending = takePending();
  history.replaceState(null, '', pending?.returnTo ?? '/console/');
  const answer = new URLSearchParams(search);
  const [state, code, error] = ['state', 'code', 'error'].map((name) => answer.get(name) ?? undefined);
  return { arrival: state === undefined ? undefined : { state, code, error }, pending };
}

export const { arrival, pending } = arrive();
