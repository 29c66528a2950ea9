// Sends the requests of the kit and keeps what came back. Each call has a deadline and a bound; redirects are not followed; credentials go to
// the service's own origin only.

export interface Call {
  readonly method: string;
  /** Below the base URL, percent-encoded. */
  readonly path: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** By default the credentials that the kit was given. `none`: without any. */
  readonly authorization?: 'none' | string;
}

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Undefined: not JSON, or empty. */
  readonly json: unknown;
}

export interface Service {
  /** Without a slash at the end. */
  readonly baseUrl: string;
  /** The value of the header Authorization. */
  readonly authorization: string | undefined;
  readonly callTimeoutMs: number;
}

/** The service cannot be reached, or does not answer in time. */
export class CallError extends Error {
  override readonly name = 'CallError';
}

const bodyBytesMax = 16 * 1024 * 1024;
const busyRetriesMax = 5;
const busyPauseMsMax = 5000;
const pollMsMin = 20;
const pollMsMax = 1000;

export class Calls {
  readonly #service: Service;
  readonly #signal: AbortSignal;
  readonly exchanges: Exchange[] = [];

  constructor(service: Service, signal: AbortSignal) {
    this.#service = service;
    this.#signal = signal;
  }

  /** The same service, for calls after an interruption. */
  withSignal(signal: AbortSignal): Calls {
    return new Calls(this.#service, signal);
  }

  /** What is temporarily unavailable (503) is sent again a few times: a rate limit is no fault. Throws CallError. */
  async send(call: Call): Promise<Exchange> {
    for (let attempt = 1; ; attempt++) {
      const exchange = await this.#sendOnce(call);
      this.exchanges.push(exchange);
      if (exchange.status !== 503 || attempt > busyRetriesMax) return exchange;
      const seconds = Number(exchange.headers.get('retry-after') ?? 1);
      await this.pause(Math.min(Number.isFinite(seconds) ? seconds * 1000 : 1000, busyPauseMsMax));
    }
  }

  async pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    this.#signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    clearTimeout(timer);
    this.#signal.throwIfAborted();
  }

  /** Asks again and again, ever more slowly. @returns whether it became so in time. */
  async until(isSo: () => Promise<boolean>, timeoutMs: number): Promise<boolean> {
    const deadline = performance.now() + timeoutMs;
    for (let pauseMs = pollMsMin; ; pauseMs = Math.min(pauseMs * 2, pollMsMax)) {
      if (await isSo()) return true;
      if (performance.now() > deadline) return false;
      await this.pause(pauseMs);
    }
  }

  /** The path below the base URL of a URI in a response. Undefined: it is of another origin, or none. */
  pathOf(uri: string): string | undefined {
    const { baseUrl } = this.#service;
    const url = URL.parse(uri, `${baseUrl}/`);
    if (!url || url.origin !== new URL(baseUrl).origin) return undefined;
    const prefix = new URL(baseUrl).pathname.replace(/\/$/, '');
    const path = `${url.pathname}${url.search}`;
    return path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path;
  }

  async #sendOnce({
    method,
    path,
    body,
    headers = {},
    authorization = this.#service.authorization,
  }: Call): Promise<Exchange> {
    const timeout = AbortSignal.timeout(this.#service.callTimeoutMs);
    const sent: Record<string, string> = { accept: 'application/json', ...headers };
    if (authorization !== undefined && authorization !== 'none') sent.authorization = authorization;
    if (body !== undefined && sent['content-type'] === undefined) sent['content-type'] = 'application/json';
    try {
      const response = await fetch(`${this.#service.baseUrl}${path}`, {
        method,
        headers: sent,
        redirect: 'manual',
        signal: AbortSignal.any([this.#signal, timeout]),
        ...(body === undefined ? {} : { body }),
      });
      const text = await bounded(response);
      return { method, path, status: response.status, headers: response.headers, text, json: parsed(text) };
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof CallError) throw error;
      const { callTimeoutMs } = this.#service;
      if (timeout.aborted) throw new CallError(`${method} ${path} was not answered within ${callTimeoutMs} ms`);
      const cause = (error as Error).cause as NodeJS.ErrnoException | undefined;
      throw new CallError(`${method} ${path} failed: ${cause?.code ?? cause?.message ?? String(error)}`, {
        cause: error,
      });
    }
  }
}

async function bounded(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > bodyBytesMax) throw new CallError(`a response is larger than ${bodyBytesMax / 1024 ** 2} MiB`);
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
