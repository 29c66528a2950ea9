// A statement that was started from the page: its state, its progress and its rows, which the worker of results keeps.
import { errors, type TabulariumError } from '../../../../src/client/index.ts';
import { expireSession, onSessionChange, sessionToken } from '../../app/session.ts';
import type {
  Answers,
  BegunResult,
  FromWorker,
  Question,
  RunProgress,
  SentError,
  Statement,
  Summary,
  ToWorker,
} from './messages.ts';

export type RunState =
  | {
      readonly kind: 'running';
      readonly progress?: RunProgress;
      readonly isCancelling: boolean;
      /** While later rows are computed. */
      readonly begun?: BegunResult;
    }
  | { readonly kind: 'succeeded'; readonly summary: Summary; readonly tookMs: number }
  | {
      readonly kind: 'failed';
      readonly error: TabulariumError;
      readonly tookMs: number;
      /** The rows that had arrived. */
      readonly begun: BegunResult | undefined;
    };

let worker: Worker | undefined;
let lastRun = 0;
let lastRequest = 0;
const runs = new Map<number, StatementRun>();

function send(message: ToWorker): void {
  worker ??= startWorker();
  worker.postMessage(message);
}

/** The worker starts before the first statement needs it. */
export function prepareResults(): void {
  worker ??= startWorker();
}

function startWorker(): Worker {
  const started = new Worker(new URL('./result_worker.ts', import.meta.url), { type: 'module' });
  started.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => runs.get(data.run)?.receive(data));
  onSessionChange((user) => {
    if (user !== undefined) send({ run: 0, kind: 'token', token: sessionToken() });
  });
  return started;
}

/** `errors` has a class for every code, also for those of a newer server. */
const errorOf = ({ code, ...details }: SentError): TabulariumError => new errors[code as 'INTERNAL_ERROR'](details);

export class StatementRun {
  readonly statement: Statement;
  readonly startedAt = performance.now();
  readonly #id = ++lastRun;
  readonly #listeners = new Set<() => void>();
  readonly #requests = new Map<number, { resolve(answer: unknown): void; reject(error: unknown): void }>();
  #state: RunState = { kind: 'running', isCancelling: false };
  #fetched = 0;

  constructor(statement: Statement) {
    this.statement = statement;
    runs.set(this.#id, this);
    send({ run: this.#id, kind: 'start', statement, origin: location.origin, token: sessionToken() });
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };
  readonly state = (): RunState => this.#state;
  /** How many rows the worker has. */
  readonly fetched = (): number => this.#fetched;

  cancel(): void {
    if (this.#state.kind !== 'running') return;
    this.#change({ ...this.#state, isCancelling: true });
    send({ run: this.#id, kind: 'cancel' });
  }

  /** Cancels it if it still runs, and forgets its rows. */
  close(): void {
    send({ run: this.#id, kind: 'close' });
    runs.delete(this.#id);
  }

  ask<K extends Question['kind']>(question: Extract<Question, { kind: K }>): Promise<Answers[K]> {
    const request = ++lastRequest;
    const { promise, resolve, reject } = Promise.withResolvers<Answers[K]>();
    this.#requests.set(request, { resolve: resolve as (answer: unknown) => void, reject });
    send({ run: this.#id, kind: 'ask', request, question });
    return promise;
  }

  receive(message: FromWorker): void {
    const tookMs = performance.now() - this.startedAt;
    switch (message.kind) {
      case 'progress':
        if (this.#state.kind === 'running') this.#change({ ...this.#state, progress: message.progress });
        break;
      case 'begun':
        if (this.#state.kind === 'running') this.#change({ ...this.#state, begun: message.begun });
        break;
      case 'succeeded':
        this.#change({ kind: 'succeeded', summary: message.summary, tookMs });
        break;
      case 'failed':
        if (message.error.status === 401) expireSession();
        this.#change({ kind: 'failed', error: errorOf(message.error), tookMs, begun: this.#begun() });
        break;
      case 'fetched':
        this.#fetched = message.rows;
        this.#notify();
        break;
      case 'answer':
        this.#requests.get(message.request)?.resolve(message.answer);
        this.#requests.delete(message.request);
        break;
      case 'noAnswer':
        if (message.error.status === 401) expireSession();
        this.#requests.get(message.request)?.reject(errorOf(message.error));
        this.#requests.delete(message.request);
        break;
    }
  }

  #begun(): BegunResult | undefined {
    return this.#state.kind === 'succeeded' ? this.#state.summary : this.#state.begun;
  }

  #change(state: RunState): void {
    this.#state = state;
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
