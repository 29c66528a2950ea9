// Calls of the server to the process of the engine, over HTTP: cancellation, time limits, and the failures of a lost connection.
import { randomUUID } from 'node:crypto';
import { Agent, type IncomingMessage, request } from 'node:http';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { EngineLost } from '../../../src/engines/engine_lost.ts';
import { StaleAnalysis } from '../../../src/engines/port/statements.ts';
import type { Code, RequestOutcome } from '../../../src/standard/codes.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { parseJson } from '../../../src/standard/json/parse_json.ts';
import type { CallEnd } from './server/calls.ts';
import type { OperationName, Operations } from './server/operations.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** By which the call can be found while it runs. */
  readonly id?: string | undefined;
  /** Sent after the argument. */
  readonly input?: AsyncIterable<Uint8Array> | undefined;
  /** Receives each line of rows. */
  readonly onLine?: ((line: string) => void | Promise<void>) | undefined;
}

export class EngineConnection {
  readonly #port: () => Promise<number>;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(port: () => Promise<number>) {
    this.#port = port;
  }

  async call<K extends OperationName>(
    operation: K,
    argument: Operations[K][0],
    options: CallOptions = {},
  ): Promise<Operations[K][1]> {
    const { signal, timeoutMs, id = randomUUID() } = options;
    if (signal?.aborted) throw cancelled();
    const cancel = () => void this.#send('cancel', id, null, {}).catch(() => undefined);
    let isTimeOver = false;
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            isTimeOver = true;
            cancel();
          }, timeoutMs);
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      return (await this.#send(operation, id, argument, options)) as Operations[K][1];
    } catch (error) {
      const wasStopped = isTimeOver && error instanceof Failure && error.code === 'STATEMENT_CANCELLED';
      throw wasStopped ? timedOut(timeoutMs ?? 0) : error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** Assigns a step to a write that runs. */
  async assignStep(id: string, step: string): Promise<boolean> {
    return (await this.#send('assignStep', id, step, {})) === true;
  }

  close(): void {
    this.#agent.destroy();
  }

  async #send(operation: string, id: string, argument: unknown, { input, onLine }: CallOptions): Promise<unknown> {
    const port = await this.#port();
    const { promise: answered, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = request({
      agent: this.#agent,
      host: '127.0.0.1',
      port,
      path: `/${operation}/${id}`,
      method: 'POST',
    });
    sent.once('response', resolve);
    sent.once('error', (error: NodeJS.ErrnoException) => reject(lost(error)));
    const line = Buffer.from(`${JSON.stringify(argument)}\n`);
    // An input that fails ends the request, and so the call.
    const sending = input === undefined ? undefined : pipeline(Readable.from(withFirst(line, input)), sent);
    sending?.catch(() => undefined);
    if (sending === undefined) sent.end(line);
    return endOf(await answered, onLine);
  }
}

async function* withFirst(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}

async function endOf(response: IncomingMessage, onLine: CallOptions['onLine']): Promise<unknown> {
  let last = '';
  try {
    for await (const line of createInterface({ input: response, crlfDelay: Number.POSITIVE_INFINITY })) {
      if (last !== '') await onLine?.(last);
      last = line;
    }
  } catch (error) {
    throw error instanceof Failure ? error : lost(error as Error);
  }
  if (!response.complete || last === '') throw lost(new Error('the response is incomplete'));
  const end = JSON.parse(last) as CallEnd;
  if ('value' in end) return end.value;
  if ('stale' in end) throw new StaleAnalysis();
  const { code, message } = end.failure;
  if (code === 'INTERNAL_ERROR') throw new Error(`the engine failed: ${message}`);
  const { failure } = parseJson(last) as typeof end;
  throw new Failure(code as Code, message, { ...failure.result });
}

const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
const timedOut = (ms: number) =>
  new Failure('STATEMENT_TIMEOUT', `the statement ran longer than ${ms / 1000} s and was stopped`, {
    timeoutSeconds: ms / 1000,
  });

/** A connection that was never made did nothing. */
function lost(error: NodeJS.ErrnoException): Failure {
  const outcome: RequestOutcome = error.code === 'ECONNREFUSED' ? 'notApplied' : 'unknown';
  const cause = new EngineLost({ isToBlame: false });
  cause.cause = error;
  return new Failure('WAREHOUSE_FAILED', 'the engine of the warehouse cannot be reached', {}, { cause, outcome });
}
