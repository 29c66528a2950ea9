// DuckDB files for imports: a table with every type and its extreme values.
import { DuckDBInstance } from '@duckdb/node-api';

export async function writeDuckdbFile(path: string, statements: readonly string[]): Promise<void> {
  const instance = await DuckDBInstance.create(path);
  const connection = await instance.connect();
  for (const sql of statements) await connection.run(sql);
  connection.closeSync();
  instance.closeSync();
}

/** Values that arrive exactly, with the type of DuckDB and the one they get. */
export const exact: readonly (readonly [name: string, type: string, logical: string, values: readonly string[]])[] = [
  ['b', 'BOOLEAN', 'BOOLEAN', ['true', 'false']],
  ['i1', 'TINYINT', 'TINYINT', ['-128', '127']],
  ['i2', 'SMALLINT', 'SMALLINT', ['-32768', '32767']],
  ['i4', 'INTEGER', 'INT', ['-2147483648', '2147483647']],
  ['i8', 'BIGINT', 'BIGINT', ['-9223372036854775808', '9223372036854775807']],
  [
    'i16',
    'HUGEINT',
    'LARGEINT',
    ['-170141183460469231731687303715884105728', '170141183460469231731687303715884105727'],
  ],
  ['u1', 'UTINYINT', 'SMALLINT', ['0', '255']],
  ['u2', 'USMALLINT', 'INT', ['0', '65535']],
  ['u4', 'UINTEGER', 'BIGINT', ['0', '4294967295']],
  ['u8', 'UBIGINT', 'LARGEINT', ['0', '18446744073709551615']],
  ['f4', 'FLOAT', 'FLOAT', ["'nan'", '0.1', "'-inf'"]],
  ['f8', 'DOUBLE', 'DOUBLE', ["'inf'", '-0.0', '5e-324', '1.7976931348623157e308']],
  ['d5', 'DECIMAL(5,5)', 'DECIMAL(5,5)', ['-0.00001', '0.99999']],
  ['d38', 'DECIMAL(38,10)', 'DECIMAL(38,10)', ['-9999999999999999999999999999.9999999999', '0']],
  ['dt', 'DATE', 'DATE', ["'0001-01-01'", "'9999-12-31'"]],
  ['ts', 'TIMESTAMP', 'DATETIME', ["'1969-12-31 23:59:59.999999'", "'2026-01-31 10:00:00'"]],
  ['tss', 'TIMESTAMP_S', 'DATETIME', ["'2026-01-31 10:00:01'"]],
  ['tsms', 'TIMESTAMP_MS', 'DATETIME', ["'2026-01-31 10:00:01.5'"]],
  ['tz', 'TIMESTAMPTZ', 'TIMESTAMPTZ', ["'2026-01-31 10:00:00.25+02'", "'0500-01-01 00:00:00+00'"]],
  [
    's',
    'VARCHAR',
    'STRING',
    ["''", "'\\N'", `'"quoted", and'`, "E'line\\nbreak\\r\\n'", "' é😀 '", "E'nul'||chr(0)||'end'", "'null'"],
  ],
  ['bin', 'BLOB', 'BINARY', ["'\\x00\\xFF'", "''"]],
  ['j', 'JSON', 'JSON', [`'{"a" : [1, 2.50, 12345678901234567890]}'`, `'null'`, `'"text"'`]],
  ['u', 'UUID', 'UUID', ["'550e8400-e29b-41d4-a716-446655440000'"]],
  ['l', 'DECIMAL(20,2)[]', 'ARRAY<DECIMAL(20,2)>', ['[1.50, NULL, 123456789012345678.25]', '[]']],
  ['ll', 'VARCHAR[][]', 'ARRAY<ARRAY<STRING>>', [`[['a,"b', NULL], NULL, []]`]],
  ['fixed', 'INTEGER[3]', 'ARRAY<INT>', ['[1, 2, NULL]']],
  [
    'st',
    'STRUCT(a TIMESTAMPTZ, "b c" BLOB)',
    'STRUCT<a: TIMESTAMPTZ, "b c": BINARY>',
    [`{'a': '2026-01-31 10:00:00+00', 'b c': '\\x01'}`],
  ],
  [
    'm',
    'MAP(VARCHAR, HUGEINT)',
    'MAP<STRING, LARGEINT>',
    [`MAP {'k': 170141183460469231731687303715884105727, 'l': NULL}`],
  ],
];

/** Values whose type becomes STRING, and their text. */
export const becomesText: readonly (readonly [name: string, type: string, value: string, text: string])[] = [
  ['t', 'TIME', "'10:00:00.5'", '10:00:00.5'],
  ['iv', 'INTERVAL', "'1 month 2 days'", '1 month 2 days'],
  ['en', "ENUM('red', 'blue')", "'blue'", 'blue'],
  ['bits', 'BIT', "'0101'", '0101'],
  ['uh', 'UHUGEINT', '340282366920938463463374607431768211455', '340282366920938463463374607431768211455'],
  ['un', 'UNION(n INTEGER, s VARCHAR)', '5', '5'],
  ['far', 'DATE', "'infinity'", 'infinity'],
  ['bc', 'TIMESTAMP', "'0044-03-15 (BC) 12:00:00'", '0044-03-15 (BC) 12:00:00'],
];

/** Create and fill the table `types`; only with these columns, if they are given. */
export function typesStatements(isIncluded: (name: string) => boolean = () => true): readonly string[] {
  const own = exact.filter(([name]) => isIncluded(name));
  const texts = becomesText.filter(([name]) => isIncluded(name));
  const columns = [...own, ...texts].map(([name, type]) => `"${name}" ${type}`);
  const rows = Math.max(...own.map(([, , , values]) => values.length));
  const inserts = Array.from({ length: rows }, (_, i) => {
    const values = own.map(([, type, , each]) => (each[i] === undefined ? 'NULL' : `CAST(${each[i]} AS ${type})`));
    const others = texts.map(([, type, value]) => (i === 0 ? `CAST(${value} AS ${type})` : 'NULL'));
    return `INSERT INTO types VALUES (${[...values, ...others].join(', ')})`;
  });
  return [`CREATE TABLE types (${columns.join(', ')})`, ...inserts];
}
