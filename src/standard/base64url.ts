// base64url without padding (RFC 4648), read strictly: one text for one value, so that a signature covers every character.

/** Undefined for text that is not exactly what an encoder writes, unused bits of the last character included. */
export function strictBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}
