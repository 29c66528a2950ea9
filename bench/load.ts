// Files loaded through REST, by path and as an upload, compared with DuckDB in process that copies the same file into a table of the same
// kind; and the growth of the server's memory meanwhile.
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rm, stat } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { DirectDuckdb } from './harness/duckdb.ts';
import { mixedColumns, mixedRowsSql } from './harness/mixed_table.ts';
import { type MemoryWatch, watchMemory } from './harness/processes.ts';
import { type Bench, type Compared, compare, interleaved, type Measure } from './harness/report.ts';
import { TabulariumServer, timed } from './harness/server.ts';

const pathRatioMin = 0.9;
const uploadRatioMin = 0.75;
const growthMegabytesMax = 100;
const database = 'loaded';
const table = 'mixed';
const sampleRows = 100_000;

interface FileKind {
  readonly format: 'csv' | 'parquet' | 'ndjson';
  readonly bytes: number;
  /** In the format that DuckDB writes and reads. */
  readonly options: string;
}
const kinds: readonly FileKind[] = [
  { format: 'csv', bytes: 1e9, options: 'FORMAT csv, HEADER' },
  { format: 'parquet', bytes: 1e9, options: 'FORMAT parquet' },
  { format: 'ndjson', bytes: 300e6, options: 'FORMAT json' },
];
const quickPart = 0.02;

interface MadeFile extends FileKind {
  readonly path: string;
  readonly rows: number;
}

/** About as large as requested, by the size of a sample. */
async function makeFile(direct: DirectDuckdb, kind: FileKind, part: number, directory: string): Promise<MadeFile> {
  const path = join(directory, `mixed.${kind.format}`);
  const write = async (rows: number): Promise<number> => {
    await direct.statements([`COPY (${mixedRowsSql(rows)}) TO '${path}' (${kind.options})`]);
    return (await stat(path)).size;
  };
  const rows = Math.round((kind.bytes * part * sampleRows) / (await write(sampleRows)));
  return { ...kind, path, rows, bytes: await write(rows) };
}

const milliseconds = (ms: readonly number[]): number => ms.reduce((sum, duration) => sum + duration, 0);

/** In one transaction, like a load: replaces the rows of the table by those of the file. */
async function copyWithEngine(direct: DirectDuckdb, { path, options }: MadeFile): Promise<number> {
  const texts = ['BEGIN TRANSACTION', `TRUNCATE ${table}`, `COPY ${table} FROM '${path}' (${options})`, 'COMMIT'];
  return milliseconds(await direct.statements(texts));
}

/** From the request until its task has ended. */
async function loadTimed(
  { client }: TabulariumServer,
  { rows, format }: MadeFile,
  source: { readonly path: string } | { readonly upload: string },
): Promise<number> {
  const loading = client.databases(database).tables(table);
  const { ms, result } = await timed(() => loading.load({ source, format, mode: 'replace' }).done());
  if (result.rowsLoaded !== rows) throw new Error(`${result.rowsLoaded} rows were loaded, not ${rows}`);
  return ms;
}

async function measureUpload(server: TabulariumServer, file: MadeFile): Promise<number> {
  const startMs = performance.now();
  const { link, uploadId } = await server.client.uploads.create({ name: basename(file.path), bytes: file.bytes });
  await server.sendFile(link, file.bytes, createReadStream(file.path, { highWaterMark: 1024 * 1024 }));
  await loadTimed(server, file, { upload: uploadId });
  return performance.now() - startMs;
}

/** The time that DuckDB needs for the file, and the time to write the file's bytes to the disk. */
interface Direct {
  readonly copyMs: number;
  readonly writeMs: number;
}

/** Copies the bytes of a file to another one and flushes them: the minimum that an upload can take. */
async function measureSync(file: MadeFile): Promise<number> {
  const path = `${file.path}.written`;
  const startMs = performance.now();
  await pipeline(createReadStream(file.path, { highWaterMark: 1024 * 1024 }), createWriteStream(path, { flush: true }));
  const ms = performance.now() - startMs;
  await rm(path);
  return ms;
}

async function requireCount(server: TabulariumServer, rows: number): Promise<void> {
  const [row] = await server.query(database, `SELECT count(*) FROM ${table}`);
  const counted = row?.[0];
  if (counted !== rows) throw new Error(`${rows} rows were loaded, ${counted} are in the table`);
}

interface Comparison {
  readonly what: string;
  readonly baseline: string;
  readonly durationOf: (direct: Direct) => number;
  readonly ratioMin?: number;
}

