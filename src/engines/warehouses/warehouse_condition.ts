// The condition of a warehouse, as its record and the metrics show it.
import type { Metrics } from '../../observe/metrics.ts';
import { Failure } from '../../standard/failure.ts';
import type { Admission } from '../admission.ts';
import type { CatalogGuard } from '../catalog_guard.ts';
import { replicasByTablet } from '../cluster/registered_servers.ts';
import type { BackendStatus, Tablet } from '../port/backends.ts';
import type { DamagedCatalog } from '../port/catalog_storage.ts';
import type { EngineWarehouse } from '../port/engine.ts';
import type { WarehouseDescription } from '../warehouse_description.ts';

/** The number of running and queued statements of a warehouse, and its backends. */
export interface WarehouseLoad {
  readonly warehouse: string;
  readonly running: number;
  readonly queued: number;
  readonly backends: readonly BackendLoad[];
}

export interface BackendLoad extends Pick<BackendStatus, 'alive' | 'runningQueries' | 'lastHeartbeatAt'> {
  readonly name: string;
}

export function loadOf({ description, engine, admission }: LoadSource): WarehouseLoad {
  return {
    warehouse: description.name,
    running: admission.running,
    queued: admission.queued,
    backends: description.backends.map(({ name }) => ({ name, ...engine.status(name) })),
  };
}

type LoadSource = Pick<WarehouseRuntime, 'description' | 'engine' | 'admission'>;

/** Registers the gauges; their values are computed at each scrape. */
export function measureLoad(metrics: Metrics, warehouses: { load(): Promise<readonly WarehouseLoad[]> }): void {
  metrics.gauge('tabularium_queries', 'Statements of a warehouse now.', async () =>
    (await warehouses.load()).flatMap(({ warehouse, running, queued }) => [
      { labels: { warehouse, state: 'running' }, value: running },
      { labels: { warehouse, state: 'queued' }, value: queued },
    ]),
  );
  const ofBackends = (name: string, help: string, measure: (backend: BackendLoad) => number | undefined) =>
    metrics.gauge(name, help, async () =>
      (await warehouses.load()).flatMap(({ warehouse, backends }) =>
        backends.flatMap((backend) => {
          const value = measure(backend);
          return value === undefined ? [] : { labels: { warehouse, backend: backend.name }, value };
        }),
      ),
    );
  ofBackends(
    'tabularium_backend_up',
    '1: the backend responds. 0: it does not, is disabled, or its warehouse is suspended.',
    ({ alive }) => (alive ? 1 : 0),
  );
  ofBackends(
    'tabularium_backend_queries',
    'Statements that run on a backend now.',
    ({ runningQueries }) => runningQueries,
  );
  ofBackends(
    'tabularium_backend_heartbeat_age_seconds',
    'Seconds since a backend has last responded; absent if it never has.',
    ({ lastHeartbeatAt }) =>
      lastHeartbeatAt === null ? undefined : Math.max(0, (Date.now() - Date.parse(lastHeartbeatAt)) / 1000),
  );
}

export type WarehouseState = 'running' | 'starting' | 'suspended' | 'failed';

export interface WarehouseCondition {
  readonly state: WarehouseState;
  readonly health: { readonly status: 'healthy' | 'degraded' | 'unavailable'; readonly message: string };
  readonly runningQueries: number;
  readonly queuedQueries: number;
  readonly availableBackendCount: number;
  /** In the order of the names of the backends. */
  readonly backends: readonly BackendStatus[];
}

/** How many damaged catalogs the health of a warehouse names. */
const damagedShownMax = 10;

/** The runtime state that determines the condition. */
interface WarehouseRuntime {
  readonly description: WarehouseDescription;
  readonly engine: EngineWarehouse;
  readonly guard: Pick<CatalogGuard, 'damaged'>;
  readonly admission: Admission;
  readonly isAsleep: boolean;
  readonly starting: Promise<void> | undefined;
  readonly startError: string | undefined;
}

export function conditionOf(running: WarehouseRuntime, diskMessage: string | undefined): WarehouseCondition {
  const { engine, admission, startError } = running;
  const available = availableBackendsOf(running).length;
  const state: WarehouseState = engine.running
    ? 'running'
    : running.starting
      ? 'starting'
      : startError !== undefined
        ? 'failed'
        : 'suspended';
  return {
    state,
    health: healthOf(state, available, running, diskMessage),
    runningQueries: admission.running,
    queuedQueries: admission.queued,
    availableBackendCount: available,
    backends: statusesOf(running),
  };
}

