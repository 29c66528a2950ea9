// The demo: creates, loads and queries the Star Schema Benchmark through the REST API, and prints each call as a `curl` line that can be
// pasted. See ssb_load.ts for the load.
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { adviceFor } from '../client/advice.ts';
import { TabulariumError, type Value } from '../client/index.ts';
import { database, type LoadEvent, loadSsb, type SsbQuery, ssbQueries } from './ssb_load.ts';
import { curlLine, type DemoServer, type ReceivedAnswer, tracedClient } from './traced_client.ts';

const rowsShownMax = 5;
const progressStepPercent = 10;
const barCells = 30;
const failureDetailCharsMax = 600;

export interface DemoOptions {
  readonly url: string;
  readonly token: string;
  /** 1 is 6,000,000 rows in `lineorder`. */
  readonly scale: number;
  /** The catalog of the tables; the default is `default`. */
  readonly catalog?: string | undefined;
  /** Contains `root.token`; bodies of requests are written to its subdirectory `demo/`. */
  readonly dataDir: string;
  readonly out: (line: string) => void;
  readonly signal?: AbortSignal;
}

export interface DemoQueryResult {
  readonly name: string;
  readonly rows: readonly (readonly Value[])[];
  readonly rowCount: number;
  /** As measured by the client. */
  readonly wallMs: number;
  /** As reported by the server. */
  readonly elapsedMs: number;
}

interface Demo {
  readonly server: DemoServer;
  readonly scale: number;
  readonly catalog: string | undefined;
  readonly filesDir: string;
  readonly tokenFile: string;
  readonly out: (line: string) => void;
}

const grouped = (value: number): string => Math.round(value).toLocaleString('en-US');
const milliseconds = (value: number): string => (Number.isFinite(value) ? value.toFixed(1) : '?');

/** Formats rows under their headings; numbers are right-aligned, other values left-aligned. */
function alignedTable(headings: readonly string[], rows: readonly (readonly unknown[])[]): string[] {
  const cell = (value: unknown): string =>
    value === null ? 'NULL' : typeof value === 'object' ? JSON.stringify(value) : String(value);
  const cells = rows.map((row) => row.map(cell));
  const widths = headings.map((heading, i) => Math.max(heading.length, ...cells.map((row) => (row[i] ?? '').length)));
  const isRightAligned = headings.map(
    (_, i) => rows.length > 0 && cells.every((row) => /^-?\d+(\.\d+)?$/.test(row[i] ?? '')),
  );
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, i) => (isRightAligned[i] ? text.padStart(widths[i] ?? 0) : text.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  return [line(headings), line(widths.map((width) => '-'.repeat(width))), ...cells.map(line)];
}

function answerLine({ status, result, wallMs }: ReceivedAnswer): string {
  const facts: string[] = [];
  if (typeof result.uri === 'string') facts.push(result.uri);
  if (result.created === false) facts.push('existed already');
  if (typeof result.rowCount === 'number') facts.push(`rowCount ${grouped(result.rowCount)}`);
  return `  ${status} in ${milliseconds(wallMs)} ms${facts.length > 0 ? `: ${facts.join(', ')}` : ''}`;
}

interface Progress {
  /** Starts the progress of a table. */
  start(): void;
  show(rows: number, rowsTotal: number): void;
  end(): void;
}

/** On a terminal a progress bar, otherwise a line for each 10 %. */
function progressOn(out: (line: string) => void): Progress {
  let stepShown = 0;
  const isTerminal = process.stdout.isTTY === true;
  return {
    start: () => {
      stepShown = 0;
    },
    show: (rows, rowsTotal) => {
      const percent = Math.floor((rows / rowsTotal) * 100);
      const text = `${String(percent).padStart(3)} %  ${grouped(rows)} of ${grouped(rowsTotal)} rows`;
      if (isTerminal) {
        const filledCells = Math.round((rows / rowsTotal) * barCells);
        process.stdout.write(`\r  [${'#'.repeat(filledCells)}${'.'.repeat(barCells - filledCells)}] ${text}\u001b[K`);
      } else if (percent >= stepShown + progressStepPercent) {
        stepShown = percent - (percent % progressStepPercent);
        out(`  ${text}`);
      }
    },
    end: () => {
      if (isTerminal) process.stdout.write('\r\u001b[K');
    },
  };
}

