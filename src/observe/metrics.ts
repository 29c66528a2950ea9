// The metrics: observations → Prometheus counters and histograms (prom-client), read at /metrics. Labels are of bounded
// number: endpoints, codes, warehouses; never names of users' objects.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Observation, Observe } from './observations.ts';
import { RequestSeconds } from './request_seconds.ts';

const secondsBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export interface Metrics {
  readonly read: Observe;
  readonly contentType: string;
  text(): Promise<string>;
  /** A value asked for at each scrape. */
  gauge(name: string, help: string, labels: readonly string[], collect: () => Promise<readonly GaugeValue[]>): void;
}

export interface GaugeValue {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What is counted, apart from the process's own figures. */
function instruments(registry: Registry) {
  const registers = [registry];
  const requests = new RequestSeconds(registry, secondsBuckets);
  const queries = new Histogram({
    name: 'tabularium_query_seconds',
    help: 'Time of SQL statements in the engine, queueing apart.',
    labelNames: ['warehouse', 'statement', 'code'],
    buckets: secondsBuckets,
    registers,
  });
  const queued = new Histogram({
    name: 'tabularium_query_queued_seconds',
    help: 'Time that SQL statements waited for their turn.',
    labelNames: ['warehouse'],
    buckets: secondsBuckets,
    registers,
  });
  const rows = new Counter({
    name: 'tabularium_rows_inserted_total',
    help: 'Rows inserted through REST.',
    labelNames: ['warehouse'],
    registers,
  });
  const tasks = new Counter({
    name: 'tabularium_tasks_total',
    help: 'Tasks that ended.',
    labelNames: ['type', 'state'],
    registers,
  });
  const engine = new Counter({
    name: 'tabularium_engine_events_total',
    help: 'Starts, stops, deaths and kills of engine processes.',
    labelNames: ['warehouse', 'event'],
    registers,
  });
  const errors = new Counter({
    name: 'tabularium_errors_total',
    help: 'Errors of our own: answers with 500, and failures of background work.',
    labelNames: ['kind'],
    registers,
  });
  const broken = new Counter({
    name: 'tabularium_broken_requests_total',
    help: 'Requests that never became one: malformed, too slow, cut off.',
    labelNames: ['code'],
    registers,
  });
  const recovered = new Counter({
    name: 'tabularium_intents_recovered_total',
    help: 'Changes that were finished or undone after an interruption.',
    labelNames: ['outcome'],
    registers,
  });
  const identityKeys = new Counter({
    name: 'tabularium_identity_keys_total',
    help: 'Fetches of the keys of identity providers, by outcome.',
    labelNames: ['outcome'],
    registers,
  });
  const counted = { requests, queries, queued, rows, tasks, engine, errors, broken, recovered, identityKeys };
  return { ...counted, ...ofTransport(registry) };
}

function ofTransport(registry: Registry) {
  const registers = [registry];
  const refused = new Counter({
    name: 'tabularium_connections_refused_total',
    help: 'Connections closed as they came, by the limit that they were over.',
    labelNames: ['limit'],
    registers,
  });
  const reloads = new Counter({
    name: 'tabularium_tls_reloads_total',
    help: 'Changes of the certificate or its key: taken, or refused and the old pair kept.',
    labelNames: ['outcome'],
    registers,
  });
  const certificateEnd = new Gauge({
    name: 'tabularium_tls_certificate_end_seconds',
    help: 'When the certificate in use ends, in seconds since 1970.',
    labelNames: ['listener'], // without a label there would be a 0 where there is no TLS
    registers,
  });
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
        requests.observe(o.endpoint, o.code, o.ms / 1000);
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
      case 'engineDied':
      case 'engineKilled':
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
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'tabularium_' });
  const registers = [registry];
  const read = reader(instruments(registry));
  return {
    read,
    contentType: registry.contentType,
    text: () => registry.metrics(),
    gauge(name, help, labels, collect) {
      const gauge = new Gauge({
        name,
        help,
        labelNames: [...labels],
        registers,
        async collect() {
          this.reset();
          for (const { labels: of, value } of await collect()) this.set(of, value);
        },
      });
      void gauge;
    },
  };
}
