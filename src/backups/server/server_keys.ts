// The keys that a restored server needs: the key of its secrets and the token of its first user. In a backup they are encrypted with a
// passphrase, or in plain text without one.

import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto';
import { join } from 'node:path';
import { rootTokenFileName } from '../../access/authentication/root_token.ts';
import { secretKeyFileName } from '../../access/secrets/secrets.ts';
import { OperatorError } from '../../operator/operator_error.ts';
import { requireOperatorFile } from '../../operator/operator_file.ts';
import { type Static, Type } from '../../standard/type.ts';
import { validation } from '../../standard/validation.ts';
import { tryParse, unusableBackup } from '../manifest.ts';

const cipher = 'aes-256-gcm';
const keyBytes = 32;
const nonceBytes = 12;
const saltBytes = 16;
/** About 0.1 s and 128 MiB for each guess (RFC 7914; OWASP's parameters for scrypt). */
const cost = { N: 131_072, r: 8, p: 1 };
const scryptMemoryBytesMax = 256 * 1024 * 1024;

const ServerKeys = Type.Object({
  rootToken: Type.String(),
  /** Absent if it is not stored in the data directory. */
  secretKey: Type.Optional(Type.String()),
});
const Base64 = Type.String({ pattern: '^[A-Za-z0-9+/]*={0,2}$', maxLength: 65_536 });
const Wrapped = Type.Object({ kdf: Type.Literal('scrypt'), salt: Base64, nonce: Base64, sealed: Base64, tag: Base64 });

export type ServerKeys = Static<typeof ServerKeys>;

const isKeys = (value: unknown): value is ServerKeys => validation().Compile(ServerKeys).Check(value);

/** The passphrase is missing or wrong. The message is for the operator who runs the command. */
export class PassphraseError extends OperatorError {
  override readonly name: string = 'PassphraseError';
}

/** `isKeyOutside`: the operator stores the key of the secrets elsewhere; it is not read. */
export function loadServerKeys(dataDirectory: string, isKeyOutside: boolean): ServerKeys {
  const read = (name: string, what: string) =>
    requireOperatorFile({ path: join(dataDirectory, name), what, advice: 'put the file back' })
      .toString()
      .trim();
  const rootToken = read(rootTokenFileName, 'the token of root');
  return isKeyOutside ? { rootToken } : { rootToken, secretKey: read(secretKeyFileName, 'the key of the secrets') };
}

/** Serializes the keys for a backup: encrypted, or in plain text if the passphrase is empty. */
export class KeySealer {
  readonly #passphrase: string;
  /** Derived for the first backup and reused, because the derivation is expensive by design. */
  #derivedKey: Promise<{ readonly salt: Buffer; readonly key: Buffer }> | undefined;

  constructor(passphrase: string) {
    this.#passphrase = passphrase;
  }

  get isPlain(): boolean {
    return this.#passphrase === '';
  }

  async serializeKeys(keys: ServerKeys): Promise<string> {
    if (this.isPlain) return JSON.stringify(keys);
    this.#derivedKey ??= deriveNewKey(this.#passphrase).catch((error: unknown) => {
      this.#derivedKey = undefined;
      throw error;
    });
    const { salt, key } = await this.#derivedKey;
    const nonce = randomBytes(nonceBytes);
    const sealing = createCipheriv(cipher, key, nonce);
    const sealed = Buffer.concat([sealing.update(JSON.stringify(keys), 'utf8'), sealing.final()]);
    const text = (bytes: Buffer) => bytes.toString('base64');
    return JSON.stringify({
      kdf: 'scrypt',
      salt: text(salt),
      nonce: text(nonce),
      sealed: text(sealed),
      tag: text(sealing.getAuthTag()),
    } satisfies Static<typeof Wrapped>);
  }
}

async function deriveNewKey(passphrase: string) {
  const salt = randomBytes(saltBytes);
  return { salt, key: await deriveKey(passphrase, salt) };
}

/** Throws DATA_INVALID, PassphraseError. */
export async function readKeys(text: string, passphrase: string): Promise<ServerKeys> {
  const read = tryParse(text);
  if (isKeys(read)) return read;
  if (!validation().Compile(Wrapped).Check(read)) throw unusableBackup('its keys cannot be read');
  if (passphrase === '')
    throw new PassphraseError(
      'the keys of the backup are encrypted with a passphrase: give it in TABULARIUM_BACKUP_PASSPHRASE',
    );
  const bytes = (field: string) => Buffer.from(field, 'base64');
  try {
    const opening = createDecipheriv(cipher, await deriveKey(passphrase, bytes(read.salt)), bytes(read.nonce), {
      authTagLength: 16,
    });
    opening.setAuthTag(bytes(read.tag));
    const opened = tryParse(opening.update(bytes(read.sealed), undefined, 'utf8') + opening.final('utf8'));
    if (isKeys(opened)) return opened;
  } catch (cause) {
    throw new PassphraseError('TABULARIUM_BACKUP_PASSPHRASE is not the passphrase of this backup', { cause });
  }
  throw unusableBackup('its keys cannot be read');
}

function deriveKey(passphrase: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(passphrase.normalize('NFKC'), salt, keyBytes, { ...cost, maxmem: scryptMemoryBytesMax }, (error, key) =>
      error ? reject(error) : resolve(key),
    );
  });
}
