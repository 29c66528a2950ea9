// Parses the headers of partial content: Range, Content-Range and Content-Digest (RFC 9110, RFC 9530).
import { type Failure, invalidParameter } from '../standard/failure.ts';

/** Bytes from `start` (inclusive) to `end` (exclusive). */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** `unsatisfied`: respond with 416. Undefined: respond with the whole content, which RFC 9110 permits for multiple ranges too. */
export function rangeOf(header: string | undefined, bytes: number): ByteRange | 'unsatisfied' | undefined {
  const [, first, last] = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined;
  if (first === '') {
    const suffix = Number(last);
    if (suffix === 0) return 'unsatisfied';
    // No Content-Range can describe a part of empty content.
    return bytes === 0 ? undefined : { start: Math.max(0, bytes - suffix), end: bytes };
  }
  const start = Number(first);
  if (last !== '' && Number(last) < start) return undefined;
  if (start >= bytes) return 'unsatisfied';
  return { start, end: last === '' ? bytes : Math.min(bytes, Number(last) + 1) };
}

export interface ContentRange {
  /** Undefined: the request asks for the current offset. */
  readonly range: ByteRange | undefined;
  /** Undefined: not yet known. */
  readonly total: number | undefined;
}

/** Throws INVALID_PARAMETER. */
export function contentRangeOf(header: string | undefined): ContentRange | undefined {
  if (header === undefined) return undefined;
  const [, first, last, length] = /^bytes[ \t]+(?:(\d{1,15})-(\d{1,15})|\*)\/(\d{1,15}|\*)$/i.exec(header.trim()) ?? [];
  if (length === undefined)
    throw invalidHeader('Content-Range', 'must be such as "bytes 0-499/1000", "bytes 0-499/*" or "bytes */1000"');
  const total = length === '*' ? undefined : Number(length);
  if (first === undefined || last === undefined) return { range: undefined, total };
  const range = { start: Number(first), end: Number(last) + 1 };
  if (range.end <= range.start || (total !== undefined && range.end > total))
    throw invalidHeader('Content-Range', 'must not end before it starts or after the total length');
  return { range, total };
}

/** The SHA-256 in a Content-Digest header. Throws INVALID_PARAMETER when the header has none. */
export function contentDigestOf(header: string | undefined): Buffer | undefined {
  if (header === undefined) return undefined;
  const digest = /(?:^|,)[ \t]*sha-256=:([A-Za-z0-9+/]{43}=):[ \t]*(?:,|$)/.exec(header)?.[1];
  if (digest === undefined)
    throw invalidHeader('Content-Digest', 'must contain a SHA-256: "sha-256=:", 44 characters of base64 and ":"');
  return Buffer.from(digest, 'base64');
}

export function invalidHeader(name: string, message: string): Failure {
  return invalidParameter(`header:${name}`, 'format', message, `${name} ${message}`);
}