function rateOf(
  file: MadeFile,
  compared: Compared<number, Direct>,
  { what, baseline, durationOf, ratioMin }: Comparison,
): Measure {
  return compare(compared, {
    what: `${file.format}, ${(file.bytes / 1e6).toFixed(0)} MB, ${what}`,
    unit: 'MB/s',
    serviceValue: (ms) => file.bytes / ms / 1000,
    baselineValue: (direct) => file.bytes / durationOf(direct) / 1000,
    baseline,
    ...(ratioMin === undefined
      ? {}
      : { target: { text: `≥ ${ratioMin}`, isMet: (ratio: number) => ratio >= ratioMin } }),
  });
}

async function growthOf(watch: MemoryWatch, what: string): Promise<Measure[]> {
  const memory = await watch.stop();
  if (!memory) return [];
  const value = (memory.peak - memory.before) / 1e6;
  const target = { text: `< ${growthMegabytesMax}`, met: value < growthMegabytesMax };
  return [{ what: `growth of the server's resident memory, ${what}`, value, unit: 'MB', target }];
}

/** One file both ways, alternating with DuckDB; the first round of each is not counted. */
async function measure(
  server: TabulariumServer,
  direct: DirectDuckdb,
  file: MadeFile,
  rounds: number,
): Promise<readonly Measure[]> {
  const measures: Measure[] = [];
  const alone: Comparison = {
    what: 'by path',
    baseline: 'COPY ... FROM in process',
    durationOf: ({ copyMs }) => copyMs,
    ratioMin: pathRatioMin,
  };
  const ways = [
    { way: 'path', measureService: () => loadTimed(server, file, { path: file.path }), judged: [alone] },
    {
      way: 'upload',
      measureService: () => measureUpload(server, file),
      judged: [
        { ...alone, what: 'by upload', ratioMin: uploadRatioMin },
        {
          what: 'by upload',
          baseline: 'the file written and flushed, then COPY',
          durationOf: ({ copyMs, writeMs }: Direct) => copyMs + writeMs,
        },
      ],
    },
  ];
  for (const { way, measureService, judged } of ways) {
    const watch = watchMemory(server.pid);
    const measureClickHouse = async () => ({
      writeMs: way === 'upload' ? await measureSync(file) : 0,
      copyMs: await copyWithEngine(direct, file),
    });
    await measureService();
    await measureClickHouse();
    const compared = await interleaved(rounds, measureService, measureClickHouse);
    await requireCount(server, file.rows);
    for (const one of judged) measures.push(rateOf(file, compared, one));
    measures.push(...(await growthOf(watch, `${file.format} by ${way}`)));
  }
  return measures;
}

export const bench: Bench = {
  name: 'load',
  claim: `Files loaded at ≥ ${pathRatioMin} of the speed of DuckDB's own COPY of the same file in process, by upload at ≥ ${uploadRatioMin}; the server's memory grows by less than ${growthMegabytesMax} MB.`,
  async run({ quick, workDirectory, print }) {
    const files = join(workDirectory, 'files');
    await mkdir(files);
    // The same memory for both sides (harness/duckdb_process.ts).
    const memory = `${Math.floor(totalmem() / 2 / 2 ** 20)}MiB`;
    const flags = [
      '--load-directories',
      files,
      '--warehouse-threads',
      String(availableParallelism()),
      '--warehouse-memory-bytes',
      memory,
    ];
    const dataDirectory = join(workDirectory, 'data');
    const server = await TabulariumServer.start({ dataDirectory, pinned: false, flags });
    const direct = await DirectDuckdb.open(join(workDirectory, 'direct.duckdb'), database);
    const measures: Measure[] = [];
    try {
      await server.createDatabase(database);
      await server.createTable(database, table, { columns: mixedColumns });
      await direct.statements([`CREATE TABLE ${table} AS ${mixedRowsSql(0)}`]);
      for (const kind of kinds) {
        const file = await makeFile(direct, kind, quick ? quickPart : 1, files);
        for (const one of await measure(server, direct, file, quick ? 1 : 3)) {
          measures.push(one);
          print(`  ${one.what}: ${one.value.toFixed(0)} ${one.unit}${one.ratio ? `, ${one.ratio.toFixed(2)}` : ''}`);
        }
        await rm(file.path);
      }
    } finally {
      await Promise.all([server.stop(), direct.stop()]);
    }
    return {
      measures,
      notes: [
        `A table of 8 columns of mixed types, emptied and filled in one transaction on both sides, each with ${availableParallelism()} threads and ${memory}; files are in the cache of the system.`,
        'REST: from the request until the task has ended; by upload, from before the upload was made.',
        'Resident memory of the server process, sampled every 10 ms from before the first load of a kind; the engine is a process of its own with its own limit.',
      ],
    };
  },
};
