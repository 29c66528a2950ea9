// Content codings of answers (RFC 9110, 12.5.3): which one a request prefers, and the compression itself, which runs on the
// threads of node:zlib and never on the main one.
import type { Duplex } from 'node:stream';
import { promisify } from 'node:util';
import * as zlib from 'node:zlib';

/** In the order of the server's own preference: the cheapest for what it saves comes first. */
export const codings = ['zstd', 'br', 'gzip'] as const;
export type Coding = (typeof codings)[number];

/** Smaller answers are sent as they are: they fit in one packet anyway. */
export const compressedBytesMin = 1024;

/** `fast`: for an answer that is made for one request. `small`: for one that is compressed once and sent often. */
export type Effort = 'fast' | 'small';

const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT, ZSTD_c_compressionLevel } = zlib.constants;
const outputBytes = 128 * 1024;

const options = {
  zstd: { fast: 3, small: 15 },
  br: { fast: 3, small: 9 },
  gzip: { fast: 3, small: 9 },
} as const satisfies Record<Coding, Record<Effort, number>>;

const zstdOptions = (level: number) => ({ chunkSize: outputBytes, params: { [ZSTD_c_compressionLevel]: level } });
const brotliOptions = (quality: number, bytes: number) => ({
  chunkSize: outputBytes,
  params: { [BROTLI_PARAM_QUALITY]: quality, [BROTLI_PARAM_SIZE_HINT]: bytes },
});
const gzipOptions = (level: number) => ({ chunkSize: outputBytes, level });

const zstdCompress = promisify(zlib.zstdCompress);
const brotliCompress = promisify(zlib.brotliCompress);
const gzip = promisify(zlib.gzip);

/** The whole content at once. */
export function compressed(content: Uint8Array, coding: Coding, effort: Effort): Promise<Buffer> {
  const level = options[coding][effort];
  switch (coding) {
    case 'zstd':
      return zstdCompress(content, zstdOptions(level)) as Promise<Buffer>;
    case 'br':
      return brotliCompress(content, brotliOptions(level, content.length)) as Promise<Buffer>;
    case 'gzip':
      return gzip(content, gzipOptions(level)) as Promise<Buffer>;
  }
}

/** For a content that is sent while it is compressed. */
export function compressor(coding: Coding): Duplex {
  const level = options[coding].fast;
  switch (coding) {
    case 'zstd':
      return zlib.createZstdCompress(zstdOptions(level));
    case 'br':
      return zlib.createBrotliCompress(brotliOptions(level, 0));
    case 'gzip':
      return zlib.createGzip(gzipOptions(level));
  }
}

export interface Preference {
  /** Undefined: the content is sent as it is. */
  readonly coding: Coding | undefined;
  /** The content may not be sent as it is, however small. */
  readonly mustCode: boolean;
}

const plain: Preference = { coding: undefined, mustCode: false };
/** Clients send few different headers. */
const known = new Map<string, Preference>();
const knownMax = 64;
const knownLengthMax = 128;

/** What an Accept-Encoding header asks for. Elements that are not well-formed are ignored. */
export function preferenceOf(header: string | undefined): Preference {
  if (header === undefined) return plain;
  const found = known.get(header);
  if (found) return found;
  const preference = preferenceIn(header);
  if (known.size < knownMax && header.length <= knownLengthMax) known.set(header, preference);
  return preference;
}

const elementForm = /^([!#$%&'*+.^_`|~\w-]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/i;

function preferenceIn(header: string): Preference {
  const qualities = new Map<string, number>();
  for (const element of header.split(',')) {
    const [, name, quality = '1'] = elementForm.exec(element.trim()) ?? [];
    if (name === undefined) continue;
    const coding = name.toLowerCase().replace(/^x-gzip$/, 'gzip');
    // Of a coding that is named twice, the refusal counts.
    qualities.set(coding, Math.min(Number(quality), qualities.get(coding) ?? 1));
  }
  const others = qualities.get('*');
  const identity = qualities.get('identity') ?? (others === 0 ? 0 : undefined);
  let coding: Coding | undefined;
  let best = 0;
  for (const one of codings) {
    const quality = qualities.get(one) ?? others ?? 0;
    if (quality > best) [coding, best] = [one, quality];
  }
  // Identity that is not mentioned is acceptable, and anything that is asked for goes before it.
  if (coding === undefined || (identity !== undefined && identity > best)) return plain;
  return { coding, mustCode: identity === 0 };
}
