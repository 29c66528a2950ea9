// The algorithms by which identity providers may sign their tokens (RFC 7518, RFC 8037).

export const signingAlgorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'HS256',
  'HS384',
  'HS512',
] as const;

export type SigningAlgorithm = (typeof signingAlgorithms)[number];
