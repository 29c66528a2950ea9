// Content codings of responses (RFC 9110, 12.5.3): negotiation, and compression, which runs on the threads of node:zlib and never on
// the main thread.
import type { Duplex } from 'node:stream';
import { promisify } from 'node:util';
import * as zlib from 'node:zlib';

/** In the server's order of preference: the best ratio of savings to CPU cost first. */
export const codings = ['zstd', 'br', 'gzip'] as const;
export type Coding = (typeof codings)[number];

/** Smaller responses are sent uncompressed: they fit in one packet anyway. */
export const compressedBytesMin = 1024;

/** `fast`: for a response that is sent once. `small`: for one that is compressed once and sent often. */
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

/** Compresses the whole content at once. */
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

/** A stream for content that is sent while it is compressed. */
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
  /** All codings that are accepted, in the client's order and then the server's. */
  readonly acceptable: readonly Coding[];
  /** Undefined: the content is sent uncompressed. */
  readonly coding: Coding | undefined;
  /** The content may not be sent uncompressed, however small it is. */
  readonly mustCode: boolean;
}

const plain: Preference = { acceptable: [], coding: undefined, mustCode: false };
/** Cache; clients send few different headers. */
const cache = new Map<string, Preference>();
const cachedMax = 64;
const cachedLengthMax = 128;

/** The preference of an Accept-Encoding header. Malformed elements are ignored. */
export function preferenceOf(header: string | undefined): Preference {
  if (header === undefined) return plain;
  const cached = cache.get(header);
  if (cached) return cached;
  const preference = parsePreference(header);
  if (cache.size < cachedMax && header.length <= cachedLengthMax) cache.set(header, preference);
  return preference;
}

const elementForm = /^([!#$%&'*+.^_`|~\w-]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/i;

function parsePreference(header: string): Preference {
  const qualities = new Map<string, number>();
  for (const element of header.split(',')) {
    const [, name, quality = '1'] = elementForm.exec(element.trim()) ?? [];
    if (name === undefined) continue;
    const coding = name.toLowerCase().replace(/^x-gzip$/, 'gzip');
    // When a coding is listed twice, the lower quality counts.
    qualities.set(coding, Math.min(Number(quality), qualities.get(coding) ?? 1));
  }
  const others = qualities.get('*');
  const identity = qualities.get('identity') ?? (others === 0 ? 0 : undefined);
  const qualityOf = (coding: Coding): number => qualities.get(coding) ?? others ?? 0;
  const acceptable = codings.filter((coding) => qualityOf(coding) > 0).sort((a, b) => qualityOf(b) - qualityOf(a));
  const [coding] = acceptable;
  // Identity is acceptable when it is not mentioned, but every requested coding is preferred to it.
  if (coding === undefined || (identity !== undefined && identity > qualityOf(coding))) return plain;
  return { acceptable, coding, mustCode: identity === 0 };
}
