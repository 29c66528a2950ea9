// Where the server connects to because a caller said so: only to hosts that the operator listed, and to private addresses only of those
// that are listed by their very name. The address that was looked at is the one that is connected to.
import { type LookupAddress, lookup as lookUp } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { Failure } from '../standard/failure.ts';

/** `host`, `host:port`, `*.host`, or `*`. */
export type HostPattern = string;

const defaultPorts: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

/** Not on the public Internet: of one's own machine, network or provider (RFC 6890), or a tunnel to such. */
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
/** Of IPv6 only what is handed out to the public is public; these are the exceptions in it. */
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

interface Rule {
  readonly host: string;
  readonly port: string | undefined;
}

/** `[::1]` → `::1`; without the dot that a full name may end with. */
const bareHost = (host: string) =>
  host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');

function ruleOf(pattern: HostPattern): Rule {
  const [, host = '', port] = /^(\[[^\]]+\]|[^:]+|[^[\]]*:[^[\]]*:[^[\]]*)(?::(\d+))?$/.exec(pattern.trim()) ?? [];
  if (host === '' || (host.includes('*') && !/^\*(?:\.[^*]+)?$/.test(host)))
    throw new Error(`${JSON.stringify(pattern)} is not a host, host:port, *.host or *`);
  return { host: bareHost(host), port };
}

/** A list of patterns that has one that is none. */
export class HostPatternError extends Error {
  override name = 'HostPatternError';
}

/** Of a setting: patterns, separated by commas. Throws HostPatternError, which names the setting. */
export function hostAllowlist(setting: string, text: string): HostAllowlist {
  try {
    return new HostAllowlist(text.split(',').filter((pattern) => pattern.trim() !== ''));
  } catch (error) {
    throw new HostPatternError(`${setting}: ${(error as Error).message}`);
  }
}

export class HostAllowlist {
  readonly #rules: readonly Rule[];

  /** Throws on a pattern that is none. No patterns: no host. */
  constructor(patterns: readonly HostPattern[]) {
    this.#rules = patterns.map(ruleOf);
  }

  /** Throws HOST_NOT_ALLOWED, and INVALID_PARAMETER where it is not http or https, or carries credentials. */
  check(url: URL): void {
    if (defaultPorts[url.protocol] === undefined) throw new Failure('INVALID_PARAMETER', 'a URL is http or https');
    if (url.username !== '' || url.password !== '')
      throw new Failure('INVALID_PARAMETER', 'a URL has no credentials in it');
    if (!this.allows(url)) throw notAllowed(bareHost(url.hostname));
  }

  /** By its text alone: what a name resolves to is checked when it is connected to. */
  allows(url: URL): boolean {
    const host = bareHost(url.hostname);
    const allowed = this.#rulesFor(url);
    return allowed.length > 0 && (isIP(host) === 0 || isPublic(host) || isNamed(allowed, host));
  }

  /** For sockets: names become addresses that this URL may be fetched from, or the connection fails with HOST_NOT_ALLOWED. */
  lookupFor(url: URL): LookupFunction {
    const named = isNamed(this.#rulesFor(url), bareHost(url.hostname));
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

  #rulesFor({ protocol, hostname, port }: URL): readonly Rule[] {
    const host = bareHost(hostname);
    const at = port === '' ? defaultPorts[protocol] : port;
    return this.#rules.filter((rule) => (rule.port === undefined || rule.port === at) && fits(rule.host, host));
  }
}

const fits = (pattern: string, host: string) =>
  pattern === '*' || pattern === host || (pattern.startsWith('*.') && host.endsWith(pattern.slice(1)));

const isNamed = (rules: readonly Rule[], host: string) => rules.some((rule) => rule.host === host);

function notAllowed(host: string): Failure {
  return new Failure('HOST_NOT_ALLOWED', `the server may not connect to ${JSON.stringify(host)}`);
}