function eventPrinter(demo: Demo): (event: LoadEvent) => void {
  const { out } = demo;
  const progress = progressOn(out);
  const print: { [Kind in LoadEvent['kind']]: (event: Extract<LoadEvent, { kind: Kind }>) => void } = {
    table: ({ table, rowsTotal }) => {
      progress.start();
      out('');
      out(`# Table ${table}: ${grouped(rowsTotal)} rows`);
    },
    request: ({ request }) => out(curlLine(request, demo.tokenFile)),
    answer: ({ answer }) => out(answerLine(answer)),
    note: ({ text }) => out(`  ${text}`),
    progress: ({ rows, rowsTotal }) => progress.show(rows, rowsTotal),
    loaded: ({ rows, elapsedMs }) => {
      progress.end();
      const perSecond = grouped((rows / Math.max(elapsedMs, 1)) * 1000);
      out(`  loaded ${grouped(rows)} rows in ${(elapsedMs / 1000).toFixed(2)} s (${perSecond} rows/s)`);
    },
  };
  return <Kind extends LoadEvent['kind']>(event: Extract<LoadEvent, { kind: Kind }>) =>
    print[event.kind as Kind](event);
}

async function runQuery(demo: Demo, query: SsbQuery): Promise<DemoQueryResult> {
  const { out } = demo;
  const startedAt = performance.now();
  const client = tracedClient(demo.server, {
    sent: (request) => out(curlLine(request, demo.tokenFile)),
    received: () => {},
    bodyFile: join(demo.filesDir, `${query.name}.json`),
  });
  out('');
  out(`# ${query.name.toUpperCase()}`);
  const result = client.query(query.sql, { catalog: demo.catalog, database, signal: demo.server.signal });
  const rows = await Array.fromAsync(result.arrays());
  const wallMs = performance.now() - startedAt;
  const { columns, rowCount, statistics } = await result.summary();
  const { elapsedMs } = statistics;
  const names = columns.map((column) => column.name);
  for (const line of alignedTable(names, rows.slice(0, rowsShownMax))) out(`  ${line}`);
  if (rowCount > rowsShownMax) out(`  ... ${grouped(rowCount - rowsShownMax)} more`);
  out(
    `  ${grouped(rowCount)} ${rowCount === 1 ? 'row' : 'rows'} in ${milliseconds(wallMs)} ms (${milliseconds(elapsedMs)} ms in the server)`,
  );
  return { name: query.name, rows, rowCount, wallMs, elapsedMs };
}

function printSummary(demo: Demo, times: readonly DemoQueryResult[]): void {
  const sum = (pick: (time: DemoQueryResult) => number): number => times.reduce((total, time) => total + pick(time), 0);
  const row = (name: string, rows: number, wallMs: number, elapsedMs: number): string[] => [
    name.toUpperCase(),
    String(rows),
    milliseconds(wallMs),
    milliseconds(elapsedMs),
  ];
  const total = row(
    'total',
    sum((time) => time.rowCount),
    sum((time) => time.wallMs),
    sum((time) => time.elapsedMs),
  );
  const rows = times.map((time) => row(time.name, time.rowCount, time.wallMs, time.elapsedMs));
  demo.out('');
  demo.out(`# The ${times.length} queries at scale ${demo.scale}`);
  for (const line of alignedTable(['query', 'rows', 'client ms', 'server ms'], [...rows, total])) demo.out(`  ${line}`);
}

function printFailure(out: (line: string) => void, failure: TabulariumError): void {
  out('');
  out('The demo failed');
  out(`  code:       ${failure.code}${failure.status > 0 ? ` (status ${failure.status})` : ''}`);
  out(`  message:    ${failure.message}`);
  const detail = JSON.stringify(failure.result);
  if (detail !== '{}') out(`  details:    ${detail.slice(0, failureDetailCharsMax)}`);
  out(`  what to do: ${adviceFor(failure)}`);
}

/**
 * Runs the demo. Can be repeated: existing tables are kept.
 * @throws TabulariumError, already printed, for the first call that fails; the reason of the signal when it is aborted.
 */
export async function runDemo(options: DemoOptions): Promise<DemoQueryResult[]> {
  const dataDir = resolve(options.dataDir);
  const demo: Demo = {
    server: { url: options.url, token: options.token, signal: options.signal },
    scale: options.scale,
    catalog: options.catalog,
    filesDir: join(dataDir, 'demo'),
    tokenFile: join(dataDir, 'root.token'),
    out: options.out,
  };
  const { out, server, scale, catalog, filesDir } = demo;
  try {
    await mkdir(filesDir, { recursive: true });
    out(
      `# Star Schema Benchmark at scale ${scale}, through the REST API; every line that starts with curl can be pasted`,
    );
    out('# (A line with an idempotency key that is repeated gets the same answer, and changes nothing again.)');
    await loadSsb({ ...server, scale, catalog, filesDir, onEvent: eventPrinter(demo) });
    const times: DemoQueryResult[] = [];
    for (const query of await ssbQueries()) times.push(await runQuery(demo, query));
    printSummary(demo, times);
    return times;
  } catch (error) {
    if (error instanceof TabulariumError) printFailure(out, error);
    throw error;
  }
}
