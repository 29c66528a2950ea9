// Reads the URL of a PostgreSQL database: where it is, and how the connection is encrypted. No message contains the URL, which may have a
// password.
import { readFileSync } from 'node:fs';
import { SettingsError } from '../../operator/operator_error.ts';

/** The options of TLS, in the form that Node.js and `pg` expect. */
export interface PostgresqlTls {
  /** False: encrypted, but not protected against a server that pretends to be the database. */
  readonly rejectUnauthorized: boolean;
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

export interface PostgresqlHost {
  readonly host: string;
  readonly port: number;
}

/** Where the database is, as in libpq: `host` is a name, an address, or the directory of a socket. */
export interface PostgresqlLocation {
  readonly host: string;
  readonly port: number;
  /** Further servers of the same database, one of which is the primary when the first is not. */
  readonly others?: readonly PostgresqlHost[] | undefined;
  readonly database: string;
  /** By default PGUSER, or the user of the process. */
  readonly user?: string | undefined;
  /** By default PGPASSWORD, or the password file (PGPASSFILE). */
  readonly password?: string | undefined;
  /** Absent: the connection is not encrypted. */
  readonly tls?: PostgresqlTls | undefined;
}

const form = 'postgres://<user>@<host>:<port>/<database>';
const defaultPort = 5432;
const tlsModes = ['disable', 'require', 'verify-full'] as const;
const writableModes: readonly string[] = ['read-write', 'primary'];
const parameters = ['host', 'target_session_attrs', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey'] as const;
const loopback = /^(localhost|127\.[\d.]+|\[?::1\]?)$/;
/** `user@/database?host=...`, which libpq accepts, is not a URL without a host. */
const anyHost = 'localhost';

export const isPostgresqlUrl = (text: string): boolean => /^postgres(ql)?:\/\//i.test(text);

/** `what`: the setting, for messages. Throws SettingsError. */
export function parsePostgresqlUrl(text: string, what = 'the setting store'): PostgresqlLocation {
  const [, start = '', authority = '', end = ''] = /^([a-z]+:\/\/(?:[^/?@]*@)?)([^/?]*)(.*)$/is.exec(text) ?? [];
  // Several hosts are not a URL.
  const [written = '', ...further] = authority.split(',');
  const first = written === '' && start.endsWith('@') ? anyHost : written;
  const url = URL.parse(`${start}${first}${end}`);
  const [database = '', ...rest] = url ? url.pathname.slice(1).split('/') : [];
  if (!url || database === '' || rest.length > 0) throw new SettingsError(`${what} must have the form ${form}`);
  const values = parametersOf(url);
  const { target_session_attrs: mode = 'read-write' } = values;
  if (!writableModes.includes(mode))
    throw new SettingsError(`target_session_attrs of ${what} must be ${writableModes.join(' or ')}`);
  const port = Number(url.port || defaultPort);
  const [main, ...others] = values.host
    ? values.host.split(',').map((host) => ({ host, port }))
    : [first, ...further].map((host) => hostOf(host, what));
  if (!main || [main, ...others].some(({ host }) => host === ''))
    throw new SettingsError(`${what} has no host; its form is ${form}`);
  const tls = tlsOf([main, ...others], values);
  return {
    ...main,
    ...(others.length > 0 && { others }),
    database: decoded(database),
    ...(url.username !== '' && { user: decoded(url.username) }),
    ...(url.password !== '' && { password: decoded(url.password) }),
    ...(tls && { tls }),
  };
}

/** All servers of the database, in the order of the URL. */
export const hostsOf = ({ host, port, others = [] }: PostgresqlLocation): PostgresqlHost[] => [
  { host, port },
  ...others,
];

function hostOf(text: string, what: string): PostgresqlHost {
  const url = URL.parse(`postgres://${text}/`);
  if (!url) throw new SettingsError(`${what} must have the form ${form}`);
  return { host: decoded(url.hostname).replace(/^\[|\]$/g, ''), port: Number(url.port || defaultPort) };
}

type Parameters = Partial<Record<(typeof parameters)[number], string>>;

function parametersOf({ searchParams }: URL): Parameters {
  const values: Parameters = {};
  for (const [name, value] of searchParams) {
    const known = parameters.find((parameter) => parameter === name);
    if (known === undefined)
      throw new SettingsError(
        `the setting store has the parameter ${JSON.stringify(name)}; it accepts ${parameters.join(', ')}`,
      );
    values[known] = value;
  }
  return values;
}

/** Without `sslmode`, only connections that do not leave the machine are unencrypted. */
function tlsOf(
  hosts: readonly PostgresqlHost[],
  { sslmode, sslrootcert, sslcert, sslkey }: Parameters,
): PostgresqlTls | undefined {
  const isLocal = hosts.every(({ host }) => host.startsWith('/') || loopback.test(host));
  const mode =
    sslmode === undefined ? (isLocal ? 'disable' : 'verify-full') : tlsModes.find((each) => each === sslmode);
  if (mode === undefined) throw new SettingsError(`sslmode of the setting store must be one of ${tlsModes.join(', ')}`);
  if (mode === 'disable') return undefined;
  return {
    rejectUnauthorized: mode === 'verify-full',
    ca: textOf('sslrootcert', sslrootcert),
    cert: textOf('sslcert', sslcert),
    key: textOf('sslkey', sslkey),
  };
}

function textOf(name: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new SettingsError(`${name} of the setting store: ${path} cannot be read (${code})`, { cause: error });
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new SettingsError('the setting store contains a % that does not begin an encoded character');
  }
}
