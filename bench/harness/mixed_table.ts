// A table of 8 columns of mixed types, and deterministic rows for it: what the benchmarks of rows in and rows out share.

export const mixedColumns = [
  { name: 'id', type: 'BIGINT', nullable: false },
  { name: 'quantity', type: 'INT' },
  { name: 'ratio', type: 'DOUBLE' },
  { name: 'price', type: 'DECIMAL(18,2)' },
  { name: 'label', type: 'STRING' },
  { name: 'day', type: 'DATE' },
  { name: 'at', type: 'DATETIME' },
  { name: 'active', type: 'BOOLEAN' },
] as const;

const words = ['amber', 'birch', 'cobalt', 'dune', 'ember', 'fjord', 'granite', 'harbor'];

/** The rows `from` to `from + count - 1` as arrays. */
export function mixedRows(from: number, count: number): unknown[][] {
  return Array.from({ length: count }, (_, i) => {
    const n = from + i;
    const mixed = Math.imul(n ^ (n >>> 15), 0x2c1b3c6d) >>> 0;
    const day = new Date(Date.UTC(2020, 0, 1 + (mixed % 2000)));
    return [
      n,
      mixed % 10_000,
      mixed / 65_537,
      (mixed % 10_000_000) / 100,
      `${words[mixed % 8]} ${words[(mixed >>> 3) % 8]} ${mixed % 1000}`,
      day.toISOString().slice(0, 10),
      new Date(day.getTime() + (mixed % 86_400_000)).toISOString().slice(0, -1),
      (mixed & 64) === 0,
    ];
  });
}

/** The same kind of rows, made by the engine. */
export function mixedRowsSql(count: number): string {
  return `SELECT i AS id, (hash(i) % 10000)::INTEGER AS quantity, (hash(i) % 100000007)::DOUBLE / 65537 AS ratio,
    ((hash(i, 1) % 10000000)::DECIMAL(18,2) / 100)::DECIMAL(18,2) AS price,
    ['${words.join("', '")}'][1 + (hash(i, 2) % 8)::INTEGER] || ' ' || (hash(i, 3) % 1000)::VARCHAR AS label,
    DATE '2020-01-01' + (hash(i, 4) % 2000)::INTEGER AS day,
    TIMESTAMP '2020-01-01 00:00:00' + to_microseconds((hash(i, 5) % 100000000000000)::BIGINT) AS at,
    hash(i, 6) % 2 = 0 AS active
    FROM range(${count}) AS r(i)`;
}
