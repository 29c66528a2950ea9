// Strict base64url without padding (RFC 4648): each value has exactly one text, so that a signature covers every character.

/** Undefined for text that is not canonical, including the unused bits of the last character. */
export function strictBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}
