// Files loaded by the adapter of ClickHouse, compared with the same file sent over HTTP to the same node, whose own parser reads it into a table
// of the same kind. The node is made of the package in tests/engines/clickhouse/ring.
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { EngineWarehouse } from '../src/engines/port/engine.ts';
import type { DataFormat } from '../src/engines/port/load.ts';
import type { TableRef } from '../src/engines/port/refs.ts';
import { parseType } from '../src/model/types.ts';
import { admissionRequest } from '../tests/admission_request.ts';
import { spec } from '../tests/conformance/engine/engine_world.ts';
import { accessTo, engineOn } from '../tests/engines/clickhouse/engine.ts';
import { startRing } from '../tests/engines/clickhouse/ring/ring.ts';
import { plain } from '../tests/table_definition.ts';
import { mixedColumns, mixedRows } from './harness/mixed_table.ts';
import { type Bench, compare, interleaved, type Measure } from './harness/report.ts';

const ratioMin = 0.9;
const rowsOfChunk = 10_000;
const columns = mixedColumns.map((column) => ({ nullable: true, ...column, type: parseType(column.type) }));
const names = mixedColumns.map(({ name }) => name);

interface FileKind {
  readonly format: DataFormat;
  /** The format by which the node reads it. */
  readonly direct: string;
}
const kinds: readonly FileKind[] = [
  { format: 'csv', direct: 'CSVWithNames' },
  { format: 'ndjson', direct: 'JSONEachRow' },
];

function* lines(format: DataFormat, rows: number): Generator<string> {
  if (format === 'csv') yield `${names.join(',')}\n`;
  for (let from = 0; from < rows; from += rowsOfChunk) {
    const texts = mixedRows(from, Math.min(rowsOfChunk, rows - from)).map((row) =>
      format === 'csv' ? row.join(',') : JSON.stringify(Object.fromEntries(row.map((value, i) => [names[i], value]))),
    );
    yield `${texts.join('\n')}\n`;
  }
}

class Node {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async run(sql: string, data?: Uint8Array): Promise<string> {
    const query = new URLSearchParams({ date_time_input_format: 'best_effort', ...(data ? { query: sql } : {}) });
    const response = await fetch(`${this.#url}/?${query}`, { method: 'POST', body: data ?? sql });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return text.trim();
  }
}

async function measure(
  node: Node,
  warehouse: EngineWarehouse,
  table: TableRef,
  { format, direct }: FileKind,
  { path, rows, rounds }: { readonly path: string; readonly rows: number; readonly rounds: number },
): Promise<Measure> {
  await pipeline(lines(format, rows), createWriteStream(path));
  const { size } = await stat(path);
  const data = await readFile(path);
  const name = '`bench__loaded`.`mixed__local`';
  await node.run(`DROP TABLE IF EXISTS direct`);
  await node.run(`CREATE TABLE direct AS ${name}`);
  const definition = { columns, ...plain };
  const load = async () => {
    const begun = performance.now();
    const file = { path, format, csv: {} };
    const work = { table, definition, file, mode: 'replace', errorsMax: 0, dryRun: false } as const;
    const own = { rejectsPath: `${path}.rejects`, step: randomUUID() };
    const signal = new AbortController().signal;
    const { rowsLoaded } = await warehouse.load({ ...work, ...own }, { ...admissionRequest, signal });
    if (rowsLoaded !== rows) throw new Error(`${rowsLoaded} rows were loaded, not ${rows}`);
    return performance.now() - begun;
  };
  const insert = async () => {
    const begun = performance.now();
    await node.run('TRUNCATE TABLE direct');
    await node.run(`INSERT INTO direct FORMAT ${direct}`, data);
    return performance.now() - begun;
  };
  await load();
  await insert();
  // The sum of floats depends on the order of the rows, their hashes do not.
  const sums = 'count(), sum(id), sum(price), sum(toInt64(day)), sum(cityHash64(label, at, active, ratio))';
  const [loaded, inserted] = [
    await node.run(`SELECT ${sums} FROM ${name}`),
    await node.run(`SELECT ${sums} FROM direct`),
  ];
  if (loaded !== inserted) throw new Error(`the tables differ: ${loaded} and ${inserted}`);
  return compare(await interleaved(rounds, load, insert), {
    what: `${format}, ${(size / 1e6).toFixed(0)} MB, ${rows} rows`,
    unit: 'MB/s',
    serviceValue: (ms) => size / ms / 1000,
    baselineValue: (ms) => size / ms / 1000,
    baseline: 'the same file over HTTP',
    target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin },
  });
}

export const bench: Bench = {
  name: 'clickhouse_load',
  claim: 'How fast the adapter loads a file, staged and once, compared with ClickHouse itself over HTTP.',
  async run({ quick, workDirectory }) {
    const ring = await startRing(1);
    const url = ring.nodes[0]?.url ?? '';
    const catalog = { id: randomUUID(), name: 'bench' };
    const warehouse = engineOn(accessTo(ring.nodes), ring.nodes).open({
      name: 'bench',
      spec: { ...spec, engine: 'clickhouse' },
      dataDirectory: workDirectory,
      spoolDirectory: workDirectory,
      observe: () => undefined,
      catalogs: async () => [catalog],
    });
    try {
      await warehouse.start();
      const apply = (change: Parameters<EngineWarehouse['apply']>[0]) =>
        warehouse.apply(change, { step: randomUUID(), signal: new AbortController().signal });
      await apply({ kind: 'createCatalog', catalog });
      await apply({ kind: 'createDatabase', database: { catalog, database: 'loaded' } });
      const table = { catalog, database: 'loaded', table: 'mixed' };
      await apply({ kind: 'createTable', table, definition: { columns, ...plain } });
      const measures: Measure[] = [];
      for (const kind of kinds) {
        const sizes = quick ? { rows: 100_000, rounds: 3 } : { rows: 2_000_000, rounds: 7 };
        const path = join(workDirectory, `mixed.${kind.format}`);
        measures.push(await measure(new Node(url), warehouse, table, kind, { path, ...sizes }));
      }
      return { measures, notes: ['The time of a load includes its staging, its record and its publication.'] };
    } finally {
      await warehouse.stop();
      await ring.close();
    }
  },
};
