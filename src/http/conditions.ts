// Conditional GET requests (RFC 9110, 13), evaluated against the validators of a representation.
import type { IncomingHttpHeaders } from 'node:http';

export interface Validators {
  /** A strong entity tag, with its quotes. */
  readonly etag: string;
  /** Milliseconds since 1970; callers see whole seconds. */
  readonly modifiedAt: number;
}

/** `met`: the request is answered as if it had no conditions. Evaluated in the order of RFC 9110, 13.2.2. */
export function conditionOf(headers: IncomingHttpHeaders, { etag, modifiedAt }: Validators): 'met' | 304 | 412 {
  const modified = Math.floor(modifiedAt / 1000) * 1000;
  const match = headers['if-match'];
  if (match !== undefined) {
    if (!tagsOf(match).some((tag) => tag === '*' || tag === etag)) return 412;
  } else {
    const since = timeOf(headers['if-unmodified-since']);
    if (since !== undefined && modified > since) return 412;
  }
  const noneMatch = headers['if-none-match'];
  if (noneMatch !== undefined) return isKnownTag(noneMatch, etag) ? 304 : 'met';
  const since = timeOf(headers['if-modified-since']);
  return since !== undefined && modified <= since ? 304 : 'met';
}

/** Whether an `If-None-Match` lists a tag, by weak comparison (RFC 9110, 13.1.2). */
export function isKnownTag(ifNoneMatch: string | undefined, etag: string): boolean {
  return tagsOf(ifNoneMatch ?? '').some((tag) => tag === '*' || tag === etag || tag === `W/${etag}`);
}

/** Whether `If-Range` permits a partial response. Only a strong validator does. */
export function isRangeOfSame(ifRange: string | undefined, { etag, modifiedAt }: Validators): boolean {
  if (ifRange === undefined || ifRange.trim() === etag) return true;
  // Readable files are immutable, so the modification time is as strong as the entity tag.
  return timeOf(ifRange) === Math.floor(modifiedAt / 1000) * 1000;
}

/** The strong tags of an `If-Match`, whose comparison is strong; undefined when the header is malformed. */
export function entityTagsOf(ifMatch: string): '*' | readonly string[] | undefined {
  if (ifMatch.trim() === '*') return '*';
  const tag = /(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/g;
  const tags = ifMatch.match(tag) ?? [];
  const rest = ifMatch.replace(tag, 't').split(',');
  if (tags.length === 0 || !rest.every((part) => /^(?:t|)$/.test(part.trim()))) return undefined;
  return tags.filter((match) => !match.startsWith('W/'));
}

/** The tags of a list; a tag may contain a comma. */
function tagsOf(list: string): string[] {
  return [...list.matchAll(/\*|(?:W\/)?"[^"]*"/g)].map(([tag]) => tag);
}

/** Parses the three date formats of RFC 9110, 5.6.7, all in UTC even when the text does not say so. Undefined: invalid, to be ignored. */
function timeOf(text: string | undefined): number | undefined {
  if (text === undefined || !/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return undefined;
  const time = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
