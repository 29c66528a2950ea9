// How the console is served: its index page and policy, its assets and their coding, and what is not a file of it.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { brotliDecompressSync } from 'node:zlib';
import { categoriesApi } from '../../src/api/categories.ts';
import { codes } from '../../src/standard/codes.ts';
import { buildConsole } from '../console/browser.ts';
import { start, type TestServer } from '../server.ts';

/** What the first page may load, compressed. */
const firstLoadBytesMax = 350_000;

describe('the console', () => {
  let server: TestServer;
  before(async () => {
    buildConsole();
    server = await start();
  });
  after(() => server.close());

  const getFile = (path: string, headers: Readonly<Record<string, string>> = {}) =>
    fetch(server.url + path, { headers, redirect: 'manual' });

  it('is where / leads to', async () => {
    for (const path of ['/', '/console', '/?x']) {
      const { status, headers } = await getFile(path);
      assert.deepEqual([status, headers.get('location')], [302, '/console/'], path);
    }
  });

  it('answers each address of the application with its index page and a nonce of its own', async () => {
    const nonces = await Promise.all(
      ['', 'sql', 'catalog/default/a%20b'].map(async (path) => {
        const response = await getFile(`/console/${path}`);
        assert.equal(response.status, 200);
        assert.equal(response.headers.get('cache-control'), 'no-cache');
        const policy = response.headers.get('content-security-policy') ?? '';
        const nonce = /style-src 'self' 'nonce-([^']+)'/.exec(policy)?.[1] ?? '';
        assert.match(policy, /^default-src 'none'; script-src 'self';/);
        assert.doesNotMatch(policy, /unsafe|\*|https?:/);
        assert.ok((await response.text()).includes(`content="${nonce}"`));
        return nonce;
      }),
    );
    assert.equal(new Set(nonces).size, nonces.length);
  });

  it('serves its assets compressed and as immutable, and within the size of the first load', async () => {
    const page = await (await getFile('/console/')).text();
    const paths = [...page.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(([, path]) => path as string);
    assert.ok(paths.length >= 2, page);
    let bytes = 0;
    let decompressedBytes = 0;
    for (const path of paths) {
      const { status, headers, bytes: body } = await rawBytes(path, 'zstd, br, gzip');
      assert.equal(status, 200, path);
      assert.match(String(headers['cache-control']), /immutable/);
      assert.equal(headers['content-encoding'], 'br', path);
      bytes += body.length;
      decompressedBytes += brotliDecompressSync(body).length;
      const { status: revalidatedStatus } = await rawBytes(path, 'br', { 'if-none-match': String(headers.etag) });
      assert.equal(revalidatedStatus, 304);
      const { headers: plain, bytes: plainBody } = await rawBytes(path, 'identity');
      assert.equal(plain['content-encoding'], undefined);
      assert.deepEqual(brotliDecompressSync(body), Buffer.from(plainBody));
    }
    // Together: a chunk of a single function does not become smaller.
    assert.ok(decompressedBytes > 2 * bytes, `${decompressedBytes} bytes are sent as ${bytes}`);
    assert.ok(bytes <= firstLoadBytesMax, `${bytes} bytes`);
  });

  const rawBytes = (path: string, coding: string, headers: Readonly<Record<string, string>> = {}) =>
    server.send('GET', path, { headers: { 'accept-encoding': coding, ...headers } });

  it('has no other files', async () => {
    for (const path of ['nothing.js', '.stamp', 'assets/..%2fmain.js', '%2e%2e/package.json', 'assets/nothing.css']) {
      const { status, text } = await server.send('GET', `/console/${path}`);
      assert.notEqual(status, 500, path);
      assert.ok(status === 404 || text.startsWith('<!doctype html>'), `${path}: ${status}`);
    }
  });

  it('serves the documentation to everybody, under a policy without exceptions', async () => {
    const redirected = await getFile('/console/docs');
    assert.deepEqual([redirected.status, redirected.headers.get('location')], [302, '/console/docs/']);
    const response = await getFile('/console/docs/');
    assert.equal(response.status, 200);
    const policy = response.headers.get('content-security-policy') ?? '';
    assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';/);
    assert.doesNotMatch(policy, /unsafe|nonce|\*|https?:/);
    assert.doesNotMatch(await response.text(), /<(?:script|style)>|\sstyle=|\son\w+=/);
    const missing = await getFile('/console/docs/reference/nothing');
    assert.equal(missing.status, 404);
    assert.match(await missing.text(), /There is no page at this address/);
  });

  it('has a page of the documentation for each category and each code, and no link that leads nowhere', async () => {
    const index = (await (await getFile('/console/docs/search.json')).json()) as { readonly path: string }[];
    const paths = new Set(index.map(({ path }) => path));
    for (const code of Object.keys(codes)) assert.ok(paths.has(`codes/${code}`), code);
    for (const { name } of categoriesApi)
      assert.ok(
        [...paths].some((path) => path.startsWith('reference/') && path.endsWith(name)),
        name,
      );
    const pages = await Promise.all(
      [...paths].map(async (path) => {
        const response = await getFile(`/console/docs/${path}`);
        assert.equal(response.status, 200, path);
        return { path, html: await response.text() };
      }),
    );
    const linked = new Set(
      pages.flatMap(({ html }) => [...html.matchAll(/ (?:href|src)="(\/[^"#]*)/g)].map(([, to]) => to as string)),
    );
    for (const to of linked) assert.equal((await getFile(to)).status, 200, to);
  });

  it('gets a 401 that does not open the dialog of the browser', async () => {
    const challengeTo = async (headers: Readonly<Record<string, string>>) =>
      // Not by `fetch`, which adds headers of its own.
      (await server.send('GET', '/api/v2/catalogs', { headers: { authorization: undefined, ...headers } })).headers[
        'www-authenticate'
      ] ?? '';
    assert.match(await challengeTo({}), /Basic/);
    assert.match(await challengeTo({ 'sec-fetch-mode': 'navigate' }), /Basic/);
    assert.doesNotMatch(await challengeTo({ 'sec-fetch-mode': 'cors', 'sec-fetch-site': 'same-origin' }), /Basic/);
  });
});
