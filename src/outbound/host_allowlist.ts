// The hosts that the server may connect to on behalf of a caller: only those in the operator's list, and private addresses only for
// hosts listed by their exact name. The resolved address that is checked is the one that is connected to.

import { type LookupAddress, lookup as lookUp } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { OperatorError } from '../operator/operator_error.ts';
import { Failure } from '../standard/failure.ts';

/** `host`, `host:port`, `*.host`, or `*`. */
export type HostPattern = string;

const defaultPorts: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

/** Not on the public Internet (RFC 6890): addresses of the machine, network or provider, or a tunnel to them. */
const privateV4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const;
/** In IPv6, only the global unicast range is public; `privateV6` are the exceptions inside it. */
const publicV6 = ['2000::', 3] as const;
const privateV6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

const notPublic = new BlockList();
for (const [net, prefix] of privateV4) notPublic.addSubnet(net, prefix, 'ipv4');
for (const [net, prefix] of privateV6) notPublic.addSubnet(net, prefix, 'ipv6');
const global6 = new BlockList();
global6.addSubnet(...publicV6, 'ipv6');

export function isPublic(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !notPublic.check(address, 'ipv4');
  return family === 6 && global6.check(address, 'ipv6') && !notPublic.check(address, 'ipv6');
}

interface HostRule {
  readonly host: string;
  readonly port: string | undefined;
}

/** `[::1]` → `::1`; without the trailing dot of a fully qualified name. */
const bareHost = (host: string) =>
  host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');

function parsePattern(pattern: HostPattern): HostRule {
  const [, host = '', port] = /^(\[[^\]]+\]|[^:]+|[^[\]]*:[^[\]]*:[^[\]]*)(?::(\d+))?$/.exec(pattern.trim()) ?? [];
  if (host === '' || (host.includes('*') && !/^\*(?:\.[^*]+)?$/.test(host)))
    throw new Error(`${JSON.stringify(pattern)} is not a host, host:port, *.host or *`);
  return { host: bareHost(host), port };
}

/** An invalid pattern in a list of hosts. */
export class HostPatternError extends OperatorError {
  override readonly name: string = 'HostPatternError';
  override readonly exitCode: number = 2;
}

/** Parses the comma-separated patterns of a setting. Throws HostPatternError, which names the setting. */
export function hostAllowlist(setting: string, text: string): HostAllowlist {
  try {
    return new HostAllowlist(text.split(',').filter((pattern) => pattern.trim() !== ''));
  } catch (error) {
    throw new HostPatternError(`${setting}: ${(error as Error).message}`);
  }
}

export class HostAllowlist {
  readonly #rules: readonly HostRule[];

  /** Throws on an invalid pattern. Without patterns, no host is allowed. */
  constructor(patterns: readonly HostPattern[]) {
    this.#rules = patterns.map(parsePattern);
  }

  /** Throws HOST_NOT_ALLOWED, and INVALID_PARAMETER if the URL is not http or https, or contains credentials. */
  check(url: URL): void {
    if (defaultPorts[url.protocol] === undefined)
      throw new Failure('INVALID_PARAMETER', 'the URL must be http or https');
    if (url.username !== '' || url.password !== '')
      throw new Failure('INVALID_PARAMETER', 'the URL must not contain credentials');
    if (!this.allows(url)) throw notAllowed(bareHost(url.hostname));
  }

  /** Checks only the text of the URL: the resolved address is checked when the connection is made. */
  allows(url: URL): boolean {
    const host = bareHost(url.hostname);
    const allowed = this.#rulesFor(url);
    return allowed.length > 0 && (isIP(host) === 0 || isPublic(host) || isListedByName(allowed, host));
  }

  /** A DNS lookup for sockets: returns only addresses that are allowed for this URL, or fails with HOST_NOT_ALLOWED. */
  lookupFor(url: URL): LookupFunction {
    const named = isListedByName(this.#rulesFor(url), bareHost(url.hostname));
    return (hostname, options, done) => {
      lookUp(hostname, { ...options, all: true }, (error, found) => {
        if (error) return done(error, '');
        const addresses = found.filter(({ address }) => named || isPublic(address));
        const [first] = addresses;
        if (!first) return done(notAllowed(hostname), '');
        if (options.all) return (done as (error: null, found: LookupAddress[]) => void)(null, addresses);
        done(null, first.address, first.family);
      });
    };
  }

  #rulesFor({ protocol, hostname, port }: URL): readonly HostRule[] {
    const host = bareHost(hostname);
    const actualPort = port === '' ? defaultPorts[protocol] : port;
    return this.#rules.filter(
      (rule) => (rule.port === undefined || rule.port === actualPort) && matchesHost(rule.host, host),
    );
  }
}

const matchesHost = (pattern: string, host: string) =>
  pattern === '*' || pattern === host || (pattern.startsWith('*.') && host.endsWith(pattern.slice(1)));

const isListedByName = (rules: readonly HostRule[], host: string) => rules.some((rule) => rule.host === host);

function notAllowed(host: string): Failure {
  return new Failure('HOST_NOT_ALLOWED', `the server is not allowed to connect to ${JSON.stringify(host)}`);
}
