// The client address of a request: the peer of its connection or, when the peer is a trusted proxy, the address that the proxy forwards.
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, SocketAddress } from 'node:net';
import { SettingsError } from '../../operator/operator_error.ts';

/** Whether an address is a proxy whose X-Forwarded-For is trusted. */
export type Trusts = (address: string) => boolean;
export type ClientAddressOf = (incoming: IncomingMessage) => string;

/** The address of a connection that is already closed. */
const unknownAddress = 'unknown';
/** A client may send a long list; no installation has more proxies in a row. */
const hopsMax = 32;
const mappedIPv4 = '::ffff:';

/** The canonical text of an address: no zone, no IPv4-mapped IPv6, IPv6 in its short form. Undefined if it is not an address. */
export function plainAddress(text: string): string | undefined {
  const zone = text.indexOf('%');
  const address = zone < 0 ? text : text.slice(0, zone);
  const family = isIP(address);
  if (family === 0) return undefined;
  if (family === 4) return address;
  const short = new SocketAddress({ address, family: 'ipv6' }).address;
  const inner = short.startsWith(mappedIPv4) ? short.slice(mappedIPv4.length) : '';
  return isIP(inner) === 4 ? inner : short;
}

/** The range that one client controls: an IPv4 address, or the /64 network of an IPv6 address. Takes a plain address. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', right] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const tail = right === undefined || right === '' ? [] : right.split(':');
  if (right !== undefined) groups.push(...Array<string>(8 - groups.length - tail.length).fill('0'), ...tail);
  return `${groups.slice(0, 4).join(':')}::/64`;
}

/** `setting`: addresses and CIDR blocks, separated by commas. Throws SettingsError. */
export function trustsOf(setting: string): Trusts {
  const entries = setting
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
  if (entries.length === 0) return () => false;
  const list = new BlockList();
  for (const entry of entries) addTo(list, entry);
  return (address) => {
    const family = isIP(address);
    return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
  };
}

function addTo(list: BlockList, entry: string): void {
  const [addressText = '', prefix, more] = entry.split('/');
  const address = plainAddress(addressText);
  const family = address === undefined ? 0 : isIP(address);
  const bitsMax = family === 6 ? 128 : 32;
  const bits = prefix === undefined ? bitsMax : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN;
  // The prefix length of an IPv4-mapped IPv6 block counts the bits of the IPv6 address.
  const isMappedBlock = prefix !== undefined && family === 4 && addressText.includes(':');
  if (address === undefined || more !== undefined || !(bits <= bitsMax) || isMappedBlock)
    throw new SettingsError(
      `trustedProxies must be addresses or CIDR blocks, separated by commas, such as 10.0.0.0/8; ${JSON.stringify(entry)} is neither`,
    );
  list.addSubnet(address, bits, family === 6 ? 'ipv6' : 'ipv4');
}

export function clientAddressWith(trusts: Trusts): ClientAddressOf {
  return (incoming) => {
    const peer = plainPeer(incoming.socket.remoteAddress);
    if (!trusts(peer)) return peer;
    const forwarded = incoming.headers['x-forwarded-for'];
    return forwarded === undefined ? peer : clientBehind(peer, String(forwarded), trusts);
  };
}

/** The plain form of an address from the operating system, which is already in short form: faster than `plainAddress`, as every request needs it. */
export function plainPeer(address: string | undefined): string {
  if (address === undefined) return unknownAddress;
  if (!address.includes(':')) return address;
  if (address.startsWith(mappedIPv4)) return address.slice(mappedIPv4.length);
  const zone = address.indexOf('%');
  return zone < 0 ? address : address.slice(0, zone);
}

/** Reads from the right, where the trusted proxies append: the first untrusted address is the client. Entries to its left can be forged. */
function clientBehind(peer: string, forwarded: string, trusts: Trusts): string {
  let nearest = peer;
  let end = forwarded.length;
  for (let hop = 0; hop < hopsMax && end >= 0; hop++) {
    const comma = end === 0 ? -1 : forwarded.lastIndexOf(',', end - 1);
    const address = forwardedAddress(forwarded.slice(comma + 1, end).trim());
    if (address === undefined) return nearest;
    nearest = address;
    if (!trusts(address)) return address;
    end = comma;
  }
  return nearest;
}

/** Some proxies write the port as well: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function forwardedAddress(entry: string): string | undefined {
  const [, bracketed, dotted] = /^(?:\[([^\]]+)\]|(\d+(?:\.\d+){3}))(?::\d{1,5})?$/.exec(entry) ?? [];
  return plainAddress(bracketed ?? dotted ?? entry);
}
