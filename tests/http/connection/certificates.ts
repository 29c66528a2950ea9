// Certificates for tests, created by the openssl command in a directory of the test, and HTTPS requests that trust one. Each has
// its own name, so that a client can tell which one it was shown.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type Agent, type RequestOptions, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { deadlineMs } from '../../deadline.ts';

export interface PairFiles {
  readonly tlsCertFile: string;
  readonly tlsKeyFile: string;
}

/** A directory that is deleted with the test. */
export function directoryOf(t: Pick<TestContext, 'after'>): string {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-tls-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** `name` becomes the subject and the start of the file names. */
export function makePair(directory: string, name: string, days = 30): PairFiles {
  const files = { tlsCertFile: join(directory, `${name}.crt`), tlsKeyFile: join(directory, `${name}.key`) };
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', files.tlsKeyFile];
  const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
  execFileSync(
    'openssl',
    ['req', '-x509', ...key, ...names, '-sha256', '-days', String(days), '-out', files.tlsCertFile],
    { stdio: 'ignore' },
  );
  return files;
}

/** A certificate for this name only, which the authority, a pair of `makePair`, has signed. `subject`: such as `DNS:localhost`. */
export function signPair(directory: string, name: string, authority: PairFiles, subject: string): PairFiles {
  const files = { tlsCertFile: join(directory, `${name}.crt`), tlsKeyFile: join(directory, `${name}.key`) };
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', files.tlsKeyFile];
  const names = [
    '-subj',
    `/CN=${name}`,
    '-addext',
    `subjectAltName=${subject}`,
    '-addext',
    'basicConstraints=CA:FALSE',
  ];
  const by = ['-CA', authority.tlsCertFile, '-CAkey', authority.tlsKeyFile];
  execFileSync(
    'openssl',
    ['req', '-x509', ...key, ...names, ...by, '-sha256', '-days', '30', '-out', files.tlsCertFile],
    {
      stdio: 'ignore',
    },
  );
  return files;
}

export interface SecureReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly text: string;
  /** The name in the certificate that the server showed. */
  readonly certificateName: string;
}

/** One request that trusts the certificate in `certFile` and no other. Without an agent it has a connection of its own. */
export function httpsRequest(
  url: string,
  certFile: string,
  options: RequestOptions & { readonly agent?: Agent | false } = {},
  body: string | Uint8Array = '',
): Promise<SecureReply> {
  const { promise, resolve, reject } = Promise.withResolvers<SecureReply>();
  const sent = request(
    url,
    { ca: readFileSync(certFile), agent: false, timeout: deadlineMs(15_000), ...options },
    (response) => {
      const certificateName = nameShown(response.socket as TLSSocket);
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          certificateName: certificateName,
        });
      });
    },
  );
  sent.on('timeout', () => sent.destroy(new Error(`no answer of ${url}`)));
  sent.on('error', reject);
  sent.end(body);
  return promise;
}

/** The name in the certificate that a new connection is shown. */
export function certificateNameAt(port: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, timeout: deadlineMs(15_000) }, () => {
    resolve(nameShown(socket));
    socket.destroy();
  });
  socket.on('error', reject);
  return promise;
}

function nameShown(socket: TLSSocket): string {
  return String(socket.getPeerCertificate().subject.CN);
}
