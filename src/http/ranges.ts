// The headers that speak of parts of a content: Range, Content-Range, Content-Digest (RFC 9110, RFC 9530). Read here, obeyed elsewhere.
import { Failure } from '../standard/failure.ts';

/** Bytes from `start` up to, not with, `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** `unsatisfied`: answer 416. Undefined: answer the whole; more ranges than one are answered so too, as one may. */
export function rangeOf(header: string | undefined, bytes: number): ByteRange | 'unsatisfied' | undefined {
  const [, first, last] = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined;
  if (first === '') {
    const suffix = Number(last);
    if (suffix === 0) return 'unsatisfied';
    // Of nothing there is no part that a header could name.
    return bytes === 0 ? undefined : { start: Math.max(0, bytes - suffix), end: bytes };
  }
  const start = Number(first);
  if (last !== '' && Number(last) < start) return undefined;
  if (start >= bytes) return 'unsatisfied';
  return { start, end: last === '' ? bytes : Math.min(bytes, Number(last) + 1) };
}

export interface ContentRange {
  /** Undefined: it asks how much is there. */
  readonly range: ByteRange | undefined;
  /** Undefined: not known yet. */
  readonly total: number | undefined;
}

/** Throws INVALID_PARAMETER. */
export function contentRangeOf(header: string | undefined): ContentRange | undefined {
  if (header === undefined) return undefined;
  const [, first, last, whole] = /^bytes[ \t]+(?:(\d{1,15})-(\d{1,15})|\*)\/(\d{1,15}|\*)$/i.exec(header.trim()) ?? [];
  if (whole === undefined)
    throw invalidHeader('Content-Range', 'must be such as "bytes 0-499/1000", "bytes 0-499/*" or "bytes */1000"');
  const total = whole === '*' ? undefined : Number(whole);
  if (first === undefined || last === undefined) return { range: undefined, total };
  const range = { start: Number(first), end: Number(last) + 1 };
  if (range.end <= range.start || (total !== undefined && range.end > total))
    throw invalidHeader('Content-Range', 'ends before it begins, or after the end of the whole');
  return { range, total };
}

/** The SHA-256 of the content, where it is given. Throws INVALID_PARAMETER where it is not to be had from what is. */
export function contentDigestOf(header: string | undefined): Buffer | undefined {
  if (header === undefined) return undefined;
  const digest = /(?:^|,)[ \t]*sha-256=:([A-Za-z0-9+/]{43}=):[ \t]*(?:,|$)/.exec(header)?.[1];
  if (digest === undefined)
    throw invalidHeader(
      'Content-Digest',
      'must have a SHA-256, such as "sha-256=:" with 44 characters of base64 and ":"',
    );
  return Buffer.from(digest, 'base64');
}

export function invalidHeader(name: string, message: string): Failure {
  const pointer = `header:${name}`;
  return new Failure('INVALID_PARAMETER', `${name} ${message}`, { violations: [{ pointer, rule: 'format', message }] });
}
