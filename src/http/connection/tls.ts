// The certificate and its key: read, checked to fit each other, and read again when the files change, however they are
// replaced (written, renamed, a symbolic link turned to another directory). A bad pair is told and the old one kept.
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createSecureContext, type SecureVersion } from 'node:tls';
import type { Observe } from '../../observe/observations.ts';
import { TransportError } from './transport_error.ts';

export interface TlsOptions {
  readonly certFile: string;
  readonly keyFile: string;
  readonly minVersion: SecureVersion;
  /** Files may change unseen: in the directory that a link leads to, on a network, past the system's limit of watches. */
  readonly pollMs?: number;
}

/** As node:tls takes it. */
export interface TlsPair {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly minVersion: SecureVersion;
}

interface Loaded {
  readonly pair: TlsPair;
  readonly certificate: X509Certificate;
  readonly print: string;
}

const pollMsDefault = 5000;
/** From the first sign of a change to the look: both files are to be there. */
const settleMs = 200;
const dayMs = 86_400_000;
const expiryWarnedMs = 14 * dayMs;
const readableByOthers = 0o004;

export class TlsFiles {
  readonly #options: TlsOptions;
  readonly #watchers: FSWatcher[] = [];
  #loaded: Loaded;
  /** What was refused last, so that it is told once. */
  #refused: string | undefined;
  #poll: NodeJS.Timeout | undefined;
  #settling: NodeJS.Timeout | undefined;
  #looking = false;
  #expiryToldMs = Number.NEGATIVE_INFINITY;

  private constructor(options: TlsOptions, loaded: Loaded) {
    this.#options = options;
    this.#loaded = loaded;
  }

  /** Throws TransportError for files that cannot be read or do not fit together. */
  static async open(options: TlsOptions): Promise<TlsFiles> {
    const { certFile, keyFile } = options;
    return new TlsFiles(options, pairOf(await readText(certFile), await readText(keyFile), options));
  }

  get pair(): TlsPair {
    return this.#loaded.pair;
  }

  /** Calls `use` with each good pair that comes, until `stop`. */
  watch(use: (pair: TlsPair) => void, observe: Observe): void {
    const { certFile, keyFile, pollMs = pollMsDefault } = this.#options;
    observe({ kind: 'tlsLoaded', ...told(this.#loaded.certificate) });
    this.#warn(observe);
    const look = () => void this.#look(use, observe);
    const settle = () => {
      this.#settling ??= setTimeout(() => {
        this.#settling = undefined;
        look();
      }, settleMs).unref();
    };
    for (const directory of new Set([dirname(certFile), dirname(keyFile)])) {
      try {
        const watcher = watch(directory, { persistent: false }, settle);
        watcher.on('error', () => watcher.close());
        this.#watchers.push(watcher);
      } catch {
        // The system has no watch to give: the poll is left.
      }
    }
    this.#poll = setInterval(look, pollMs).unref();
    this.#tellKeyThatOthersRead(observe);
  }

  stop(): void {
    for (const watcher of this.#watchers.splice(0)) watcher.close();
    clearInterval(this.#poll);
    clearTimeout(this.#settling);
    this.#poll = undefined;
  }

  async #look(use: (pair: TlsPair) => void, observe: Observe): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    let print = '';
    try {
      const { certFile, keyFile } = this.#options;
      const [cert, key] = [await readText(certFile), await readText(keyFile)];
      print = printOf(cert, key);
      if (print !== this.#loaded.print && print !== this.#refused && this.#poll !== undefined) {
        const loaded = pairOf(cert, key, this.#options);
        use(loaded.pair);
        this.#loaded = loaded;
        this.#expiryToldMs = Number.NEGATIVE_INFINITY;
        observe({ kind: 'tlsReloaded', ...told(loaded.certificate) });
        this.#tellKeyThatOthersRead(observe);
      }
      if (print === this.#loaded.print) this.#refused = undefined;
    } catch (error) {
      const reason = (error as Error).message;
      if ((print || reason) !== this.#refused) observe({ kind: 'tlsReloadFailed', reason });
      this.#refused = print || reason;
    } finally {
      this.#looking = false;
    }
    this.#warn(observe);
  }

  /** Once a day while the end is near. */
  #warn(observe: Observe): void {
    const now = Date.now();
    const { validToDate } = this.#loaded.certificate;
    if (validToDate.getTime() - now > expiryWarnedMs || now - this.#expiryToldMs < dayMs) return;
    this.#expiryToldMs = now;
    observe({ kind: 'tlsExpiring', ...told(this.#loaded.certificate) });
  }

  #tellKeyThatOthersRead(observe: Observe): void {
    const { keyFile } = this.#options;
    stat(keyFile).then(
      ({ mode }) => {
        if ((mode & readableByOthers) !== 0) observe({ kind: 'tlsKeyExposed', keyFile });
      },
      () => undefined, // it is gone again: the next look says so
    );
  }
}

function told(certificate: X509Certificate) {
  const { subject, validToDate } = certificate;
  return { subject, notAfter: validToDate.toISOString() };
}

async function readText(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new TransportError(`the TLS file ${file} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

function printOf(cert: Buffer, key: Buffer): string {
  return createHash('sha256').update(cert).update('\0').update(key).digest('base64');
}

function pairOf(cert: Buffer, key: Buffer, options: TlsOptions): Loaded {
  const { certFile, keyFile, minVersion } = options;
  const attempt = <T>(what: string, make: () => T): T => {
    try {
      return make();
    } catch (error) {
      throw new TransportError(`${what}: ${(error as Error).message}`);
    }
  };
  const certificate = attempt(`${certFile} holds no certificate in PEM`, () => new X509Certificate(cert));
  const privateKey = attempt(`${keyFile} holds no private key in PEM without a passphrase`, () =>
    createPrivateKey(key),
  );
  if (!certificate.checkPrivateKey(privateKey))
    throw new TransportError(`the key in ${keyFile} is not that of the certificate in ${certFile}`);
  const pair: TlsPair = { cert, key, minVersion };
  attempt(`${certFile} and ${keyFile} cannot be used`, () => createSecureContext(pair));
  return { pair, certificate, print: printOf(cert, key) };
}
