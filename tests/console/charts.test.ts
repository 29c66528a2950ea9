// Which chart suits a result, and the series that it draws.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seriesOf, splitRows } from '../../console/src/charts/chart_series.ts';
import { splitsMax, suggestChart } from '../../console/src/charts/chart_settings.ts';
import type { Column, Value } from '../../src/client/index.ts';

const columnsOf = (types: Readonly<Record<string, string>>): Column[] =>
  Object.entries(types).map(([name, type]) => ({ name, type, nullable: true }));
const suggested = (types: Readonly<Record<string, string>>, rows: Value[][]) =>
  suggestChart(columnsOf(types), rows.length, rows);

const months = ['2025-01-01', '2025-02-01', '2025-03-01'];
const cities = ['Berlin', 'Lagos', 'Lima'];
const types = { city: 'STRING', month: 'DATE', revenue: 'DECIMAL(18,2)', orders: 'BIGINT' };
const byCity = months.flatMap((month, m) => cities.map((city, c): Value[] => [city, month, `${m}.${c}`, 1n]));

describe('the suggested chart', () => {
  it('has a line for each value of a category where times repeat', () => {
    assert.deepEqual(suggested(types, byCity), { kind: 'line', x: 'month', y: ['revenue'], group: 'city' });
  });

  it('has a line for each measure where every time occurs once', () => {
    const rows = months.map((month): Value[] => ['all', month, '1', 1n]);
    assert.deepEqual(suggested(types, rows), { kind: 'line', x: 'month', y: ['revenue', 'orders'], group: null });
  });

  it('splits by the category that tells the rows of one time apart, unless it has too many values', () => {
    const rows = byCity.map(([city = null, ...rest], i): Value[] => ['EUR', `note ${i % 2}`, city, ...rest]);
    const wide = { currency: 'STRING', note: 'STRING', ...types };
    assert.equal(suggested(wide, rows)?.group, 'city');
    const many = Array.from({ length: 60 }, (_, i): Value[] => [`city ${i % 20}`, months[i % 3] ?? '', '1', 1n]);
    assert.equal(suggested(types, many)?.group, null);
  });
});

describe('the series of a chart', () => {
  const settings = { kind: 'line', x: 'month', y: ['revenue'], group: 'city' } as const;

  it('are those of the categories, each with its own rows', () => {
    const series = seriesOf(settings, columnsOf(types), byCity);
    assert.deepEqual(
      series.map(({ name, rows }) => [name, rows.length]),
      cities.map((city) => [city, 3]),
    );
    const both = seriesOf({ ...settings, y: ['revenue', 'orders'] }, columnsOf(types), byCity);
    assert.deepEqual(both.map(({ name }) => name).slice(0, 2), ['Berlin, revenue', 'Berlin, orders']);
  });

  it('are the largest of many categories', () => {
    const rows = Array.from({ length: 50 }, (_, i): Value[] => [`city ${i}`, '2025-01-01', String(i), 1n]);
    const { parts, count } = splitRows(settings, columnsOf(types), rows);
    assert.equal(count, 50);
    assert.equal(parts?.length, splitsMax);
    assert.ok(parts.every(({ name }) => Number(name.slice(5)) >= 50 - splitsMax));
  });
});
