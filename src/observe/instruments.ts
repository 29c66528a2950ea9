// Counters, gauges and histograms as plain numbers: they are written at every request, and only a scrape reads them. How they are
// written as text is prom-client's (metrics.ts).

/** By the name of the label. */
export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** As prom-client's registry reads a metric. */
export interface Metric {
  readonly name: string;
  get(): Promise<{
    readonly name: string;
    readonly help: string;
    readonly type: 'counter' | 'gauge' | 'histogram';
    readonly aggregator: 'sum';
    readonly values: readonly Sample[];
  }>;
}

/** One cell for each combination of labels that was met. */
abstract class Instrument<Cell> implements Metric {
  readonly name: string;
  readonly #help: string;
  readonly #labelNames: readonly string[];
  readonly #cells = new Map<string, Cell>();
  readonly #labels = new Map<Cell, Labels>();

  constructor(name: string, help: string, labelNames: readonly string[]) {
    this.name = name;
    this.#help = help;
    this.#labelNames = labelNames;
  }

  /** Values in the order of the labels' names. */
  labels(...values: readonly string[]): Cell {
    const key = values.length === 1 ? (values[0] as string) : values.join('\0');
    let cell = this.#cells.get(key);
    if (cell === undefined) {
      cell = this.make();
      this.#cells.set(key, cell);
      this.#labels.set(cell, Object.fromEntries(this.#labelNames.map((name, i) => [name, values[i] as string])));
    }
    return cell;
  }

  async get() {
    const values = [...this.#labels].flatMap(([cell, labels]) => this.samples(cell, labels));
    return { name: this.name, help: this.#help, type: this.type, aggregator: 'sum' as const, values };
  }

  protected abstract readonly type: 'counter' | 'gauge' | 'histogram';
  protected abstract make(): Cell;
  protected abstract samples(cell: Cell, labels: Labels): readonly Sample[];
}

class Value {
  value = 0;

  inc(by = 1): void {
    this.value += by;
  }

  set(value: number): void {
    this.value = value;
  }
}

export class Counter extends Instrument<Pick<Value, 'inc' | 'value'>> {
  protected readonly type = 'counter';

  protected make(): Value {
    return new Value();
  }

  protected samples({ value }: Pick<Value, 'value'>, labels: Labels): Sample[] {
    return [{ labels, value }];
  }
}

export class Gauge extends Instrument<Value> {
  protected readonly type = 'gauge';

  protected make(): Value {
    return new Value();
  }

  protected samples({ value }: Value, labels: Labels): Sample[] {
    return [{ labels, value }];
  }
}

class Buckets {
  readonly #bounds: readonly number[];
  /** Of each bucket alone; the last counts what is beyond all bounds. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    this.sum += value;
    let at = 0;
    while (at < this.#bounds.length && value > (this.#bounds[at] as number)) at++;
    (this.counts[at] as number) += 1;
  }
}

export class Histogram extends Instrument<Buckets> {
  protected readonly type = 'histogram';
  readonly #bounds: readonly number[];

  constructor(name: string, help: string, labelNames: readonly string[], bounds: readonly number[]) {
    super(name, help, labelNames);
    this.#bounds = bounds;
  }

  protected make(): Buckets {
    return new Buckets(this.#bounds);
  }

  protected samples({ counts, sum }: Buckets, labels: Labels): Sample[] {
    let total = 0;
    const buckets = [...counts].map((count, i) => {
      total += count;
      return { metricName: `${this.name}_bucket`, labels: { ...labels, le: this.#bounds[i] ?? '+Inf' }, value: total };
    });
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: total },
    ];
  }
}
