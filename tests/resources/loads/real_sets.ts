// Real data sets (vega-datasets) as files of every format and compression, and what DuckDB reads from them in this process:
// the row count and an order-independent checksum of each column. After a database load, the server must return the same.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { type TestServer, uri } from '../../server.ts';

export const setsDirectory = realpathSync(
  join(fileURLToPath(new URL('../../../node_modules/vega-datasets', import.meta.url)), 'data'),
);

/** JSON files that are not lists of flat objects, with the reason. */
export const excludedFiles: Readonly<Record<string, string>> = {
  'annual-precip.json': 'one object: a grid',
  'earthquakes.json': 'one object: GeoJSON',
  'londonBoroughs.json': 'one object: TopoJSON',
  'londonTubeLines.json': 'one object: TopoJSON',
  'miserables.json': 'one object: a graph',
  'us-10m.json': 'one object: TopoJSON',
  'volcano.json': 'one object: a grid',
  'weekly-weather.json': 'objects in its objects',
  'world-110m.json': 'one object: TopoJSON',
};
export const formatOf = (name: string): Format => extname(name).slice(1) as Format;
export const largest = 'flights-3m.parquet';

export type Format = 'csv' | 'json' | 'ndjson' | 'parquet';
export const formats: readonly Format[] = ['csv', 'json', 'ndjson', 'parquet'];
export type CompressionName = 'none' | 'gzip' | 'zstd';
export const compressions: readonly CompressionName[] = ['none', 'gzip', 'zstd'];

const endings = { none: '', gzip: '.gz', zstd: '.zst' };
/** Represents null in the CSV files that we write, to distinguish it from an empty string. */
const nullText = '\\N';

export const isFlat = (text: string): boolean => {
  const value = JSON.parse(text) as unknown;
  const isObject = (value: unknown): value is object =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  const isPlain = (value: unknown) =>
    isObject(value) && Object.values(value).every((v) => typeof v !== 'object' || v === null);
  return Array.isArray(value) && value.every(isPlain);
};

/** The names of the loaded files, the largest last. */
export function setNames(): string[] {
  const names = readdirSync(setsDirectory).sort();
  const json = names.filter((name) => name.endsWith('.json'));
  const flat = json.filter((name) => isFlat(readFileSync(join(setsDirectory, name), 'utf8')));
  assert.deepEqual(
    json.filter((name) => !flat.includes(name)),
    Object.keys(excludedFiles),
  );
  return [...names.filter((name) => name.endsWith('.csv')), ...flat, largest];
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
const readers = { csv: 'read_csv', json: 'read_json', ndjson: 'read_json', parquet: 'read_parquet' };

const sumsText = (columns: readonly string[], from: string) =>
  `SELECT count(*)::VARCHAR, ${columns.map((name) => `sum(hash(${quoted(name)}::VARCHAR))::VARCHAR`).join(', ')} FROM ${from}`;

export interface Sums {
  readonly columns: readonly string[];
  /** The number of rows, then the checksums. */
  readonly sums: readonly unknown[];
}

/** Compares data sets with their copies on a server. `directory`: a further directory that the server loads from. */
export class RealSets {
  readonly #connection: DuckDBConnection;
  readonly #server: TestServer;
  readonly #directory: string;
  readonly #close: () => void;

  private constructor(instance: DuckDBInstance, connection: DuckDBConnection, server: TestServer, directory: string) {
    this.#connection = connection;
    this.#server = server;
    this.#directory = directory;
    this.#close = () => {
      connection.closeSync();
      instance.closeSync();
    };
  }

  static async open(server: TestServer, directory: string): Promise<RealSets> {
    const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
    (await server.put(uri`/databases/${'real'}`)).is(201);
    return new RealSets(instance, await instance.connect(), server, directory);
  }

  close(): void {
    this.#close();
  }

  /** The original file: reads it with DuckDB in this process into a local table, loads it on the server, and returns the sums of both. */
  async original(name: string): Promise<{ readonly expected: Sums; readonly got: Sums }> {
    const path = join(setsDirectory, name);
    const reader = readers[formatOf(name)];
    await this.#connection.run(`CREATE TABLE ${quoted(name)} AS FROM ${reader}('${path.replaceAll("'", "''")}')`);
    await this.#load(name, { source: { path } });
    return { expected: await this.#here(name), got: await this.#sumsInTable(name) };
  }

  /** The same in another format, into a table with the same columns and types. */
  async writeVariant(
    name: string,
    format: Format,
    packing: CompressionName,
  ): Promise<{ readonly expected: Sums; readonly got: Sums }> {
    const path = await this.#write(name, format, packing);
    const table = `${name} ${format} ${packing}`;
    try {
      const columns = await this.#columns(name);
      const csv = format === 'csv' ? { csv: { nullText } } : {};
      await this.#load(table, {
        source: { path },
        columns: columns.map(({ name: column, type }) => ({ name: column, type })),
        ...csv,
      });
      return { expected: await this.#here(name), got: await this.#sumsInTable(table) };
    } finally {
      rmSync(path, { force: true });
    }
  }

  async #load(table: string, body: object): Promise<void> {
    const reply = await this.#server.ended(await this.#server.post(uri`/databases/${'real'}/load`, { table, ...body }));
    assert.equal(reply.at('state'), 'succeeded', `${table}: ${JSON.stringify(reply.at('error'))}`);
  }

  async #columns(table: string): Promise<readonly { readonly name: string; readonly type: string }[]> {
    return (await this.#server.get(uri`/databases/${'real'}/tables/${table}`)).is(200).at('columns');
  }

  async #here(name: string): Promise<Sums> {
    const described = await this.#connection.runAndReadAll(`DESCRIBE ${quoted(name)}`);
    const columns = described.getRows().map(([column]) => String(column));
    const sums = await this.#connection.runAndReadAll(sumsText(columns, quoted(name)));
    return { columns, sums: sums.getRows()[0] as unknown[] };
  }

  async #sumsInTable(table: string): Promise<Sums> {
    const columns = (await this.#columns(table)).map(({ name }) => name);
    const [sums] = await this.#server.rows('real', sumsText(columns, quoted(table)));
    return { columns, sums: sums as unknown[] };
  }

  async #write(name: string, format: Format, packing: CompressionName): Promise<string> {
    const path = join(this.#directory, `${basename(name)}.${format}`);
    const options = {
      csv: `FORMAT csv, HEADER, NULLSTR '${nullText}'`,
      json: 'FORMAT json, ARRAY true',
      ndjson: 'FORMAT json',
      parquet: `FORMAT parquet, COMPRESSION ${packing === 'none' ? 'uncompressed' : packing}`,
    };
    await this.#connection.run(`COPY ${quoted(name)} TO '${path.replaceAll("'", "''")}' (${options[format]})`);
    if (format === 'parquet' || packing === 'none') return path;
    const bytes = readFileSync(path);
    writeFileSync(
      path + endings[packing],
      packing === 'gzip' ? gzipSync(bytes, { level: 1 }) : zstdCompressSync(bytes),
    );
    rmSync(path);
    return path + endings[packing];
  }
}
