// All observable events of the server. The log and the metrics are derived only from these.

export type Observation =
  | { readonly kind: 'serverStarted'; readonly url: string; readonly dataDirectory: string; readonly ms: number }
  | { readonly kind: 'serverStopped'; readonly ms: number }
  | {
      readonly kind: 'requestEnded';
      readonly requestId: string;
      readonly method: string;
      /** `tables.get`; `-` if there is no such endpoint. */
      readonly endpoint: string;
      /** Without the query string, because tokens may be in URLs by mistake. */
      readonly path: string;
      readonly status: number;
      readonly code: string;
      readonly principal: string | undefined;
      /** The network of the client; present with a 401 or a 503. */
      readonly network: string | undefined;
      readonly ms: number;
    }
  /** How many requests of a principal, or of a network without credentials, were refused with the code. Neither: of all others. */
  | {
      readonly kind: 'requestsRefused';
      readonly code: string;
      readonly requests: number;
      readonly principal?: string | undefined;
      readonly network?: string | undefined;
    }
  | { readonly kind: 'requestBroken'; readonly code: string; readonly reason: string }
  /** A connection that was closed immediately; `limit` is the setting. */
  | { readonly kind: 'connectionRefused'; readonly limit: 'connectionsMax' | 'connectionsPerAddressMax' }
  | { readonly kind: 'tlsLoaded'; readonly subject: string; readonly notAfter: string }
  | { readonly kind: 'tlsReloaded'; readonly subject: string; readonly notAfter: string }
  /** The previous pair remains in use. */
  | { readonly kind: 'tlsReloadFailed'; readonly reason: string }
  | { readonly kind: 'tlsExpiring'; readonly subject: string; readonly notAfter: string }
  | { readonly kind: 'tlsKeyExposed'; readonly keyFile: string }
  /** The key of the secrets (access/secrets/secrets.ts) is readable by users other than the owner of its file. */
  | { readonly kind: 'secretKeyExposed'; readonly keyFile: string }
  | { readonly kind: 'identityKeysFetched'; readonly provider: string; readonly keys: number }
  /** Previously fetched keys remain in use. */
  | { readonly kind: 'identityKeysFailed'; readonly provider: string; readonly reason: string }
  | { readonly kind: 'internalError'; readonly requestId: string; readonly errorId: string; readonly error: unknown }
  | { readonly kind: 'backgroundError'; readonly what: string; readonly error: unknown }
  | {
      readonly kind: 'queryEnded';
      readonly queryId: string;
      readonly warehouse: string;
      readonly statement: string;
      readonly code: string;
      readonly queuedMs: number;
      readonly elapsedMs: number;
      readonly rowCount: number;
    }
  | { readonly kind: 'rowsInserted'; readonly warehouse: string; readonly rowCount: number; readonly ms: number }
  | {
      readonly kind: 'taskEnded';
      readonly taskId: string;
      readonly type: string;
      readonly state: string;
      readonly ms: number;
    }
  | {
      readonly kind: 'intentRecovered';
      readonly verb: string;
      readonly outcome: 'finished' | 'undone' | 'failed';
      /** The warehouse of the change, if it no longer exists: what the engine has of it remains there. */
      readonly lostWarehouse?: string;
      readonly error?: unknown;
    }
  | EngineEvent
  | {
      readonly kind: 'catalogDamaged';
      readonly warehouse: string;
      readonly catalog: string;
      readonly reason: string;
    }
  | { readonly kind: 'storeDamaged'; readonly faults: readonly string[] }
  | { readonly kind: 'diskLow' | 'diskRecovered'; readonly freeBytes: number };

/** What an engine reports. */
export type EngineEvent =
  | {
      readonly kind: 'engineStarted';
      readonly warehouse: string;
      readonly ms: number;
      /** The measures of confinement that are active. */
      readonly confinement: string;
      readonly pid: number;
    }
  | { readonly kind: 'engineStopped'; readonly warehouse: string }
  | { readonly kind: 'engineSpareReady'; readonly warehouse: string; readonly ms: number; readonly pid: number }
  | { readonly kind: 'engineSpareLost'; readonly warehouse: string; readonly reason: string }
  | { readonly kind: 'engineDied'; readonly warehouse: string; readonly reason: string }
  | { readonly kind: 'engineKilled'; readonly warehouse: string; readonly reason: string }
  /** A process that binds statements; another one replaces it. */
  | { readonly kind: 'analysisDied'; readonly warehouse: string; readonly pid: number; readonly reason: string }
  /** Inactive confinement measures with the reasons. Reported once, at the first start. */
  | { readonly kind: 'engineUnconfined'; readonly warehouse: string; readonly reason: string };

export type Observe = (observation: Observation) => void;

/** An observer that notifies all readers. */
export function observers(...readers: readonly Observe[]): Observe {
  return (observation) => {
    for (const read of readers) read(observation);
  };
}
