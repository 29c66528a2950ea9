// The console at /console/: a single-page application, whose paths are all its index page, except those of its files. `/` leads there.
// The page may load only what this server serves; style sheets that scripts add have a nonce, which is new in each response.
import { randomBytes } from 'node:crypto';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isKnownTag } from '../conditions.ts';
import { preferenceOf } from '../content_coding.ts';
import type { SystemEndpoint } from '../server.ts';
import { type Asset, ConsoleAssets, indexName } from './console_assets.ts';

const consolePath = '/console/';
const builtDirectory = fileURLToPath(new URL('../../../dist/console/', import.meta.url));
/** In index.html. */
const noncePlaceholder = '__csp_nonce__';
const notBuilt = `The console of this server is not built.

In a checkout of the source, run: npm run build:console
The package from the registry contains it. The REST API is at /api/v2/ and works without it.
`;
const immutable = 'public, max-age=31536000, immutable';
const nothing = new Uint8Array();

/** Below the path of the console: static pages, without the nonce that the console needs for its styles. */
const documentationPath = 'docs/';

const policyOf = (nonce?: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self'${nonce === undefined ? '' : ` 'nonce-${nonce}'`}`,
    "connect-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "worker-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
  ].join('; ');

export class ConsolePages {
  readonly #assets: ConsoleAssets;

  constructor(directory: string = builtDirectory) {
    this.#assets = new ConsoleAssets(directory);
  }

  /** The endpoint at a path; undefined if the path is not the console's. */
  find(path: string): SystemEndpoint | undefined {
    if (path === '/' || path === '/console') return redirectTo(consolePath);
    if (!path.startsWith(consolePath)) return undefined;
    const name = path.slice(consolePath.length);
    if (`${name}/` === documentationPath) return redirectTo(path + '/');
    if (name.startsWith(documentationPath))
      return { needs: 'nothing', run: (headers) => this.#serveDocumentation(name, headers) };
    return { needs: 'nothing', run: (headers) => this.#serve(name, headers) };
  }

  async #serve(name: string, headers: Parameters<SystemEndpoint['run']>[0]) {
    const asset = name === indexName ? undefined : await this.#assets.find(name);
    if (asset) return serveAsset(asset, headers);
    if (isFileName(name) && name !== indexName) return text(404, 'no such file\n');
    const index = await this.#assets.find(indexName);
    return index ? serveIndex(index) : text(503, notBuilt);
  }

  /** Addresses of pages have no extension. */
  async #serveDocumentation(name: string, headers: Parameters<SystemEndpoint['run']>[0]) {
    const file = name === documentationPath ? `${name}${indexName}` : extname(name) === '' ? `${name}.html` : name;
    const asset = await this.#assets.find(file);
    if (asset) return withDocumentationPolicy(await serveAsset(asset, headers));
    const notFound = await this.#assets.find(`${documentationPath}not_found.html`);
    if (!notFound) return text(503, notBuilt);
    return withDocumentationPolicy({ ...(await serveAsset(notFound, {})), status: 404 });
  }
}

/** Files are in assets/ or have no directory; what is below a room can be the name of an object, such as `sales.csv`. */
const isFileName = (name: string): boolean =>
  name.startsWith('assets/') || (!name.includes('/') && extname(name) !== '');

const redirectTo = (path: string): SystemEndpoint => ({
  needs: 'nothing',
  run: async () => ({ ...text(302, ''), headers: { Location: path } }),
});

const withDocumentationPolicy = ({ headers, ...response }: Awaited<ReturnType<typeof serveAsset>>) => ({
  ...response,
  headers: { ...headers, 'Content-Security-Policy': policyOf() },
});

const text = (status: number, body: string) => ({ status, contentType: 'text/plain; charset=utf-8', body });

async function serveIndex({ contentType, bytes }: Asset) {
  const nonce = randomBytes(16).toString('base64');
  const page = Buffer.from(await bytes(undefined)).toString();
  return {
    status: 200,
    contentType,
    headers: { 'Cache-Control': 'no-cache', 'Content-Security-Policy': policyOf(nonce) },
    body: page.replaceAll(noncePlaceholder, nonce),
  };
}

async function serveAsset(asset: Asset, headers: Parameters<SystemEndpoint['run']>[0]) {
  const { acceptable } = preferenceOf(headers['accept-encoding'] as string | undefined);
  const coding = asset.codings.find((candidate) => acceptable.includes(candidate));
  const etag = `"${asset.etag}${coding === undefined ? '' : `-${coding}`}"`;
  const own = {
    ETag: etag,
    'Cache-Control': asset.isImmutable ? immutable : 'no-cache',
    Vary: 'Accept-Encoding',
    ...(coding === undefined ? {} : { 'Content-Encoding': coding }),
  };
  const { contentType } = asset;
  if (isKnownTag(headers['if-none-match'], etag)) return { status: 304, contentType, headers: own, body: nothing };
  return { status: 200, contentType, headers: own, body: await asset.bytes(coding) };
}
