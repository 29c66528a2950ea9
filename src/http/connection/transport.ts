// What the settings say of the transport, made ready before anything listens: TLS or a reason to do without it, and which
// proxies are believed. The sockets are the server's.
import { isIP } from 'node:net';
import { type ClientAddressOf, clientAddressWith, plainAddress, type Trusts, trustsOf } from './client_address.ts';
import { TlsFiles } from './tls.ts';
import { TransportError } from './transport_error.ts';

export { TransportError } from './transport_error.ts';

export interface TransportSettings {
  readonly host: string;
  readonly insecure: boolean;
  /** Empty for none, as `tlsKeyFile`. */
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

/** Throws TransportError for what cannot be used, and for what would send credentials in the open without having been asked to. */
export async function openTransport(settings: TransportSettings): Promise<Transport> {
  const { host, insecure, tlsCertFile: certFile, tlsKeyFile: keyFile, tlsMinVersion: minVersion } = settings;
  if ((certFile === '') !== (keyFile === ''))
    throw new TransportError(
      `tlsCertFile and tlsKeyFile go together; ${certFile === '' ? 'tlsCertFile' : 'tlsKeyFile'} is not given`,
    );
  if (certFile === '' && !insecure && !isLoopback(host))
    throw new TransportError(
      `without TLS, the server does not listen on ${host}, where others than this machine reach it: ` +
        'give --tls-cert-file and --tls-key-file or, where something in front of it does TLS, --insecure',
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

/** Where clients ask; `host` is what is listened on. */
export function urlOf(transport: Transport, host: string, port: number): string {
  return `${transport.tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
