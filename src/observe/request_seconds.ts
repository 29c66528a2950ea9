// The histogram of requests' times, kept as plain counters: it is told of every request, and prom-client's own histogram costs a
// GET of a hot record three times as much as looking the record up. Read at each scrape.
import type { Registry } from 'prom-client';

interface Counters {
  readonly labels: { readonly endpoint: string; readonly code: string };
  /** Of each bucket alone; the last is of what is beyond all. */
  readonly counts: Float64Array;
  sum: number;
}

type Registered = Parameters<Registry['registerMetric']>[0];

export class RequestSeconds {
  readonly name = 'tabularium_request_seconds';
  readonly #help = 'Time from the first byte of a request to the last of its answer.';
  readonly #buckets: readonly number[];
  readonly #byEndpoint = new Map<string, Map<string, Counters>>();

  constructor(registry: Registry, buckets: readonly number[]) {
    this.#buckets = buckets;
    registry.registerMetric(this as unknown as Registered);
  }

  observe(endpoint: string, code: string, seconds: number): void {
    const of = this.#byEndpoint.get(endpoint)?.get(code) ?? this.#make(endpoint, code);
    of.sum += seconds;
    let at = 0;
    while (at < this.#buckets.length && seconds > (this.#buckets[at] as number)) at++;
    (of.counts[at] as number) += 1;
  }

  /** As the registry asks its metrics. */
  async get() {
    const values = [...this.#byEndpoint.values()].flatMap((byCode) =>
      [...byCode.values()].flatMap((of) => this.#values(of)),
    );
    return { name: this.name, help: this.#help, type: 'histogram', aggregator: 'sum', values };
  }

  reset(): void {
    this.#byEndpoint.clear();
  }

  #make(endpoint: string, code: string): Counters {
    const byCode = this.#byEndpoint.get(endpoint) ?? new Map<string, Counters>();
    this.#byEndpoint.set(endpoint, byCode);
    const made = { labels: { endpoint, code }, counts: new Float64Array(this.#buckets.length + 1), sum: 0 };
    byCode.set(code, made);
    return made;
  }

  #values({ labels, counts, sum }: Counters) {
    let total = 0;
    const buckets = [...counts].map((count, i) => {
      total += count;
      return { metricName: `${this.name}_bucket`, labels: { ...labels, le: this.#buckets[i] ?? '+Inf' }, value: total };
    });
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: total },
    ];
  }
}
