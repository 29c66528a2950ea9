// Security headers for browsers: those of every response, and those of pages.

export type CommonHeaders = Readonly<Record<string, string>>;

/** Set `hstsMaxAgeSeconds` only with TLS: browsers ignore the header over plain HTTP (RFC 6797, 7.2). */
export function commonHeaders(hstsMaxAgeSeconds: number): CommonHeaders {
  const nosniff = { 'X-Content-Type-Options': 'nosniff' };
  if (hstsMaxAgeSeconds === 0) return nosniff;
  return { ...nosniff, 'Strict-Transport-Security': `max-age=${hstsMaxAgeSeconds}` };
}

/** A page loads content from this server only, cannot be framed, and sends no referrer. */
export const pageHeaders: CommonHeaders = {
  'Content-Security-Policy':
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=(), serial=()',
};
