// A setting of the transport that cannot be used. main.ts makes it an error of settings, which this room does not know.

export class TransportError extends Error {
  override readonly name = 'TransportError';
}
