// The settings of a chart and the rows of a result as options of ECharts. Tooltips are drawn, not made of HTML: values are text, and the
// content security policy refuses styles in HTML.
import type { EChartsCoreOption } from 'echarts/core';
import type { Column, Value } from '../../../src/client/index.ts';
import { isNumberType, isTimeType } from '../results/grid/value_text.ts';
import { labelOf, numberOf, seriesOf } from './chart_series.ts';
import { type ChartSettings, groupOf } from './chart_settings.ts';

type Rows = readonly (readonly Value[])[];

export interface ChartColors {
  readonly text: string;
  readonly muted: string;
  readonly border: string;
  readonly background: string;
  readonly series: readonly string[];
}

const manyPoints = 2000;
const slicesMax = 12;

export function chartOptions(
  settings: ChartSettings,
  columns: readonly Column[],
  rows: Rows,
  colors: ChartColors,
): EChartsCoreOption {
  const { kind, x, y } = settings;
  const indexOf = (name: string | null): number => columns.findIndex((column) => column.name === name);
  const xIndex = indexOf(x);
  const xType = columns[xIndex]?.type ?? '';
  const shared = sharedOptions(colors);
  if (kind === 'pie') return { ...shared, ...pieOptions(rows, xIndex, indexOf(y[0] ?? null), colors) };
  if (kind === 'heatmap')
    return {
      ...shared,
      ...heatOptions(rows, xIndex, indexOf(groupOf(settings, columns)), indexOf(y[0] ?? null), colors),
    };
  const isTime = isTimeType(xType);
  const isValue = kind === 'scatter' && isNumberType(xType);
  const xOf = (row: readonly Value[]) => (isValue ? numberOf(row[xIndex]) : labelOf(row[xIndex]));
  const axis = axisOptions(colors);
  const series = seriesOf(settings, columns, rows);
  const isSplit = series.some((one) => one.rows !== rows);
  const labels = rows.map((row) => labelOf(row[xIndex]));
  return {
    ...shared,
    xAxis: {
      ...axis,
      name: x,
      nameLocation: 'middle',
      nameGap: 28,
      type: isTime ? 'time' : isValue ? 'value' : 'category',
      scale: true,
      ...(isTime || isValue ? {} : { data: isSplit ? [...new Set(labels)] : labels }),
    },
    yAxis: { ...axis, type: 'value', name: y.length === 1 ? y[0] : '', scale: kind === 'scatter' || kind === 'line' },
    dataZoom: [{ type: 'inside', filterMode: 'none' }],
    series: series.map((one) => ({
      name: one.name,
      type: kind === 'area' ? 'line' : kind,
      data: one.rows.map((row) => {
        const value = numberOf(row[one.column]);
        return isTime || isValue || isSplit ? [xOf(row), value] : value;
      }),
      showSymbol: one.rows.length < 100,
      symbolSize: kind === 'scatter' ? 6 : 5,
      large: one.rows.length > manyPoints,
      ...(kind === 'area' ? { areaStyle: { opacity: 0.25 } } : {}),
      ...(kind === 'line' || kind === 'area' ? { sampling: 'lttb', connectNulls: false } : {}),
    })),
  };
}

const sharedOptions = ({ text, muted, border, background, series }: ChartColors) => ({
  color: [...series],
  animation: false,
  textStyle: { color: text, fontFamily: 'inherit' },
  legend: { type: 'scroll', top: 6, textStyle: { color: text }, pageTextStyle: { color: muted } },
  grid: { left: 12, right: 20, top: 44, bottom: 28, outerBoundsMode: 'same', outerBoundsContain: 'axisLabel' },
  tooltip: {
    trigger: 'axis',
    renderMode: 'richText',
    confine: true,
    backgroundColor: background,
    borderColor: border,
    textStyle: { color: text },
  },
});

const axisOptions = ({ muted, border }: ChartColors) => ({
  axisLabel: { color: muted, hideOverlap: true },
  axisLine: { lineStyle: { color: border } },
  splitLine: { lineStyle: { color: border } },
  nameTextStyle: { color: muted },
});

function pieOptions(rows: Rows, x: number, y: number, { text, background }: ChartColors) {
  const slices = rows
    .map((row) => ({ name: labelOf(row[x]), value: Math.max(0, numberOf(row[y]) ?? 0) }))
    .sort((a, b) => b.value - a.value);
  const rest = slices.slice(slicesMax).reduce((sum, { value }) => sum + value, 0);
  const shown = slices.slice(0, slicesMax);
  return {
    tooltip: { trigger: 'item', renderMode: 'richText', backgroundColor: background, textStyle: { color: text } },
    series: [
      {
        type: 'pie',
        radius: ['38%', '70%'],
        top: 24,
        label: { color: text, formatter: '{b}: {d} %' },
        itemStyle: { borderColor: background, borderWidth: 2 },
        data: rest > 0 ? [...shown, { name: 'Others', value: rest }] : shown,
      },
    ],
  };
}

function heatOptions(rows: Rows, x: number, group: number, y: number, colors: ChartColors) {
  const categories = (index: number): string[] => [...new Set(rows.map((row) => labelOf(row[index])))];
  const [columns, lines] = [categories(x), categories(group)];
  const values = rows.map((row) => numberOf(row[y]) ?? 0);
  const axis = axisOptions(colors);
  return {
    legend: { show: false },
    grid: { left: 12, right: 20, top: 20, bottom: 60, outerBoundsMode: 'same', outerBoundsContain: 'axisLabel' },
    tooltip: { renderMode: 'richText', backgroundColor: colors.background, textStyle: { color: colors.text } },
    xAxis: { ...axis, type: 'category', data: columns },
    yAxis: { ...axis, type: 'category', data: lines },
    visualMap: {
      min: Math.min(...values, 0),
      max: Math.max(...values, 1),
      orient: 'horizontal',
      left: 'center',
      bottom: 4,
      calculable: true,
      textStyle: { color: colors.text },
      inRange: { color: [colors.border, colors.series[0] ?? colors.text] },
    },
    series: [
      {
        type: 'heatmap',
        data: rows.map((row) => [labelOf(row[x]), labelOf(row[group]), numberOf(row[y])]),
      },
    ],
  };
}
