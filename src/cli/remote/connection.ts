// The server that a command calls, and the credentials: flags, then variables, then a profile, then a server on this machine.
import { join, resolve } from 'node:path';
import { type Client, clientOver } from '../../client/client.ts';
import { Transport } from '../../client/transport.ts';
import { readOperatorFile } from '../../operator/operator_file.ts';
import { CommandError } from './exit_codes.ts';
import { type Environment, profilesPath, readProfiles } from './profiles.ts';

export interface ConnectionOptions {
  readonly profile?: string | undefined;
  readonly url?: string | undefined;
  readonly tokenFile?: string | undefined;
}

export interface Location {
  /** Without a slash at the end. */
  readonly url: string;
  readonly token: string | undefined;
}

export interface Connection extends Location {
  readonly client: Client;
  readonly transport: Transport;
}

export const localUrl = 'http://127.0.0.1:8030';
/** Of a server that was started in this directory. */
const localToken = join('data', 'root.token');
const retryForMsDefault = 20_000;

/** Throws CommandError if the URL is wrong, or the profile does not exist. */
export function locationOf({ profile, url, tokenFile }: ConnectionOptions, env: Environment): Location {
  const given = tokenFile === undefined ? env.TABULARIUM_TOKEN || undefined : tokenIn(tokenFile);
  const givenUrl = url ?? (env.TABULARIUM_URL || undefined);
  if (givenUrl !== undefined && profile === undefined)
    return { url: serverUrl(givenUrl), token: given ?? tokenOf(givenUrl, env) };
  const { current, profiles } = readProfiles(env);
  const name = profile ?? (env.TABULARIUM_PROFILE || current);
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (found)
    return {
      url: givenUrl === undefined ? urlOfProfile(name, found.url, env) : serverUrl(givenUrl),
      token: given ?? found.token,
    };
  if (profile !== undefined || env.TABULARIUM_PROFILE) {
    const known = Object.keys(profiles);
    const others = known.length > 0 ? `profiles are: ${known.join(', ')}` : 'there are no profiles';
    throw new CommandError(
      'usage',
      `there is no profile ${JSON.stringify(name)}; ${others} (tabularium login --profile)`,
    );
  }
  return { url: localUrl, token: given ?? localRootToken() };
}

/** A profile has the URL as login wrote it, unless somebody edited its file. */
function urlOfProfile(name: string, url: string, env: Environment): string {
  if (isServerUrl(URL.parse(url))) return serverUrl(url);
  throw new CommandError(
    'usage',
    `the url of the profile ${JSON.stringify(name)} in ${profilesPath(env)}, ${JSON.stringify(url)}, is not the URL of a server: sign in again (tabularium login --profile ${name} --url ${localUrl})`,
  );
}

const isServerUrl = (url: URL | null): url is URL =>
  url !== null && ['http:', 'https:'].includes(url.protocol) && url.username === '' && url.search === '';

/** The token of the profile of this server, if there is one. */
function tokenOf(url: string, env: Environment): string | undefined {
  const { profiles } = readProfiles(env);
  return Object.values(profiles).find((profile) => profile.url === serverUrl(url))?.token;
}

/** Throws CommandError. */
export function serverUrl(text: string): string {
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (!isServerUrl(url))
    throw new CommandError('usage', `${JSON.stringify(text)} is not the URL of a server, such as ${localUrl}`);
  return url.href.replace(/\/+$/, '');
}

function tokenIn(path: string): string {
  const bytes = readOperatorFile({ path: resolve(path), what: 'the token', advice: 'give another --token-file' });
  if (bytes === undefined)
    throw new CommandError('usage', `the file of the token, ${path}, does not exist: give another --token-file`);
  return bytes.toString().trim();
}

const localRootToken = (): string | undefined =>
  readOperatorFile({ path: resolve(localToken), what: 'the token of root', advice: 'sign in with tabularium login' })
    ?.toString()
    .trim();

/** Nothing is sent yet. */
export function connect(options: ConnectionOptions, env: Environment): Connection {
  const location = locationOf(options, env);
  const { url, token } = location;
  const transport = new Transport({ url, ...(token === undefined ? {} : { token }), retryForMs: retryForMsDefault });
  return { ...location, transport, client: clientOver(transport) };
}