export const statusesOf = ({
  description,
  engine,
}: Pick<WarehouseRuntime, 'description' | 'engine'>): BackendStatus[] =>
  description.backends.map(({ name }) => engine.status(name));

/** The backends that take statements. */
export const availableBackendsOf = ({ description, engine }: Servers) =>
  description.backends.filter(({ name, disabled }) => {
    if (disabled) return false;
    const { availability = 'available' } = engine.status(name);
    return availability === 'available';
  });

type Servers = Pick<WarehouseRuntime, 'description' | 'engine'>;

/** How many replicas each tablet of a new table can have. All tables are divided in the same way. */
function replicasOf(running: Servers): ReadonlyMap<string, number> {
  const available = availableBackendsOf(running);
  const { servers } = running.engine;
  if (!servers) return new Map([['0', available.length]]);
  const names = new Set(available.map(({ name }) => name));
  const identified = running.description.backends.map((backend) => {
    return { ...backend, server: servers.identityOf(backend.name) ?? backend.server };
  });
  return replicasByTablet(identified, ({ name }) => names.has(name));
}

export const availableReplicasOf = (running: Servers): number => Math.min(...replicasOf(running).values());

/** The ids of the tablets that no available backend has. */
export const missingTabletsOf = (running: Servers): string[] =>
  [...replicasOf(running)].flatMap(([id, count]) => (count === 0 ? [id] : []));

function healthOf(
  state: WarehouseState,
  available: number,
  running: WarehouseRuntime,
  diskMessage: string | undefined,
): WarehouseCondition['health'] {
  const count = running.description.backends.length;
  if (state === 'failed') return { status: 'unavailable', message: running.startError ?? 'the engine does not start' };
  if (count === 0) return { status: 'unavailable', message: 'no backend is registered' };
  // The servers of a cluster are not watched then, so that none of them is available.
  if (running.description.spec.suspended && running.engine.servers) return { status: 'healthy', message: 'suspended' };
  if (available === 0) return { status: 'unavailable', message: `none of ${count} backends is available` };
  const missing = running.engine.servers ? missingTabletsOf(running) : [];
  if (missing.length > 0)
    return { status: 'degraded', message: `no available replica of the tablets ${missing.join(', ')}` };
  if (available < count) return { status: 'degraded', message: `${available} of ${count} backends are available` };
  if (diskMessage !== undefined) return { status: 'degraded', message: diskMessage };
  if (state === 'suspended' && running.guard.damaged().length === 0) {
    const resumes = !running.description.spec.suspended && (running.description.spec.autoResume || !running.isAsleep);
    return { status: 'healthy', message: resumes ? 'suspended; resumes with the next statement' : 'suspended' };
  }
  const damaged = running.guard.damaged();
  if (damaged.length > 0) return { status: 'degraded', message: damagedText(damaged) };
  const errorMessage = statusesOf(running).find((status) => status.errorMessage !== null)?.errorMessage;
  if (errorMessage) return { status: 'degraded', message: errorMessage };
  return { status: 'healthy', message: state };
}

function damagedText(damaged: readonly DamagedCatalog[]): string {
  const shown = damaged.slice(0, damagedShownMax).map(({ name, reason }) => `${JSON.stringify(name)}: ${reason}`);
  const more = damaged.length > shown.length ? `; and ${damaged.length - shown.length} more` : '';
  return `${damaged.length} damaged ${damaged.length === 1 ? 'catalog' : 'catalogs'}: ${shown.join('; ')}${more}`;
}

/** In the order of their ids, with replicas in the order of their backends. The replicas of a disabled backend are not available. */
export function servedTablets(tablets: readonly Tablet[], { backends }: WarehouseDescription): readonly Tablet[] {
  const enabled = new Set(backends.flatMap(({ name, disabled }) => (disabled ? [] : name)));
  const served = tablets.map((tablet) => ({
    ...tablet,
    replicas: tablet.replicas
      .map(({ backend, isAvailable }) => ({ backend, isAvailable: isAvailable && enabled.has(backend) }))
      .sort(byName(({ backend }) => backend)),
  }));
  return served.sort(byName(({ id }) => id));
}

/** Orders by code units, as pages of a list do. */
const byName =
  <T>(nameOf: (one: T) => string) =>
  (a: T, b: T): number =>
    nameOf(a) < nameOf(b) ? -1 : 1;

export function suspended(name: string): Failure {
  return new Failure('WAREHOUSE_SUSPENDED', `the warehouse "${name}" is suspended`, { warehouse: name });
}
