// The conditions of a request that reads (RFC 9110, 13): what they come to for a content whose validators are known.
import type { IncomingHttpHeaders } from 'node:http';

export interface Validators {
  /** A strong one, with its quotes. */
  readonly etag: string;
  /** Milliseconds since 1970; callers see whole seconds. */
  readonly modifiedAt: number;
}

/** `met`: it is answered as if there were none. In the order of RFC 9110, 13.2.2. */
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

/** Whether an `If-None-Match` names a tag; weak and strong compare alike in it (RFC 9110, 13.1.2). */
export function isKnownTag(ifNoneMatch: string | undefined, etag: string): boolean {
  return tagsOf(ifNoneMatch ?? '').some((tag) => tag === '*' || tag === etag || tag === `W/${etag}`);
}

/** Whether a part may be sent to who has another part of what `If-Range` names: only a strong validator says so. */
export function isRangeOfSame(ifRange: string | undefined, { etag, modifiedAt }: Validators): boolean {
  if (ifRange === undefined || ifRange.trim() === etag) return true;
  // A file that can be read is never written again: its time tells as much as its tag.
  return timeOf(ifRange) === Math.floor(modifiedAt / 1000) * 1000;
}

/** The tags of an `If-Match`, weak ones left out because its comparison is strong; undefined: it is malformed. */
export function entityTagsOf(ifMatch: string): '*' | readonly string[] | undefined {
  if (ifMatch.trim() === '*') return '*';
  const tag = /(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/g;
  const tags = ifMatch.match(tag) ?? [];
  const rest = ifMatch.replace(tag, 't').split(',');
  if (tags.length === 0 || !rest.every((part) => /^(?:t|)$/.test(part.trim()))) return undefined;
  return tags.filter((one) => !one.startsWith('W/'));
}

/** The tags of a list; a comma may stand in one. */
function tagsOf(list: string): string[] {
  return [...list.matchAll(/\*|(?:W\/)?"[^"]*"/g)].map(([tag]) => tag);
}

/** The three forms of RFC 9110, 5.6.7; all are in UTC, also the one that does not say so. Undefined: it is none, and is to be ignored. */
function timeOf(text: string | undefined): number | undefined {
  if (text === undefined || !/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return undefined;
  const time = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
