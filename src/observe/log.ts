// The log: observations → lines of JSON (pino). Successful reads are at debug, so that a busy server does not spend its time
// on saying so; changes, refusals and faults are always told.
import { type DestinationStream, type Level, pino } from 'pino';
import type { Observation, Observe } from './observations.ts';

export type LogLevel = Level | 'silent';

const levels: Record<Observation['kind'], Level> = {
  serverStarted: 'info',
  serverStopping: 'info',
  serverStopped: 'info',
  requestEnded: 'info',
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

function levelOf(observation: Observation): Level {
  if (observation.kind !== 'requestEnded') return levels[observation.kind];
  if (observation.status >= 500) return 'warn';
  return observation.status < 300 && observation.method === 'GET' ? 'debug' : 'info';
}

export function logReader(options: { readonly level: LogLevel; readonly destination?: DestinationStream }): Observe {
  const { level, destination } = options;
  const settings = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const logger = destination ? pino(settings, destination) : pino(settings);
  return (observation) => {
    const at = levelOf(observation);
    if (!logger.isLevelEnabled(at)) return;
    const { kind, ...fields } = observation as Observation & { error?: unknown; path?: string };
    if (fields.error !== undefined) {
      const { error, ...rest } = fields;
      logger[at]({ ...rest, err: error }, kind);
    } else logger[at](fields, kind);
  };
}
