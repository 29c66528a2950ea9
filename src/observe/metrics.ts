// The metrics: observations → counters and histograms, read at /metrics. Labels are of bounded number: endpoints, codes,
// warehouses; never names of users' objects. prom-client writes them as text and adds the figures of the process, such as memory and the
// event loop's delay; it is loaded by the first scrape, and those figures begin then.
import type * as promClient from 'prom-client';
import { lazyPackage } from '../model/lazy_package.ts';
import { Counter, Gauge, Histogram, type Metric, type Sample } from './instruments.ts';
import type { Observation, Observe } from './observations.ts';

const prometheus = lazyPackage<typeof promClient>('prom-client');

const secondsBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export interface Metrics {
  readonly read: Observe;
  readonly contentType: string;
  text(): Promise<string>;
  /** A value asked for at each scrape; named before the first of them. */
  gauge(name: string, help: string, collect: () => Promise<readonly Sample[]>): void;
}

/** What is counted, apart from the process's own figures. */
function instruments() {
  const requests = new Histogram(
    'tabularium_request_seconds',
    'Time from the first byte of a request to the last of its answer.',
    ['endpoint', 'code'],
    secondsBuckets,
  );
  const queries = new Histogram(
    'tabularium_query_seconds',
    'Time of SQL statements in the engine, queueing apart.',
    ['warehouse', 'statement', 'code'],
    secondsBuckets,
  );
  const queued = new Histogram(
    'tabularium_query_queued_seconds',
    'Time that SQL statements waited for their turn.',
    ['warehouse'],
    secondsBuckets,
  );
  const rows = new Counter('tabularium_rows_inserted_total', 'Rows inserted through REST.', ['warehouse']);
  const tasks = new Counter('tabularium_tasks_total', 'Tasks that ended.', ['type', 'state']);
  const engine = new Counter('tabularium_engine_events_total', 'Starts, stops, deaths and kills of engine processes.', [
    'warehouse',
    'event',
  ]);
  const errors = new Counter(
    'tabularium_errors_total',
    'Errors of our own: answers with 500, and failures of background work.',
    ['kind'],
  );
  const broken = new Counter(
    'tabularium_broken_requests_total',
    'Requests that never became one: malformed, too slow, cut off.',
    ['code'],
  );
  const recovered = new Counter(
    'tabularium_intents_recovered_total',
    'Changes that were finished or undone after an interruption.',
    ['outcome'],
  );
  const identityKeys = new Counter(
    'tabularium_identity_keys_total',
    'Fetches of the keys of identity providers, by outcome.',
    ['outcome'],
  );
  const counted = { requests, queries, queued, rows, tasks, engine, errors, broken, recovered, identityKeys };
  return { ...counted, ...ofTransport() };
}

function ofTransport() {
  const refused = new Counter(
    'tabularium_connections_refused_total',
    'Connections closed as they came, by the limit that they were over.',
    ['limit'],
  );
  const reloads = new Counter(
    'tabularium_tls_reloads_total',
    'Changes of the certificate or its key: taken, or refused and the old pair kept.',
    ['outcome'],
  );
  const certificateEnd = new Gauge(
    'tabularium_tls_certificate_end_seconds',
    'When the certificate in use ends, in seconds since 1970.',
    ['listener'],
  );
  return { refused, reloads, certificateEnd };
}

function reader({
  requests,
  queries,
  queued,
  rows,
  tasks,
  engine,
  errors,
  broken,
  recovered,
  refused,
  reloads,
  certificateEnd,
  identityKeys,
}: ReturnType<typeof instruments>): Observe {
  return (o: Observation): void => {
    switch (o.kind) {
      case 'requestEnded':
        requests.labels(o.endpoint, o.code).observe(o.ms / 1000);
        break;
      case 'requestBroken':
        broken.labels(o.code).inc();
        break;
      case 'connectionRefused':
        refused.labels(o.limit).inc();
        break;
      case 'tlsReloaded':
        reloads.labels('taken').inc();
        certificateEnd.labels('https').set(Date.parse(o.notAfter) / 1000);
        break;
      case 'tlsLoaded':
        certificateEnd.labels('https').set(Date.parse(o.notAfter) / 1000);
        break;
      case 'tlsReloadFailed':
        reloads.labels('refused').inc();
        break;
      case 'internalError':
      case 'backgroundError':
      case 'storeDamaged':
        errors.labels(o.kind).inc();
        break;
      case 'queryEnded':
        queries.labels(o.warehouse, o.statement, o.code).observe(o.elapsedMs / 1000);
        queued.labels(o.warehouse).observe(o.queuedMs / 1000);
        break;
      case 'rowsInserted':
        rows.labels(o.warehouse).inc(o.rowCount);
        break;
      case 'taskEnded':
        tasks.labels(o.type, o.state).inc();
        break;
      case 'intentRecovered':
        recovered.labels(o.outcome).inc();
        break;
      case 'engineStarted':
      case 'engineStopped':
      case 'engineSpareReady':
      case 'engineSpareLost':
      case 'engineDied':
      case 'engineKilled':
      case 'analysisDied':
      case 'engineUnconfined':
      case 'catalogDamaged':
        engine.labels(o.warehouse, o.kind).inc();
        break;
      case 'identityKeysFetched':
      case 'identityKeysFailed':
        identityKeys.labels(o.kind === 'identityKeysFetched' ? 'fetched' : 'failed').inc();
        break;
      default:
      // The log alone tells of the others.
    }
  };
}

export function createMetrics(): Metrics {
  const counted = instruments();
  const metrics: Metric[] = Object.values(counted);
  let registry: promClient.Registry | undefined;
  return {
    read: reader(counted),
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    text: () => {
      registry ??= registryOf(metrics);
      return registry.metrics();
    },
    gauge: (name, help, collect) => {
      const get = async () => ({ name, help, type: 'gauge', aggregator: 'sum', values: await collect() }) as const;
      metrics.push({ name, get });
    },
  };
}

function registryOf(metrics: readonly Metric[]): promClient.Registry {
  const { Registry, collectDefaultMetrics } = prometheus();
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'tabularium_' });
  for (const metric of metrics) registry.registerMetric(metric as unknown as promClient.Metric);
  return registry;
}
