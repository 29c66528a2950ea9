// Prepares the transport from the settings before the server listens: TLS or an explicit exception from it, and the trusted proxies.
import { isIP } from 'node:net';
import { SettingsError } from '../../operator/operator_error.ts';
import { type ClientAddressOf, clientAddressWith, plainAddress, type Trusts, trustsOf } from './client_address.ts';
import { TlsFiles } from './tls.ts';

export interface TransportSettings {
  readonly host: string;
  readonly insecure: boolean;
  /** Empty means none; the same for `tlsKeyFile`. */
  readonly tlsCertFile: string;
  readonly tlsKeyFile: string;
  readonly tlsMinVersion: 'TLSv1.2' | 'TLSv1.3';
  readonly trustedProxies: string;
}

export interface Transport {
  readonly tls: TlsFiles | undefined;
  readonly trusts: Trusts;
  readonly clientAddressOf: ClientAddressOf;
}

/** Throws SettingsError for unusable settings, and for settings that would send credentials unencrypted without `insecure`. */
export async function openTransport(settings: TransportSettings): Promise<Transport> {
  const { host, insecure, tlsCertFile: certFile, tlsKeyFile: keyFile, tlsMinVersion: minVersion } = settings;
  if ((certFile === '') !== (keyFile === ''))
    throw new SettingsError(
      `tlsCertFile and tlsKeyFile must be set together; ${certFile === '' ? 'tlsCertFile' : 'tlsKeyFile'} is missing`,
    );
  if (certFile === '' && !insecure && !isLoopback(host))
    throw new SettingsError(
      `without TLS, the server does not listen on ${host}, which other machines can reach: ` +
        'set --tls-cert-file and --tls-key-file, or --insecure if a proxy in front of the server terminates TLS',
    );
  const trusts = trustsOf(settings.trustedProxies);
  const tls = certFile === '' ? undefined : await TlsFiles.open({ certFile, keyFile, minVersion });
  return { tls, trusts, clientAddressOf: clientAddressWith(trusts) };
}

export function isLoopback(host: string): boolean {
  if (host.toLowerCase() === 'localhost') return true;
  const address = plainAddress(host);
  return address === '::1' || (address !== undefined && isIP(address) === 4 && address.startsWith('127.'));
}

/** The address by which this machine reaches the server; undefined if it does not listen on a loopback address. */
export function loopbackOf(host: string): string | undefined {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (plainAddress(host) === '::') return '::1';
  return isLoopback(host) ? host : undefined;
}

/** Throws SettingsError if the other servers of a shared store could not reach this one. */
export function requireInternalUrl({ internalUrl, host }: { readonly internalUrl: string; readonly host: string }) {
  const isWildcard = host === '0.0.0.0' || plainAddress(host) === '::';
  if (internalUrl === '' && isWildcard)
    throw new SettingsError(
      `with a shared store, internalUrl must be set, because the other servers cannot connect to ${host}`,
    );
  if (internalUrl !== '' && !/^https?:$/.test(URL.parse(internalUrl)?.protocol ?? ''))
    throw new SettingsError(`internalUrl must be a URL with http or https, not ${JSON.stringify(internalUrl)}`);
}

/** The URL for clients; `host` is the listening address. */
export function urlOf(transport: Transport, host: string, port: number): string {
  return `${transport.tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
