// The log: writes observations as lines of JSON (pino). Successful reads are logged at level debug, to save time on a busy server;
// changes, refusals and errors are always logged. Refusals for overload are counted, and logged once a second.
import { type DestinationStream, type Level, pino } from 'pino';
import type { Observation, Observe } from './observations.ts';

export type LogLevel = Level | 'silent';

const levels: Record<Observation['kind'], Level> = {
  serverStarted: 'info',
  serverStopping: 'info',
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
const summaryMs = 1000;
const summarizedPrincipalsMax = 10;
const overloadCode = 'WAREHOUSE_BUSY';

function levelOf(observation: Observation): Level {
  if (observation.kind !== 'requestEnded') return levels[observation.kind];
  if (observation.code === overloadCode) return 'debug';
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
    if (observation.kind === 'requestEnded' && observation.code === overloadCode) refusals.add(observation);
    else if (observation.kind === 'serverStopping') refusals.flush();
    log(observation);
  };
}

/** Counts the refusals of an overloaded server: a line for each would cost more than the refusal. */
class RefusalSummary {
  readonly #log: Observe;
  readonly #principals = new Set<string | undefined>();
  #requests = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(log: Observe) {
    this.#log = log;
  }

  add({ principal }: Extract<Observation, { kind: 'requestEnded' }>): void {
    this.#requests++;
    if (this.#principals.size < summarizedPrincipalsMax) this.#principals.add(principal);
    this.#timer ??= setTimeout(() => this.flush(), summaryMs).unref();
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#requests === 0) return;
    const principals = [...this.#principals].filter((name) => name !== undefined);
    this.#log({ kind: 'requestsRefused', code: overloadCode, requests: this.#requests, principals });
    this.#requests = 0;
    this.#principals.clear();
  }
}
