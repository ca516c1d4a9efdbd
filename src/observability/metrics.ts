/** Labels of one sample, by name. */
type Labels = Readonly<Record<string, string>>;

/** A value measured when the metrics are read. */
interface Sample {
  readonly labels?: Labels;
  readonly value: number;
}

/** A number that only grows. */
export interface Counter {
  add(labels?: Labels, amount?: number): void;
}

/** Counts values by range. */
export interface Histogram {
  observe(labels: Labels, value: number): void;
}

/**
 * Named metrics and their text in the Prometheus exposition format 0.0.4. Names and labels come from the server, never from a
 * client, so the number of series is bounded.
 */
export class Metrics {
  static readonly contentType = 'text/plain; version=0.0.4; charset=utf-8';
  readonly #families: (() => string)[] = [];

  counter(name: string, help: string): Counter {
    const series = new Series();
    this.#add(name, help, 'counter', () =>
      series.all().map(({ labels, value }) => line(name, labels, value)),
    );
    return { add: (labels = {}, amount = 1) => series.add(labels, amount) };
  }

  /** Calls `read` whenever the metrics are read. */
  gauge(name: string, help: string, read: () => readonly Sample[]): void {
    this.#add(name, help, 'gauge', () => read().map(({ labels = {}, value }) => line(name, labels, value)));
  }

  /** Like a gauge, for a number that only grows and is counted elsewhere. */
  observedCounter(name: string, help: string, read: () => readonly Sample[]): void {
    this.#add(name, help, 'counter', () => read().map(({ labels = {}, value }) => line(name, labels, value)));
  }

  /** `bounds` are the upper bounds of the ranges, ascending; larger values are counted too. */
  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    const series = new Map<string, HistogramSeries>();
    this.#add(name, help, 'histogram', () =>
      [...series.values()].flatMap((one) => histogramLines(name, bounds, one)),
    );
    return {
      observe: (labels, value) => {
        const key = keyOf(labels);
        let one = series.get(key);
        if (one === undefined) {
          one = { labels, counts: new Array<number>(bounds.length).fill(0), sum: 0, count: 0 };
          series.set(key, one);
        }
        const range = bounds.findIndex((bound) => value <= bound);
        if (range !== -1) one.counts[range]! += 1;
        one.sum += value;
        one.count += 1;
      },
    };
  }

  /** All metrics as a scraper reads them. */
  text(): string {
    return this.#families.map((family) => family()).join('');
  }

  #add(name: string, help: string, type: string, lines: () => readonly string[]): void {
    const head = `# HELP ${name} ${help.replace(/\\/g, '\\\\').replace(/\n/g, '\\n')}\n# TYPE ${name} ${type}\n`;
    this.#families.push(() => head + lines().join(''));
  }
}

interface HistogramSeries {
  readonly labels: Labels;
  readonly counts: number[];
  sum: number;
  count: number;
}

/** Sums by label set. */
class Series {
  readonly #values = new Map<string, { readonly labels: Labels; value: number }>();

  add(labels: Labels, amount: number): void {
    const key = keyOf(labels);
    const known = this.#values.get(key);
    if (known === undefined) this.#values.set(key, { labels, value: amount });
    else known.value += amount;
  }

  all(): readonly { readonly labels: Labels; readonly value: number }[] {
    return [...this.#values.values()];
  }
}

function histogramLines(name: string, bounds: readonly number[], series: HistogramSeries): string[] {
  const { labels, counts, sum, count } = series;
  let total = 0;
  const buckets = bounds.map((bound, index) => {
    total += counts[index]!;
    return line(`${name}_bucket`, { ...labels, le: String(bound) }, total);
  });
  return [
    ...buckets,
    line(`${name}_bucket`, { ...labels, le: '+Inf' }, count),
    line(`${name}_sum`, labels, sum),
    line(`${name}_count`, labels, count),
  ];
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${numberText(value)}\n`;
}

function escapeLabel(text: string): string {
  return text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value);
}

function keyOf(labels: Labels): string {
  return JSON.stringify(labels);
}
