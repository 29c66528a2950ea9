// The files of the built console (scripts/build_console.ts), most of which exist as compressed variants only. They are read from disk when
// they are first requested and then cached; a new build is noticed when a page is requested.
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { Coding } from '../content_coding.ts';

export interface Asset {
  readonly contentType: string;
  readonly etag: string;
  /** Its name contains a hash of its content. */
  readonly isImmutable: boolean;
  readonly codings: readonly Coding[];
  bytes(coding: Coding | undefined): Promise<Uint8Array>;
}

const decompress = promisify(gunzip);
export const indexName = 'index.html';
const extensionOfCoding: Partial<Record<Coding, string>> = { br: '.br', gzip: '.gz' };
const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.md': 'text/markdown; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
  '.webp': 'image/webp',
};

export class ConsoleAssets {
  readonly #directory: string;
  #assets: ReadonlyMap<string, Asset> = new Map();
  #builtAt = 0;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Undefined if there is no such file; `index.html` is missing only if the console is not built. */
  async find(name: string): Promise<Asset | undefined> {
    if (extname(name) === '.html' || this.#builtAt === 0) await this.#scan();
    return this.#assets.get(name);
  }

  async #scan(): Promise<void> {
    const builtAt = await stat(join(this.#directory, indexName)).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );
    if (builtAt === this.#builtAt) return;
    const names = builtAt === 0 ? [] : await readdir(this.#directory, { recursive: true });
    const known = new Set(names.map((name) => name.replaceAll('\\', '/')));
    const plainNames = new Set([...known].map((name) => name.replace(/\.(br|gz)$/, '')));
    const assets = [...plainNames].flatMap((name): [string, Asset][] => {
      const contentType = contentTypes[extname(name)];
      return contentType === undefined ? [] : [[name, this.#asset(name, contentType, known, builtAt)]];
    });
    this.#assets = new Map(assets);
    this.#builtAt = builtAt;
  }

  #asset(name: string, contentType: string, known: ReadonlySet<string>, builtAt: number): Asset {
    const cached = new Map<string, Promise<Uint8Array>>();
    const read = (extension: string): Promise<Uint8Array> => {
      const found = cached.get(extension) ?? readFile(join(this.#directory, name + extension));
      cached.set(extension, found);
      return found;
    };
    const plain = async (): Promise<Uint8Array> => {
      if (known.has(name)) return read('');
      return decompress(await read('.gz'));
    };
    const codings = (Object.keys(extensionOfCoding) as Coding[]).filter((coding) =>
      known.has(name + extensionOfCoding[coding]),
    );
    return {
      contentType,
      etag: createHash('sha256').update(`${name} ${builtAt}`).digest('base64url').slice(0, 22),
      isImmutable: name.startsWith('assets/'),
      codings,
      bytes: (coding) => (coding === undefined ? plain() : read(extensionOfCoding[coding] ?? '')),
    };
  }
}
