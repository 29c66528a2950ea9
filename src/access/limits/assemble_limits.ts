// Chooses how the limits of callers are kept: in memory, or in the store if several servers share it.
import type { Observe } from '../../observe/observations.ts';
import type { Store } from '../../store/store.ts';
import { type FailedLogins, FailedLoginsInMemory } from '../authentication/failed_logins.ts';
import { SharedFailedLogins } from '../authentication/failed_logins_of_servers.ts';
import type { FailedLoginSettings } from '../authentication/login_rules.ts';
import { type QueriesElsewhere, SharedQueryCounts } from './queries_of_servers.ts';
import { type RateLimitSettings, type RateLimits, RateLimitsInMemory } from './rate_limits.ts';
import { SharedRateLimits } from './rate_limits_of_servers.ts';

export interface AssembleLimitsOptions {
  readonly store: Store;
  readonly serverId: string;
  readonly observe: Observe;
  readonly settings: FailedLoginSettings & RateLimitSettings;
  readonly networkOf: (address: string) => string;
}

export interface CallerLimits {
  readonly rates: RateLimits;
  readonly failedLogins: FailedLogins;
  /** Undefined on a single server. */
  readonly queriesElsewhere: QueriesElsewhere | undefined;
  sweep(): Promise<void>;
  stop(): Promise<void>;
}

export function assembleLimits(options: AssembleLimitsOptions): CallerLimits {
  if (!options.store.isShared) {
    const rates = new RateLimitsInMemory(options);
    const failedLogins = new FailedLoginsInMemory(options);
    return { rates, failedLogins, queriesElsewhere: undefined, sweep: async () => {}, stop: async () => {} };
  }
  const rates = new SharedRateLimits(options);
  const failedLogins = new SharedFailedLogins(options);
  const queriesElsewhere = new SharedQueryCounts(options);
  return {
    rates,
    failedLogins,
    queriesElsewhere,
    sweep: async () => void (await Promise.all([rates.sweep(), failedLogins.sweep(), queriesElsewhere.sweep()])),
    stop: async () => void (await Promise.all([rates.stop(), queriesElsewhere.stop()])),
  };
}
