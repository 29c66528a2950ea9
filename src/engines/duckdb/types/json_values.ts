// Writes plain values as JSON text in JavaScript: the same text as the SQL of json_sql.ts, for the few rows of a small result.
// DuckDB binds a statement with parameters again on each run, and binding that SQL would take as long as the statement.
import {
  DuckDBDateValue,
  type DuckDBMaterializedResult,
  type DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTimeValue,
  type DuckDBValue,
} from '@duckdb/node-api';
import type { NumbersForm } from './json_sql.ts';

type Writer = (value: DuckDBValue) => string;

const dayMicros = 86_400_000_000n;
const bare: Writer = (value) => String(value);
const quoted: Writer = (value) => `"${value}"`;

const double: Writer = (value) => {
  const number = value as number;
  if (!Number.isFinite(number)) return `"${number}"`;
  const text = (Object.is(number, -0) ? '-0' : String(number)).replace('e+', 'e');
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
};

const timestamp =
  (zone: string): Writer =>
  (value) => {
    const stamp = value as DuckDBTimestampValue | DuckDBTimestampTZValue;
    // The largest and the smallest value represent infinity.
    if (!isFinite64(stamp.micros)) return `"${stamp.micros > 0n ? '' : '-'}infinity"`;
    let days = stamp.micros / dayMicros;
    if (days * dayMicros > stamp.micros) days--;
    return `"${new DuckDBDateValue(Number(days))}T${new DuckDBTimeValue(stamp.micros - days * dayMicros)}${zone}"`;
  };

function isFinite64(micros: bigint): boolean {
  return micros !== DuckDBTimestampValue.PosInf.micros && micros !== DuckDBTimestampValue.NegInf.micros;
}

const writers: Readonly<Record<string, Writer>> = {
  BOOLEAN: bare,
  TINYINT: bare,
  SMALLINT: bare,
  INTEGER: bare,
  UTINYINT: bare,
  USMALLINT: bare,
  UINTEGER: bare,
  BIGINT: bare,
  UBIGINT: bare,
  HUGEINT: bare,
  DOUBLE: double,
  DATE: quoted,
  UUID: quoted,
  TIMESTAMP: timestamp(''),
  'TIMESTAMP WITH TIME ZONE': timestamp('Z'),
  VARCHAR: (value) => JSON.stringify(value),
};
const wide = new Set(['BIGINT', 'UBIGINT', 'HUGEINT']);

/** A writer for each column; undefined if only the engine can write the type of one. `types`: type names of DuckDB. */
export function plainWriters(types: readonly string[], numbers: NumbersForm): readonly Writer[] | undefined {
  const found: Writer[] = [];
  for (const type of types) {
    const decimal = /^DECIMAL\(/.test(type);
    const writer = decimal ? bare : Object.hasOwn(writers, type) ? writers[type] : undefined;
    if (writer === undefined) return undefined;
    found.push(numbers === 'string' && (decimal || wide.has(type)) ? quoted : writer);
  }
  return found;
}

/** Each row as a JSON array. */
export function writeRows(result: DuckDBMaterializedResult, columns: readonly Writer[]): string[] {
  const rows: string[] = [];
  for (let c = 0; c < result.chunkCount; c++) {
    const chunk = result.getChunk(c);
    const vectors = columns.map((_, i) => chunk.getColumnVector(i));
    for (let r = 0; r < chunk.rowCount; r++) {
      let row = '[';
      for (let i = 0; i < columns.length; i++) {
        const value = vectors[i]?.getItem(r) ?? null;
        row += `${i === 0 ? '' : ','}${value === null ? 'null' : (columns[i] as Writer)(value)}`;
      }
      rows.push(`${row}]`);
    }
  }
  return rows;
}
