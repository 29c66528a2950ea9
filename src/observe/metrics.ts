// The metrics: counts observations, for /metrics. Labels have a bounded number of values: endpoints, codes, warehouses and backends, never
// names of objects with data. prom-client serializes them and adds metrics of the process, such as memory and event loop delay; it is loaded by the
// first scrape, and those metrics start then.
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
  /** A value that is collected at each scrape. Must be registered before the first one. */
  gauge(name: string, help: string, collect: () => Promise<readonly Sample[]>): void;
}

/** The instruments, without the metrics of the process. */
function instruments() {
  const requests = new Histogram(
    'tabularium_request_seconds',
    'Time from the first byte of a request to the last byte of its response.',
    ['endpoint', 'code'],
    secondsBuckets,
  );
  const queries = new Histogram(
    'tabularium_query_seconds',
    'Time of SQL statements in the engine, without queueing.',
    ['warehouse', 'statement', 'code'],
    secondsBuckets,
  );
  const queued = new Histogram(
    'tabularium_query_queued_seconds',
    'Time of SQL statements in the queue of their warehouse.',
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
    'Internal errors: responses with status 500, and failures of background work.',
    ['kind'],
  );
  const broken = new Counter(
    'tabularium_broken_requests_total',
    'Requests that were not received completely: malformed, too slow, interrupted.',
    ['code'],
  );
  const recovered = new Counter(
    'tabularium_intents_recovered_total',
    'Changes that were finished or undone after an interruption.',
    ['outcome'],
  );
  const identityKeys = new Counter(
    'tabularium_identity_keys_total',
    'Fetches of the signing keys of identity providers, by outcome.',
    ['outcome'],
  );
  const counted = { requests, queries, queued, rows, tasks, engine, errors, broken, recovered, identityKeys };
  return { ...counted, ...transportInstruments() };
}

function transportInstruments() {
  const refused = new Counter(
    'tabularium_connections_refused_total',
    'Connections closed immediately, by the exceeded limit.',
    ['limit'],
  );
  const reloads = new Counter(
    'tabularium_tls_reloads_total',
    'Reloads of the certificate and its key: taken, or refused because the new pair is invalid.',
    ['outcome'],
  );
  const certificateEnd = new Gauge(
    'tabularium_tls_certificate_end_seconds',
    'When the certificate in use expires, in seconds since 1970.',
    ['listener'],
  );
  return { refused, reloads, certificateEnd };
}

function metricsReader({
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
      // All others are only logged.
    }
  };
}

export function createMetrics(): Metrics {
  const counted = instruments();
  const metrics: Metric[] = Object.values(counted);
  let registry: promClient.Registry | undefined;
  return {
    read: metricsReader(counted),
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
