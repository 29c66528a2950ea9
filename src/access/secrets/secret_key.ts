// The key that encrypts the secrets in the store: 32 bytes stored outside of it, in a file or an environment variable. Encrypts and
// decrypts, reads and writes the key file. See secrets.ts for the secrets, secret_rotation.ts for changing the key.

import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { link, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { OperatorError } from '../../operator/operator_error.ts';
import { readOperatorFile } from '../../operator/operator_file.ts';
import { syncPath } from '../../store/sync_path.ts';

const keyBytes = 32;
const cipher = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
const keyIdCharacters = 16;
const modeOfOthers = 0o077;
const fileBytesMax = 4096;

/** The key is missing, invalid, or not the right one. The message is for the operator who starts the server. */
export class SecretKeyError extends OperatorError {
  override readonly name: string = 'SecretKeyError';
}

export interface SecretKey {
  /** Identifies the key without revealing anything about it. */
  readonly id: string;
  /** Encrypts. Bound to the name: a secret that is copied to another row does not open. */
  seal(name: string, text: string): string;
  /** Decrypts. Throws if the text was not sealed with this key and name. */
  open(name: string, sealed: string): string;
}

function keyOf(bytes: Buffer): SecretKey {
  const additional = (name: string) => Buffer.from(`tabularium secret 1\0${name}`);
  return {
    id: createHmac('sha256', bytes).update('tabularium key id 1').digest('hex').slice(0, keyIdCharacters),
    seal(name, text) {
      const nonce = randomBytes(nonceBytes);
      const sealing = createCipheriv(cipher, bytes, nonce).setAAD(additional(name));
      const body = [sealing.update(text, 'utf8'), sealing.final()];
      return Buffer.concat([nonce, ...body, sealing.getAuthTag()]).toString('base64');
    },
    open(name, sealed) {
      const all = Buffer.from(sealed, 'base64');
      if (all.length < nonceBytes + tagBytes) throw new Error('a sealed secret is too short');
      const end = all.length - tagBytes;
      const opening = createDecipheriv(cipher, bytes, all.subarray(0, nonceBytes), { authTagLength: tagBytes });
      opening.setAAD(additional(name)).setAuthTag(all.subarray(end));
      return opening.update(all.subarray(nonceBytes, end), undefined, 'utf8') + opening.final('utf8');
    },
  };
}

/** `where` names the variable or file in messages, which never contain the text itself. */
export function readKey(text: string, where: string): SecretKey {
  const trimmed = text.trim();
  const isHex = /^[0-9a-fA-F]{64}$/.test(trimmed);
  const isBase64 = /^(?:[A-Za-z0-9+/]{43}|[A-Za-z0-9_-]{43})=?$/.test(trimmed);
  const bytes = isHex || isBase64 ? Buffer.from(trimmed, isHex ? 'hex' : 'base64') : Buffer.alloc(0);
  if (bytes.length !== keyBytes)
    throw new SecretKeyError(
      `${where} must hold a key: ${keyBytes} random bytes in base64 or hexadecimal, such as the output of \`openssl rand -base64 ${keyBytes}\``,
    );
  return keyOf(bytes);
}

/** Undefined if the file does not exist. Throws SecretKeyError. */
export function readKeyFile(path: string): SecretKey | undefined {
  const advice = `put the file back, or name another with --secret-key-file; it must hold a key: ${keyBytes} random bytes in base64 or hexadecimal`;
  const bytes = readOperatorFile({
    path,
    what: 'the key of the secrets',
    advice,
    bytesMax: fileBytesMax,
    errorClass: SecretKeyError,
  });
  return bytes === undefined ? undefined : readKey(bytes.toString(), path);
}

/** Creates a key and its file, mode 0600, atomically and durably. The file must not exist. */
export async function createKeyFile(path: string): Promise<SecretKey> {
  const text = randomBytes(keyBytes).toString('base64');
  const draft = `${path}.draft`;
  try {
    await rm(draft, { force: true });
    const file = await open(draft, 'wx', 0o600);
    try {
      await file.writeFile(`${text}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await link(draft, path);
    await rm(draft);
    await syncPath(dirname(path));
  } catch (error) {
    throw new SecretKeyError(`the key file ${path} cannot be created: ${(error as NodeJS.ErrnoException).code}`);
  }
  return readKey(text, path);
}

/** Atomic: at every moment either the old or the new file exists at `path`. */
export async function replaceKeyFile(path: string, replacement: string): Promise<void> {
  try {
    await rename(replacement, path);
    await syncPath(dirname(path));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    throw new SecretKeyError(`${basename(replacement)} holds the key and cannot be renamed to ${path}: ${code}`);
  }
}

/** Whether users other than the owner have access to the file. */
export async function isExposed(path: string): Promise<boolean> {
  return ((await stat(path)).mode & modeOfOthers) !== 0;
}
