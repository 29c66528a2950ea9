// The HTTP client of tests of raw HTTP: sends exactly what it is given on persistent connections, and returns the response.
import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';

export interface RawRequest {
  readonly method: string;
  /** Sent exactly as given. */
  readonly path: string;
  /** One that is undefined is not sent. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body?: string | Uint8Array | undefined;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Called when the request has left this process. */
  readonly onSent?: () => void;
}

export interface RawReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** As they came, perhaps compressed. */
  readonly bytes: Buffer;
}

export class RawHttp {
  readonly #url: URL;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(url: string) {
    this.#url = new URL(url);
  }

  /** Rejects if the connection breaks before the response is complete, or if no response comes in time. */
  send({ method, path, headers = {}, body, timeoutMs, signal, onSent }: RawRequest): Promise<RawReply> {
    const allHeaders = body === undefined ? headers : { 'content-length': String(Buffer.byteLength(body)), ...headers };
    const { promise, resolve, reject } = Promise.withResolvers<RawReply>();
    const request = httpRequest(
      {
        host: this.#url.hostname,
        port: this.#url.port,
        agent: this.#agent,
        method,
        path,
        headers: Object.fromEntries(Object.entries(allHeaders).filter(([, value]) => value !== undefined)) as Record<
          string,
          string
        >,
        timeout: timeoutMs,
        ...(signal ? { signal } : {}),
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const bytes = Buffer.concat(chunks);
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text: bytes.toString(), bytes });
        });
      },
    );
    request.on('timeout', () => request.destroy(new Error(`${method} ${path}: no answer in ${timeoutMs} ms`)));
    request.on('error', reject);
    if (onSent) request.once('finish', onSent);
    request.end(body);
    return promise;
  }

  close(): void {
    this.#agent.destroy();
  }
}
