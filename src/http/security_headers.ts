// The headers that keep a browser from doing harm with what the server sends: those of every answer, and those of a page.
// Which answer is a page is for others to say.

export type CommonHeaders = Readonly<Record<string, string>>;

/** `hstsMaxAgeSeconds` only with TLS: over plain HTTP a browser has to overlook it (RFC 6797, 7.2). */
export function commonHeaders(hstsMaxAgeSeconds: number): CommonHeaders {
  const nosniff = { 'X-Content-Type-Options': 'nosniff' };
  if (hstsMaxAgeSeconds === 0) return nosniff;
  return { ...nosniff, 'Strict-Transport-Security': `max-age=${hstsMaxAgeSeconds}` };
}

/** A page has what comes from this server only, is in nobody's frame, and tells nobody where its reader was. */
export const pageHeaders: CommonHeaders = {
  'Content-Security-Policy':
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy':
    'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=(), serial=(), bluetooth=()',
};
