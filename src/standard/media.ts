// Content negotiation (rest-standard A4, B2): evaluates Accept and Content-Type headers.
import { Failure } from './failure.ts';

/** Whether an Accept header allows application/json with a quality above 0; true when absent. The most specific range decides. */
export function acceptsJson(accept: string | undefined): boolean {
  if (accept === undefined || accept === '*/*' || accept === 'application/json') return true;
  let best = -1;
  let quality = 0;
  for (const part of accept.split(',')) {
    const [range = '', ...parameters] = part.split(';').map((s) => s.trim());
    const specificity = rangeSpecificity(range.toLowerCase(), parameters);
    if (specificity <= best) continue;
    best = specificity;
    const q = parameters.find((p) => /^q=/i.test(p));
    quality = q === undefined ? 1 : /^q=(?:0?\.\d{1,3}|0\.?|1(?:\.0{0,3})?)$/i.test(q) ? Number(q.slice(2)) : 0;
  }
  return quality > 0;
}

function rangeSpecificity(range: string, parameters: readonly string[]): number {
  const mediaParameters = parameters.filter((p) => p !== '' && !/^q=/i.test(p));
  if (range === 'application/json') {
    return mediaParameters.every((p) => /^charset="?utf-8"?$/i.test(p)) ? 2 + mediaParameters.length : -1;
  }
  if (mediaParameters.length > 0) return -1;
  // Old Java clients send a lone star.
  return range === 'application/*' ? 1 : range === '*/*' || range === '*' ? 0 : -1;
}

/** The media type of a Content-Type header in lower case; undefined when its charset is not UTF-8. */
export function mediaTypeOf(contentType: string | undefined): string | undefined {
  if (contentType === undefined) return undefined;
  const [type = '', ...parameters] = contentType.split(';').map((s) => s.trim());
  for (const parameter of parameters) {
    if (/^charset=/i.test(parameter) && !/^charset="?utf-?8"?$/i.test(parameter)) return undefined;
  }
  return type.toLowerCase();
}

/** Returns the media type of the request. Throws UNSUPPORTED_MEDIA_TYPE unless it is one of the declared ones. */
export function requireMediaType(contentType: string | undefined, declared: readonly string[]): string {
  const type = mediaTypeOf(contentType);
  if (type !== undefined && declared.includes(type)) return type;
  const actual =
    contentType === undefined ? 'no Content-Type' : `Content-Type ${JSON.stringify(contentType.slice(0, 100))}`;
  throw new Failure(
    'UNSUPPORTED_MEDIA_TYPE',
    `this API accepts ${declared.join(' or ')} in UTF-8; the request has ${actual}`,
    {
      supported: declared,
    },
  );
}
