// Counters, gauges and histograms as plain numbers, because they are updated by every request and read only by scrapes. metrics.ts
// converts them to text with prom-client.

/** Label name → value. */
export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** The interface that the registry of prom-client expects. */
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

/** Has one cell for each observed combination of label values. */
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

  /** The cell for label values, in the order of the label names. */
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
  /** Not cumulative; the last one counts values beyond all bounds. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    this.sum += value;
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket++;
    (this.counts[bucket] as number) += 1;
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
