// Who is signed in. The token is in memory and in the session storage of this tab, never in local storage; other tabs get it when they
// open. Signing in makes a token that expires within hours, is renewed while the page is open, and which signing out revokes. A 401 ends
// the session and nothing else: the page keeps its address and its state, and shows them again after the next sign-in.
import { useSyncExternalStore } from 'react';
import { type Client, createClient, errors } from '../../../src/client/index.ts';
import { probeServer } from './connection.ts';

export interface Session {
  readonly token: string;
  readonly user: string;
  readonly roles: readonly string[];
  /** Of the token; null: never. */
  readonly expiresAt: string | null;
  /** The name of the token, if signing in made it. */
  readonly tokenName: string | null;
  /** Whether the token may be replaced by a later one of the same user. */
  readonly isRenewable: boolean;
}

/** Why nobody is signed in. */
export type SignedOut = 'notYet' | 'byUser' | 'expired';

interface NoSession {
  readonly session: undefined;
  readonly reason: SignedOut;
  /** The user whose sign-in has expired, and whose page and input are still there. */
  readonly expiredUser?: string | undefined;
}

type State = { readonly session: Session; readonly expiredUser?: undefined } | NoSession;

const storageKey = 'tabularium.session';
const tokenHours = 12;

let state: State = restored();
const listeners = new Set<() => void>();

function restored(): State {
  try {
    const text = sessionStorage.getItem(storageKey);
    if (text !== null) return { session: JSON.parse(text) as Session };
  } catch {
    // Storage is forbidden or holds something else: signing in again costs little.
  }
  return { session: undefined, reason: 'notYet' };
}

/** Between the tabs of this origin. */
type Message =
  | { readonly kind: 'ask' }
  | { readonly kind: 'session'; readonly session: Session }
  | { readonly kind: 'signedOut' };
const tabs = new BroadcastChannel('tabularium.session');
const tell = (message: Message) => tabs.postMessage(message);

tabs.onmessage = ({ data }: MessageEvent<Message>) => {
  const { session } = state;
  if (data.kind === 'ask' && session) tell({ kind: 'session', session });
  if (data.kind === 'signedOut' && (session ?? state.expiredUser)) change({ session: undefined, reason: 'byUser' });
  if (data.kind !== 'session') return;
  // A tab in which another user is signed in keeps that user.
  const takesOver = session ? session.user === data.session.user : 'reason' in state && state.reason !== 'byUser';
  if (takesOver) change({ session: data.session });
};
if (!state.session) tell({ kind: 'ask' });

function change(next: State): void {
  state = next;
  try {
    if (next.session) sessionStorage.setItem(storageKey, JSON.stringify(next.session));
    else sessionStorage.removeItem(storageKey);
  } catch {
    // As above: the session lives in memory.
  }
  for (const listener of listeners) listener();
}

/** Fetches without the browser's own credentials, so that a 401 opens no dialog of the browser. */
export const plainFetch: typeof fetch = (input, init) => fetch(input, { ...init, credentials: 'omit' });

/** A 401 to a request with a token that is still in use ends the session. */
const watchedFetch: typeof fetch = async (input, init) => {
  const { session } = state;
  const response = await plainFetch(input, init).catch((error: unknown) => {
    if (!init?.signal?.aborted) void probeServer();
    throw error;
  });
  if (response.status === 401 && session && state.session === session) expireSession();
  return response;
};

const url = location.origin;
/** A page shows a lost connection soon, instead of repeating requests for a minute. */
const retryForMs = 8000;

/** The client of the whole console; it has the token of the session. */
export const client: Client = createClient({
  url,
  retryForMs,
  token: () => state.session?.token ?? '',
  fetch: watchedFetch,
});

/** The request outlives the page; its body has at most 64 kB. */
const lastMomentFetch: typeof fetch = (input, init) => plainFetch(input, { ...init, keepalive: true });

/** For the last request of a page that is being hidden. */
export const lastMomentClient: Client = createClient({
  url,
  retryForMs: 0,
  token: () => state.session?.token ?? '',
  fetch: lastMomentFetch,
});

export const sessionToken = (): string => state.session?.token ?? '';

export function expireSession(): void {
  if (state.session) change({ session: undefined, reason: 'expired', expiredUser: state.session.user });
}

const clientWith = (token: string): Client => createClient({ url, retryForMs: 0, token, fetch: plainFetch });

/** A token that signing in made. */
interface MadeToken {
  readonly name: string;
  readonly isRenewable: boolean;
}

/** Rejects with UNAUTHENTICATED if the token is not valid. */
export async function signInWithToken(token: string, made?: MadeToken): Promise<void> {
  const { name: user, roles, expiresAt } = await clientWith(token).users.identify();
  const { name: tokenName = null, isRenewable = false } = made ?? {};
  const session = { token, user, roles, expiresAt, tokenName, isRenewable };
  change({ session });
  tell({ kind: 'session', session });
}

export async function signInWithPassword(user: string, password: string): Promise<void> {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  const authorization = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  const byPassword = createClient({ url, retryForMs: 0, headers: { authorization }, fetch: plainFetch });
  await signInWithNewToken(byPassword, user);
}

/** Makes a token and continues with it. */
async function signInWithNewToken(as: Client, user: string): Promise<void> {
  const name = `console-${[...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join('')}`;
  const expiresAt = new Date(Date.now() + tokenHours * 3_600_000).toISOString();
  const { secret } = await as.users(user).tokens.create({ name, expiresAt }, { idempotencyKey: false });
  if (secret === undefined) throw new errors.UNAUTHENTICATED({ status: 401, message: 'the server sent no token' });
  await signInWithToken(secret, { name, isRenewable: true });
}

const renewalCheckMs = 5 * 60_000;
/** Requests that are under way still have the previous token. */
const previousTokenMs = 60_000;

/** Replaces the token of the session once half of its time is over. */
async function renew(): Promise<void> {
  const { session } = state;
  if (!session?.isRenewable || session.tokenName === null || session.expiresAt === null) return;
  if (Date.parse(session.expiresAt) - Date.now() > (tokenHours * 3_600_000) / 2) return;
  const { user, tokenName } = session;
  await signInWithNewToken(client, user);
  setTimeout(
    () =>
      void client
        .users(user)
        .tokens(tokenName)
        .delete()
        .catch(() => undefined),
    previousTokenMs,
  );
}

// A failure is tried again at the next check; without success, the session expires.
setInterval(() => void renew().catch(() => undefined), renewalCheckMs);

/** Revokes the token if signing in made it. */
export async function signOut(): Promise<void> {
  const { session } = state;
  change({ session: undefined, reason: 'byUser' });
  tell({ kind: 'signedOut' });
  if (!session?.tokenName) return;
  // Users close the page after signing out. Without a connection the token lives until it expires.
  await createClient({ url, retryForMs: 0, token: session.token, fetch: lastMomentFetch })
    .users(session.user)
    .tokens(session.tokenName)
    .delete()
    .catch(() => undefined);
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

export const sessionUser = (): string | undefined => state.session?.user;

export const useSessionState = (): State => useSyncExternalStore(subscribe, () => state);

/** Called when the session changes, with the user's name or undefined. */
export const onSessionChange = (listener: (user: string | undefined) => void) =>
  subscribe(() => listener(state.session?.user));
