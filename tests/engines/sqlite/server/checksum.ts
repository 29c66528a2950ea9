// The checksums of a table (src/model/table_checksum.ts), computed value by value.
import { createHash } from 'node:crypto';
import type { SQLOutputValue } from 'node:sqlite';
import type { TableToSum } from '../../../../src/engines/port/refs.ts';
import {
  type ColumnChecksum,
  checksumNaN,
  checksumP,
  checksumQ,
  type TableChecksum,
} from '../../../../src/model/table_checksum.ts';
import type { LogicalType } from '../../../../src/model/types.ts';
import { parseJson } from '../../../../src/standard/json/parse_json.ts';
import { type Connection, fileName, requireTable } from './database.ts';
import { quoted } from './sql_text.ts';
import { encode } from './values.ts';

type Stored = SQLOutputValue;

export function checksumTable(on: Connection, work: TableToSum): TableChecksum {
  const { columns } = work;
  const table = fileName(requireTable(on, work).id);
  const sums = columns.map(() => ({ nulls: 0, sums: [0n, 0n, 0n] }));
  let rows = 0;
  const select = on.db.prepare(`SELECT ${columns.map(({ name }) => quoted(name)).join(', ')} FROM ${table}`);
  select.setReadBigInts(true);
  select.setReturnArrays(true);
  for (const row of select.iterate() as Iterable<unknown> as Iterable<readonly Stored[]>) {
    rows++;
    for (const [i, { type }] of columns.entries()) add(sums[i] as Sums, type, row[i] ?? null);
  }
  return { rows, columns: sums.map(({ nulls, sums }) => ({ nulls, sums: sums.map(String) }) satisfies ColumnChecksum) };
}

interface Sums {
  nulls: number;
  readonly sums: bigint[];
}

function add(sums: Sums, type: LogicalType, stored: Stored): void {
  if (stored === null) {
    sums.nulls++;
    return;
  }
  const n = numberOf(type, stored) ?? hashOf(bytesOf(type, stored));
  const terms = [n % checksumP, n % checksumQ, ((n % checksumP) * (n % checksumP)) % checksumP];
  for (const [i, term] of terms.entries()) sums.sums[i] = (sums.sums[i] ?? 0n) + term;
}

/** The last 8 bytes of the MD5, in little-endian order. */
const hashOf = (bytes: string | Uint8Array): bigint => createHash('md5').update(bytes).digest().readBigUInt64LE(8);

/** Undefined for a type whose values have no number of their own. */
function numberOf(type: LogicalType, stored: Exclude<Stored, null>): bigint | undefined {
  switch (type.kind) {
    case 'BOOLEAN':
    case 'TINYINT':
    case 'SMALLINT':
    case 'INT':
    case 'BIGINT':
    case 'LARGEINT':
      return BigInt(String(stored));
    case 'FLOAT':
    case 'DOUBLE': {
      const number = Number(stored);
      if (Number.isNaN(number)) return checksumNaN;
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleLE(number);
      return bytes.readBigInt64LE();
    }
    case 'DECIMAL': {
      const [whole = '0', fraction = ''] = String(stored).split('.');
      return BigInt(`${whole}${fraction.padEnd(type.scale, '0')}`);
    }
    case 'DATE':
      return microsOf(`${stored}T00:00:00`) / 86_400_000_000n;
    case 'DATETIME':
    case 'TIMESTAMPTZ':
      return microsOf(String(stored));
    default:
      return undefined;
  }
}

function microsOf(text: string): bigint {
  const [seconds = '', fraction = ''] = text.split('.');
  return BigInt(Date.parse(`${seconds}Z`)) * 1000n + BigInt(fraction.padEnd(6, '0'));
}

function bytesOf(type: LogicalType, stored: Exclude<Stored, null>): string | Uint8Array {
  if (stored instanceof Uint8Array) return stored;
  if (type.kind !== 'ARRAY' && type.kind !== 'MAP' && type.kind !== 'STRUCT') return String(stored);
  return nestedText(type, parseJson(String(stored)));
}

function nestedText(type: LogicalType, value: unknown): string {
  if (value === null || value === undefined) return 'n';
  switch (type.kind) {
    case 'ARRAY':
      return `[${(value as unknown[]).map((item) => `${nestedText(type.element, item)},`).join('')}]`;
    case 'MAP': {
      const entries = value as { readonly key: unknown; readonly value: unknown }[];
      return `{${entries.map((entry) => `${nestedText(type.key, entry.key)}=${nestedText(type.value, entry.value)},`).join('')}}`;
    }
    case 'STRUCT': {
      const fields = value as Readonly<Record<string, unknown>>;
      return `(${type.fields.map((field) => `${nestedText(field.type, fields[field.name])},`).join('')})`;
    }
    case 'JSON': {
      const text = JSON.stringify(value);
      return `${Buffer.byteLength(text)}:${text}`;
    }
    default:
      break;
  }
  const stored = encode(type, JSON.isRawJSON(value) ? value.rawJSON : value);
  if (stored === null) return 'n';
  const number = numberOf(type, stored);
  if (number !== undefined) return String(number);
  const text = stored instanceof Uint8Array ? Buffer.from(stored).toString('hex') : String(stored);
  return `${Buffer.byteLength(text)}:${text}`;
}
