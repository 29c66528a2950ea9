// The log: writes observations as lines of JSON (pino). Successful reads are logged at level debug, to save time on a busy server;
// changes, refusals and errors are always logged. Refusals by a limit, for overload or of credentials are counted, and logged
// for each caller.
import { type DestinationStream, type Level, pino } from 'pino';
import type { Observation, Observe } from './observations.ts';

export type LogLevel = Level | 'silent';

const levels: Record<Observation['kind'], Level> = {
  serverStarted: 'info',
  serverStopped: 'info',
  requestEnded: 'info',
  requestsRefused: 'warn',
  requestBroken: 'debug',
  connectionRefused: 'debug',
  tlsLoaded: 'info',
  tlsReloaded: 'info',
  tlsReloadFailed: 'error',
  tlsExpiring: 'warn',
  tlsKeyExposed: 'warn',
  secretKeyExposed: 'warn',
  identityKeysFetched: 'debug',
  identityKeysFailed: 'warn',
  internalError: 'error',
  backgroundError: 'error',
  queryEnded: 'debug',
  rowsInserted: 'debug',
  taskEnded: 'info',
  intentRecovered: 'warn',
  engineStarted: 'info',
  engineStopped: 'info',
  engineSpareReady: 'debug',
  engineSpareLost: 'warn',
  engineDied: 'error',
  engineKilled: 'error',
  analysisDied: 'warn',
  engineUnconfined: 'warn',
  catalogDamaged: 'error',
  storeDamaged: 'error',
  diskLow: 'error',
  diskRecovered: 'info',
};

/** How often refusals are logged. */
const summaryMs = 5000;
/** How many callers have a line of their own in each summary. */
const summarizedCallersMax = 100;
/** Codes that a client can be sent thousands of times in a second: one that ignores Retry-After, or tries credentials. */
const summarizedCodes: ReadonlySet<string> = new Set([
  'WAREHOUSE_BUSY',
  'RATE_LIMITED',
  'SERVER_BUSY',
  'TOO_MANY_QUERIES',
  'TOO_MANY_TASKS',
  'UNAUTHENTICATED',
]);

function levelOf(observation: Observation): Level {
  if (observation.kind !== 'requestEnded') return levels[observation.kind];
  if (summarizedCodes.has(observation.code)) return 'debug';
  if (observation.status >= 500) return 'warn';
  return observation.status < 300 && observation.method === 'GET' ? 'debug' : 'info';
}

export function logReader(options: { readonly level: LogLevel; readonly destination?: DestinationStream }): Observe {
  const { level: minimumLevel, destination } = options;
  const settings = { level: minimumLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const logger = destination ? pino(settings, destination) : pino(settings);
  const log: Observe = (observation) => {
    const level = levelOf(observation);
    if (!logger.isLevelEnabled(level)) return;
    const { kind, ...fields } = observation as Observation & { error?: unknown; path?: string };
    if (fields.error !== undefined) {
      const { error, ...rest } = fields;
      logger[level]({ ...rest, err: error }, kind);
    } else logger[level](fields, kind);
  };
  const refusals = new RefusalSummary(log);
  return (observation) => {
    if (observation.kind === 'requestEnded' && summarizedCodes.has(observation.code)) refusals.add(observation);
    else if (observation.kind === 'serverStopped') refusals.flush();
    log(observation);
  };
}

type Refusals = Omit<Extract<Observation, { kind: 'requestsRefused' }>, 'kind' | 'requests'> & { requests: number };

/** Counts refusals by code and caller: a line for each would cost more than the refusal. */
class RefusalSummary {
  readonly #log: Observe;
  readonly #refusals = new Map<string, Refusals>();
  #callers = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(log: Observe) {
    this.#log = log;
  }

  add({ code, principal, network }: Extract<Observation, { kind: 'requestEnded' }>): void {
    const caller = principal === undefined ? `${code} ${network}` : `${code} principal ${principal}`;
    let refusals = this.#refusals.get(caller);
    if (!refusals && this.#callers < summarizedCallersMax) {
      this.#callers++;
      refusals = { code, ...(principal === undefined ? { network } : { principal }), requests: 0 };
      this.#refusals.set(caller, refusals);
    }
    refusals ??= this.#others(code);
    refusals.requests++;
    this.#timer ??= setTimeout(() => this.flush(), summaryMs).unref();
  }

  #others(code: string): Refusals {
    const found = this.#refusals.get(code) ?? { code, requests: 0 };
    this.#refusals.set(code, found);
    return found;
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const refusals of this.#refusals.values()) this.#log({ kind: 'requestsRefused', ...refusals });
    this.#refusals.clear();
    this.#callers = 0;
  }
}
