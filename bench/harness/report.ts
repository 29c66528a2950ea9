// The results of a benchmark, and how they are shown and stored: numbers with a baseline of the same run.
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { join } from 'node:path';

export interface Measure {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  readonly baseline?: { readonly what: string; readonly value: number };
  /** Median of the rounds' ratios: a temporary disturbance affects both sides of a round. */
  readonly ratio?: number;
  /** Range of the rounds' ratios. */
  readonly ratioRange?: readonly [number, number];
  readonly target?: Target;
}

export interface Target {
  readonly text: string;
  readonly met: boolean;
}

export interface BenchOptions {
  /** A small sample that shows that the benchmark runs; its numbers are not meaningful. */
  readonly quick: boolean;
  /** An empty directory on a real disk; removed by the runner. */
  readonly workDirectory: string;
  readonly print: (line: string) => void;
}

export interface Bench {
  readonly name: string;
  /** Arguments of `npm run bench` that run it; its name if there are none. */
  readonly arguments?: string;
  /** The claim of the benchmark, in one sentence. */
  readonly claim: string;
  run(options: BenchOptions): Promise<{ readonly measures: readonly Measure[]; readonly notes: readonly string[] }>;
}

export interface BenchResult {
  readonly name: string;
  readonly arguments?: string;
  readonly claim: string;
  readonly machine: MachineFacts;
  readonly measures: readonly Measure[];
  readonly notes: readonly string[];
}

interface MachineFacts {
  readonly date: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly node: string;
  readonly duckdb: string;
  readonly platform: string;
}

const resultsDirectory = join(import.meta.dirname, '..', 'results');

export function machineFacts(): MachineFacts {
  const lock = join(import.meta.dirname, '..', '..', 'node_modules', '@duckdb', 'node-api', 'package.json');
  return {
    date: new Date().toISOString().slice(0, 10),
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.versions.node,
    duckdb: (JSON.parse(readFileSync(lock, 'utf8')) as { version: string }).version,
    platform: `${process.platform} ${process.arch}`,
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export interface Compared<A, B> {
  readonly service: readonly A[];
  readonly baseline: readonly B[];
}

/** Measures the service and the baseline alternately. */
export async function interleaved<A, B>(
  rounds: number,
  measureService: (round: number) => Promise<A>,
  baseline: (round: number) => Promise<B>,
): Promise<Compared<A, B>> {
  const measured: { service: A[]; baseline: B[] } = { service: [], baseline: [] };
  for (let round = 0; round < rounds; round++) {
    // The order changes from round to round, so that neither always runs in the state in which the other left the machine.
    if (round % 2 === 0) measured.service.push(await measureService(round));
    measured.baseline.push(await baseline(round));
    if (round % 2 === 1) measured.service.push(await measureService(round));
  }
  return measured;
}

/** A measure from one number of each side per round. `target`: takes the median ratio. */
export function compare<A, B>(
  compared: Compared<A, B>,
  described: {
    readonly what: string;
    readonly unit: string;
    readonly serviceValue: (round: A) => number;
    readonly baselineValue: (round: B) => number;
    readonly baseline: string;
    readonly target?: { readonly text: string; readonly isMet: (ratio: number) => boolean };
  },
): Measure {
  const { what, unit, serviceValue, baselineValue, baseline, target } = described;
  const serviceValues = compared.service.map(serviceValue);
  const baselineValues = compared.baseline.map(baselineValue);
  const ratios = serviceValues.map((value, i) => value / (baselineValues[i] as number));
  const ratio = median(ratios);
  return {
    what,
    unit,
    value: median(serviceValues),
    baseline: { what: baseline, value: median(baselineValues) },
    ratio,
    ratioRange: [Math.min(...ratios), Math.max(...ratios)],
    ...(target ? { target: { text: target.text, met: target.isMet(ratio) } } : {}),
  };
}

export function number(value: number): string {
  if (value >= 1000) return Math.round(value).toLocaleString('en-US');
  if (value >= 100) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(value >= 1 ? 2 : 3);
}

function rowOf(measure: Measure): string[] {
  const { what, value, unit, baseline, ratio, ratioRange, target } = measure;
  return [
    what,
    `${number(value)} ${unit}`,
    baseline ? `${number(baseline.value)} ${unit} (${baseline.what})` : '',
    ratio === undefined
      ? ''
      : `${ratio.toFixed(2)}${ratioRange ? ` (${ratioRange.map((r) => r.toFixed(2)).join(' to ')})` : ''}`,
    target?.text ?? '',
    target === undefined ? '' : target.met ? 'met' : 'missed',
  ];
}

const headings = ['what', 'Tabularium', 'baseline', 'ratio (range of the rounds)', 'target', ''];

export function table(measures: readonly Measure[]): string {
  const rows = [headings, headings.map(() => '---'), ...measures.map(rowOf)];
  return rows.map((row) => `| ${row.join(' | ')} |`).join('\n');
}

export function page(result: BenchResult): string {
  const { name, claim, machine, measures, notes } = result;
  const { date, cores, memoryGiB, node, duckdb, platform } = machine;
  return [
    `# ${name}`,
    '',
    claim,
    '',
    table(measures),
    '',
    ...notes.map((note) => `- ${note}`),
    '',
    `Measured ${date} by \`npm run bench -- ${result.arguments ?? name}\`: ${cores} cores, ${memoryGiB} GiB, ${platform}, Node.js ${node}, DuckDB ${duckdb}.`,
    '',
  ].join('\n');
}

export async function keep(result: BenchResult): Promise<void> {
  await writeFile(join(resultsDirectory, `${result.name}.md`), page(result));
  await writeFile(join(resultsDirectory, `${result.name}.json`), `${JSON.stringify(result, null, 2)}\n`);
}

/** The targets of all stored results, in one table, as docs/performance.md shows them. */
export async function keepSummary(names: readonly string[]): Promise<void> {
  const rows: string[] = [];
  for (const name of names) {
    const file = join(resultsDirectory, `${name}.json`);
    if (!existsSync(file)) continue;
    const { measures } = JSON.parse(readFileSync(file, 'utf8')) as BenchResult;
    for (const measure of measures)
      if (measure.target) rows.push(`| [${name}](${name}.md) | ${rowOf(measure).join(' | ')} |`);
  }
  const heads = ['benchmark', ...headings];
  const lines = [`| ${heads.join(' | ')} |`, `|${heads.map(() => ' --- |').join('')}`, ...rows];
  const text = `# Targets and what was measured\n\nWritten by \`npm run bench\`; how it is measured: docs/performance.md.\n\n${lines.join('\n')}\n`;
  await writeFile(join(resultsDirectory, 'README.md'), text);
}
