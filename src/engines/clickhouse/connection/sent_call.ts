// A call that was sent to a server: when it counts as begun, answered, stopped and lost.
import type { Dispatcher } from 'undici';
import { Failure } from '../../../standard/failure.ts';
import { ClickHouseError, connectionLost } from './clickhouse_error.ts';
import { ResponseBody } from './response_body.ts';

const cancelledCode = 394;
const timeoutCode = 159;

export class SentCall {
  readonly answered: Promise<ResponseBody>;
  body: ResponseBody | undefined;
  /** The status of the response: its body is an error. */
  isFailed = false;
  readonly #resolve: (body: ResponseBody) => void;
  readonly #reject: (error: unknown) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #stopped: Failure | undefined;

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<ResponseBody>();
    this.answered = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    // It may fail while nobody waits for it yet.
    promise.catch(() => undefined);
  }

  begin(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#stopped) controller.abort(this.#stopped);
  }

  /** `exceeded`: the failure of a call that the server ended because of its time limit. */
  answer(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
    exceeded: Failure,
  ): void {
    const tag = headers['x-clickhouse-exception-tag'];
    this.isFailed = status !== 200;
    this.body = new ResponseBody(controller, {
      tag: typeof tag === 'string' ? tag : undefined,
      isFailed: this.isFailed,
      toReason: (error) => this.#reasonOf(error, exceeded),
    });
    this.#resolve(this.body);
  }

  lose(error: Error): void {
    const reason = error instanceof Failure ? error : connectionLost(error, this.#controller !== undefined);
    if (this.body) this.body.breakOff(reason);
    else this.#reject(reason);
  }

  /** The connection is given up, as if it was lost. */
  abandon(): void {
    const error = new Error('the server does not respond');
    this.lose(error);
    this.#controller?.abort(error);
  }

  /** @returns false if it was stopped before. A call that was not begun ends at once. */
  stop(reason: Failure): boolean {
    if (this.#stopped) return false;
    this.#stopped = reason;
    if (!this.#controller) this.#reject(withOutcomeOf(reason, 'notApplied'));
    return true;
  }

  /** The server does not answer. */
  giveUp(reason: Failure): void {
    const unknown = withOutcomeOf(reason, 'unknown');
    if (this.body) this.body.destroy(unknown);
    else this.#controller?.abort(unknown);
    this.#reject(unknown);
  }

  #reasonOf(error: unknown, exceeded: Failure): unknown {
    if (!(error instanceof ClickHouseError)) return error;
    if (error.code === timeoutCode) return exceeded;
    return error.code === cancelledCode && this.#stopped ? this.#stopped : error;
  }
}

function withOutcomeOf({ code, message, result, cause }: Failure, outcome: 'notApplied' | 'unknown'): Failure {
  return new Failure(code, message, { ...result }, { cause, outcome });
}
