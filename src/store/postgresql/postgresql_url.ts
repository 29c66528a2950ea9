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

/** Where the database is, as in libpq: `host` is a name, an address, or the directory of a socket. */
export interface PostgresqlLocation {
  readonly host: string;
  readonly port: number;
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
const parameters = ['host', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey'] as const;
const loopback = /^(localhost|127\.[\d.]+|\[?::1\]?)$/;
/** `user@/database?host=...`, which libpq accepts, is not a URL without a host. */
const anyHost = 'localhost';

export const isPostgresqlUrl = (text: string): boolean => /^postgres(ql)?:\/\//i.test(text);

/** `what`: the setting, for messages. Throws SettingsError. */
export function parsePostgresqlUrl(text: string, what = 'the setting store'): PostgresqlLocation {
  const url = URL.parse(text.replace(/^([a-z]+:\/\/[^/?@]*@)(?=\/)/i, `$1${anyHost}`));
  const [database = '', ...rest] = url ? url.pathname.slice(1).split('/') : [];
  if (!url || database === '' || rest.length > 0) throw new SettingsError(`${what} must have the form ${form}`);
  const values = parametersOf(url);
  const host = values.host ?? decoded(url.hostname).replace(/^\[|\]$/g, '');
  if (host === '') throw new SettingsError(`${what} has no host; its form is ${form}`);
  const tls = tlsOf(host, values);
  return {
    host,
    port: Number(url.port || defaultPort),
    database: decoded(database),
    ...(url.username !== '' && { user: decoded(url.username) }),
    ...(url.password !== '' && { password: decoded(url.password) }),
    ...(tls && { tls }),
  };
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
function tlsOf(host: string, { sslmode, sslrootcert, sslcert, sslkey }: Parameters): PostgresqlTls | undefined {
  const isLocal = host.startsWith('/') || loopback.test(host);
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
