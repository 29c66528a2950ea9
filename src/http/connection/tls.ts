// The TLS certificate and its key: loaded, checked to match, and reloaded when the files change, however they are replaced (written,
// renamed, a symbolic link pointed to another directory). An invalid pair is reported and the old one remains in use.

import { createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createSecureContext, type SecureVersion } from 'node:tls';
import { dayMs } from '../../model/durations.ts';
import type { Observe } from '../../observe/observations.ts';
import { SettingsError } from '../../operator/operator_error.ts';
import { requireOperatorFile } from '../../operator/operator_file.ts';

export interface TlsOptions {
  readonly certFile: string;
  readonly keyFile: string;
  readonly minVersion: SecureVersion;
  /** Polling finds changes without file events: behind a link, on a network file system, or over the system's limit of watches. */
  readonly pollMs?: number;
}

/** In the form that node:tls accepts. */
export interface TlsPair {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly minVersion: SecureVersion;
}

interface Loaded {
  readonly pair: TlsPair;
  readonly certificate: X509Certificate;
  readonly fingerprint: string;
}

const pollMsDefault = 5000;
/** The delay from the first change event to the reload, so that both files are in place. */
const settleMs = 200;
const expiryWarningMs = 14 * dayMs;
const readableByOthers = 0o004;

export class TlsFiles {
  readonly #options: TlsOptions;
  readonly #watchers: FSWatcher[] = [];
  #loaded: Loaded;
  /** The last rejected pair or error, so that it is reported once. */
  #refused: string | undefined;
  #poll: NodeJS.Timeout | undefined;
  #settling: NodeJS.Timeout | undefined;
  #reloading = false;
  #expiryReportedMs = Number.NEGATIVE_INFINITY;

  private constructor(options: TlsOptions, loaded: Loaded) {
    this.#options = options;
    this.#loaded = loaded;
  }

  /** Throws SettingsError when the files cannot be read or do not match. */
  static async open(options: TlsOptions): Promise<TlsFiles> {
    const { certFile, keyFile } = options;
    return new TlsFiles(options, pairOf(readTlsFile(certFile), readTlsFile(keyFile), options));
  }

  get pair(): TlsPair {
    return this.#loaded.pair;
  }

  /** Calls `use` with each new valid pair, until `stop`. */
  watch(use: (pair: TlsPair) => void, observe: Observe): void {
    const { certFile, keyFile, pollMs = pollMsDefault } = this.#options;
    observe({ kind: 'tlsLoaded', ...summaryOf(this.#loaded.certificate) });
    this.#warn(observe);
    const reload = () => void this.#reload(use, observe);
    const settle = () => {
      this.#settling ??= setTimeout(() => {
        this.#settling = undefined;
        reload();
      }, settleMs).unref();
    };
    for (const directory of new Set([dirname(certFile), dirname(keyFile)])) {
      try {
        const watcher = watch(directory, { persistent: false }, settle);
        watcher.on('error', () => watcher.close());
        this.#watchers.push(watcher);
      } catch {
        // The system limit of watches is reached: polling remains.
      }
    }
    this.#poll = setInterval(reload, pollMs).unref();
    this.#reportExposedKey(observe);
  }

  stop(): void {
    for (const watcher of this.#watchers.splice(0)) watcher.close();
    clearInterval(this.#poll);
    clearTimeout(this.#settling);
    this.#poll = undefined;
  }

  async #reload(use: (pair: TlsPair) => void, observe: Observe): Promise<void> {
    if (this.#reloading) return;
    this.#reloading = true;
    let fingerprint = '';
    try {
      const { certFile, keyFile } = this.#options;
      const [cert, key] = [readTlsFile(certFile), readTlsFile(keyFile)];
      fingerprint = fingerprintOf(cert, key);
      if (fingerprint !== this.#loaded.fingerprint && fingerprint !== this.#refused && this.#poll !== undefined) {
        const loaded = pairOf(cert, key, this.#options);
        use(loaded.pair);
        this.#loaded = loaded;
        this.#expiryReportedMs = Number.NEGATIVE_INFINITY;
        observe({ kind: 'tlsReloaded', ...summaryOf(loaded.certificate) });
        this.#reportExposedKey(observe);
      }
      if (fingerprint === this.#loaded.fingerprint) this.#refused = undefined;
    } catch (error) {
      const reason = (error as Error).message;
      if ((fingerprint || reason) !== this.#refused) observe({ kind: 'tlsReloadFailed', reason });
      this.#refused = fingerprint || reason;
    } finally {
      this.#reloading = false;
    }
    this.#warn(observe);
  }

  /** Reports once a day that the certificate expires soon. */
  #warn(observe: Observe): void {
    const now = Date.now();
    const { validToDate } = this.#loaded.certificate;
    if (validToDate.getTime() - now > expiryWarningMs || now - this.#expiryReportedMs < dayMs) return;
    this.#expiryReportedMs = now;
    observe({ kind: 'tlsExpiring', ...summaryOf(this.#loaded.certificate) });
  }

  #reportExposedKey(observe: Observe): void {
    const { keyFile } = this.#options;
    stat(keyFile).then(
      ({ mode }) => {
        if ((mode & readableByOthers) !== 0) observe({ kind: 'tlsKeyExposed', keyFile });
      },
      () => undefined, // the next reload reports a missing file
    );
  }
}

function summaryOf(certificate: X509Certificate) {
  const { subject, validToDate } = certificate;
  return { subject, notAfter: validToDate.toISOString() };
}

function readTlsFile(path: string): Buffer {
  const advice = 'check tlsCertFile and tlsKeyFile, and the owner and the mode of the file';
  return requireOperatorFile({ path, what: 'a certificate or key of TLS', advice, errorClass: SettingsError });
}

function fingerprintOf(cert: Buffer, key: Buffer): string {
  return createHash('sha256').update(cert).update('\0').update(key).digest('base64');
}

function pairOf(cert: Buffer, key: Buffer, options: TlsOptions): Loaded {
  const { certFile, keyFile, minVersion } = options;
  const attempt = <T>(what: string, make: () => T): T => {
    try {
      return make();
    } catch (error) {
      throw new SettingsError(`${what}: ${(error as Error).message}`);
    }
  };
  const certificate = attempt(`${certFile} does not contain a PEM certificate`, () => new X509Certificate(cert));
  const privateKey = attempt(`${keyFile} does not contain an unencrypted PEM private key`, () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey))
    throw new SettingsError(`the key in ${keyFile} does not match the certificate in ${certFile}`);
  const pair: TlsPair = { cert, key, minVersion };
  attempt(`${certFile} and ${keyFile} cannot be used`, () => createSecureContext(pair));
  return { pair, certificate, fingerprint: fingerprintOf(cert, key) };
}
