// The address of a client: the peer, or what a trusted proxy forwards; never what an untrusted client claims.
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { describe, it } from 'node:test';
import { clientAddressWith, networkOf, plainAddress, trustsOf } from '../../../src/http/connection/client_address.ts';
import { SettingsError } from '../../../src/operator/operator_error.ts';

function address(trusted: string, peer: string | undefined, forwarded?: string): string {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded };
  return clientAddressWith(trustsOf(trusted))({ socket: { remoteAddress: peer }, headers } as IncomingMessage);
}

const trustedProxies = '10.0.0.0/8, 192.0.2.7, 2001:db8:1::/48';

describe('the address of a client', () => {
  const cases: [title: string, trusted: string, peer: string | undefined, forwarded: string | undefined, is: string][] =
    [
      ['the peer', '', '203.0.113.1', undefined, '203.0.113.1'],
      ['the peer, whatever it says, where none is trusted', '', '10.0.0.1', '1.2.3.4', '10.0.0.1'],
      ['a stranger, whatever he says', trustedProxies, '203.0.113.1', '1.2.3.4', '203.0.113.1'],
      ['a proxy itself', trustedProxies, '10.0.0.1', undefined, '10.0.0.1'],
      ['behind a proxy', trustedProxies, '10.0.0.1', '203.0.113.1', '203.0.113.1'],
      ['behind one named by its address', trustedProxies, '192.0.2.7', '203.0.113.1', '203.0.113.1'],
      ['beside one named by its address', trustedProxies, '192.0.2.8', '203.0.113.1', '192.0.2.8'],
      ['behind an IPv6 one', trustedProxies, '2001:db8:1::5', '2001:DB8:9:0::1', '2001:db8:9::1'],
      ['behind a proxy seen on an IPv6 socket', trustedProxies, '::ffff:10.0.0.1', '::ffff:203.0.113.1', '203.0.113.1'],
      ['behind two', trustedProxies, '10.0.0.1', '203.0.113.1, 10.9.9.9', '203.0.113.1'],
      [
        'the right-most that is not ours: the rest is hearsay',
        trustedProxies,
        '10.0.0.1',
        '6.6.6.6, 203.0.113.1',
        '203.0.113.1',
      ],
      ['ours all the way', trustedProxies, '10.0.0.1', '10.0.0.3,10.0.0.2', '10.0.0.3'],
      ['with a port', trustedProxies, '10.0.0.1', '203.0.113.1:4711', '203.0.113.1'],
      ['IPv6 with a port', trustedProxies, '10.0.0.1', '[2001:db8:9::1]:4711', '2001:db8:9::1'],
      ['IPv6 in brackets', trustedProxies, '10.0.0.1', '[2001:db8:9::1]', '2001:db8:9::1'],
      ['what is no address', trustedProxies, '10.0.0.1', 'unknown', '10.0.0.1'],
      ['what is no address, behind two', trustedProxies, '10.0.0.1', '1.2.3.4, _hidden, 10.0.0.2', '10.0.0.2'],
      ['an empty list', trustedProxies, '10.0.0.1', '', '10.0.0.1'],
      ['an empty entry', trustedProxies, '10.0.0.1', '1.2.3.4,', '10.0.0.1'],
      ['a leading comma', trustedProxies, '10.0.0.1', ',10.0.0.2', '10.0.0.2'],
      ['a link-local peer', '', 'fe80::1%eth0', undefined, 'fe80::1'],
      ['a peer that is gone', trustedProxies, undefined, '1.2.3.4', 'unknown'],
    ];
  for (const [title, trusted, peer, forwarded, is] of cases)
    it(title, () => assert.equal(address(trusted, peer, forwarded), is));

  it('is found behind trusted proxies, or not at all', () => {
    const chain = `1.2.3.4,${Array.from({ length: 100 }, (_, i) => `10.0.0.${i}`).join(',')}`;
    assert.match(address(trustedProxies, '10.1.1.1', chain), /^10\.0\.0\./);
  });
});

describe('trustedProxies', () => {
  for (const wrong of [
    'proxy.example',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0/8',
    '10.0.0.0/8/8',
    '::1/129',
    '10.0.0.1 10.0.0.2',
  ])
    it(`refuses ${wrong}`, () => assert.throws(() => trustsOf(`127.0.0.1, ${wrong}`), SettingsError));
  it('refuses an IPv4 block in IPv6 notation', () =>
    assert.throws(() => trustsOf('::ffff:10.0.0.0/104'), SettingsError));
  it('accepts spaces, and addresses in any form', () => {
    const trusts = trustsOf(' ::ffff:10.0.0.1 ,2001:DB8:0::0:1,');
    assert.deepEqual(['10.0.0.1', '2001:db8::1', '10.0.0.2', 'unknown'].map(trusts), [true, true, false, false]);
  });
});

describe('plain addresses and networks', () => {
  const addresses: [string, string | undefined][] = [
    ['127.0.0.1', '127.0.0.1'],
    ['::ffff:7f00:1', '127.0.0.1'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['FE80::1%eth0', 'fe80::1'],
    ['127.1', undefined],
    ['', undefined],
  ];
  for (const [text, expected] of addresses)
    it(`${JSON.stringify(text)} is ${expected}`, () => assert.equal(plainAddress(text), expected));
  const networks: [string, string][] = [
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:0:0:1::', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['1::', '1:0:0:0::/64'],
  ];
  for (const [text, expected] of networks)
    it(`${text} is in ${expected}`, () => assert.equal(networkOf(text), expected));
});
