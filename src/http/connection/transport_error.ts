// An invalid setting of the transport. main.ts converts it to a SettingsError, which http/ does not import.

export class TransportError extends Error {
  override readonly name = 'TransportError';
}
