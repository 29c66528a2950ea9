// Which hosts are allowed, in any notation; redirects, limits, timeouts and error messages.
import assert from 'node:assert/strict';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { HostAllowlist, isPublic } from '../../src/outbound/host_allowlist.ts';
import { type FetchLimits, get, post } from '../../src/outbound/http_client.ts';
import { Failure } from '../../src/standard/failure.ts';

let server: Server;
let base: string;
let answer: RequestListener;
before(async () => {
  server = createServer((request, response) => answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

const loopback = new HostAllowlist(['127.0.0.1']);
const limits: FetchLimits = { idleMs: 2000, totalMs: 5000, bytesMax: 1000 };
const text = async (address: string, rules = loopback, more: Partial<FetchLimits> = {}) => {
  const { body } = await get(address, rules, { ...limits, ...more });
  return Buffer.concat(await Array.fromAsync(body as AsyncIterable<Buffer>)).toString();
};
const fails = (work: Promise<unknown>, code: string, label = code) =>
  assert.rejects(
    work,
    (error) => {
      assert.ok(error instanceof Failure, `${label}: ${error}`);
      assert.equal(error.code, code, label);
      assert.doesNotMatch(error.message, /ECONN|127\.0\.0\.1:/);
      return true;
    },
    label,
  );

test('addresses that are not public', () => {
  const privateAddresses =
    '0.0.0.0 10.1.2.3 100.64.1.1 127.0.0.1 169.254.169.254 172.31.0.1 192.168.1.1 198.19.0.1 224.0.0.1 255.255.255.255';
  const privateAddressesV6 =
    ':: ::1 fe80::1 fc00::1 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 2002:7f00:1:: 2001:db8::1';
  for (const address of `${privateAddresses} ${privateAddressesV6}`.split(' '))
    assert.equal(isPublic(address), false, address);
  for (const address of ['8.8.8.8', '172.32.0.1', '2606:4700:4700::1111'])
    assert.equal(isPublic(address), true, address);
  assert.equal(isPublic('localhost'), false);
});

test('hosts that match patterns', () => {
  const isAllowed = (patterns: string[], url: string) => {
    try {
      new HostAllowlist(patterns).check(new URL(url));
      return true;
    } catch {
      return false;
    }
  };
  const cases: [string[], string, boolean][] = [
    [[], 'https://example.com/', false],
    [['example.com'], 'https://EXAMPLE.com./x', true],
    [['example.com'], 'https://www.example.com/', false],
    [['*.example.com'], 'https://www.example.com/', true],
    [['*.example.com'], 'https://example.com/', false],
    [['*.example.com'], 'https://badexample.com/', false],
    [['example.com:443'], 'https://example.com/', true],
    [['example.com:443'], 'https://example.com:8443/', false],
    [['*'], 'https://8.8.8.8/', true],
    [['*'], 'http://127.0.0.1/', false],
    [['*'], 'http://2130706433/', false],
    [['*'], 'http://0x7f.1/', false],
    [['*'], 'http://[::1]/', false],
    [['*'], 'http://[::ffff:7f00:1]/', false],
    [['[::1]:80'], 'http://[::1]/', true],
    [['::1'], 'http://[::1]:9/', true],
    [['127.0.0.1'], 'http://127.1/', true],
    [['*'], 'ftp://example.com/', false],
    [['*'], 'file:///etc/passwd', false],
    [['*'], 'https://user:pass@example.com/', false],
  ];
  for (const [patterns, url, expected] of cases)
    assert.equal(isAllowed(patterns, url), expected, `${patterns}: ${url}`);
  for (const invalidPattern of ['', 'a*b', '**', '*.*', 'http://x'])
    assert.throws(() => new HostAllowlist([invalidPattern]), invalidPattern);
});

test('a name that resolves to a private address is refused when connecting', async () => {
  const { port } = new URL(base);
  answer = (_request, response) => response.end('reached');
  await fails(text(`http://localhost:${port}/`, new HostAllowlist(['*'])), 'HOST_NOT_ALLOWED');
  assert.equal(await text(`http://localhost:${port}/`, new HostAllowlist(['localhost'])), 'reached');
});

test('redirects are checked against the allowlist and limited in number', async () => {
  answer = (request, response) => {
    const target = { '/a': '/b', '/out': 'http://169.254.169.254/latest', '/loop': '/loop', '/no': 'http://[' }[
      request.url ?? ''
    ];
    if (target === undefined) response.end('there');
    else response.writeHead(302, { location: target }).end();
  };
  assert.equal(await text(`${base}/a`), 'there');
  await fails(text(`${base}/out`, new HostAllowlist(['127.0.0.1', '*'])), 'HOST_NOT_ALLOWED', 'out');
  await fails(text(`${base}/loop`), 'REMOTE_REFUSED', 'loop');
  await fails(text(`${base}/no`), 'REMOTE_REFUSED', 'no');
});

test('responses that are too large, refused, truncated, silent or slow', async () => {
  answer = (_request, response) => response.end('x'.repeat(1001));
  await fails(text(base), 'REMOTE_REFUSED', 'announced');
  answer = (_request, response) => {
    response.write('x'.repeat(600));
    response.end('x'.repeat(600));
  };
  await fails(text(base), 'REMOTE_REFUSED', 'not announced');
  for (const [status, code] of [
    [404, 'REMOTE_REFUSED'],
    [403, 'REMOTE_REFUSED'],
    [206, 'REMOTE_REFUSED'],
    [500, 'REMOTE_UNAVAILABLE'],
    [429, 'REMOTE_UNAVAILABLE'],
  ] as const) {
    answer = (_request, response) => response.writeHead(status).end();
    await fails(text(base), code, String(status));
  }
  answer = (_request, response) => {
    response.writeHead(200, { 'content-length': '900' });
    response.write('half');
    setTimeout(() => response.destroy(), 20);
  };
  await fails(text(base), 'REMOTE_UNAVAILABLE', 'interrupted');
  answer = () => {};
  await fails(text(base, loopback, { idleMs: 100 }), 'REMOTE_UNAVAILABLE', 'silent');
  answer = (_request, response) => {
    const drip = setInterval(() => response.write('x'), 20);
    response.on('close', () => clearInterval(drip));
  };
  await fails(text(base, loopback, { totalMs: 200 }), 'REMOTE_UNAVAILABLE', 'slow');
  await fails(text('http://127.0.0.1:1/'), 'REMOTE_UNAVAILABLE', 'nobody there');
});

test('a message is posted, whatever the response is', async () => {
  let received = '';
  answer = (request, response) => {
    request.on('data', (piece) => {
      received += piece;
    });
    request.on('end', () => response.writeHead(302, { location: '/' }).end('x'.repeat(1_000_000)));
  };
  const message = { headers: { 'content-type': 'application/json' }, body: '{"é":1}' };
  assert.equal(await post(base, loopback, message, { totalMs: 2000 }), 302);
  assert.equal(received, message.body);
  await fails(post(base, new HostAllowlist([]), message, { totalMs: 2000 }), 'HOST_NOT_ALLOWED');
});
