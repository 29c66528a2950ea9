// A chart of a result, with the choice of its kind and its columns. ECharts is loaded with this module, when a chart is first shown.
import { BarChart, HeatmapChart, LineChart, PieChart, ScatterChart } from 'echarts/charts';
import {
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  TooltipComponent,
  VisualMapComponent,
} from 'echarts/components';
import { init, use } from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';
import { useEffect, useMemo, useRef } from 'react';
import type { Column, Value } from '../../../src/client/index.ts';
import { useIsDark } from '../app/theme.ts';
import { isNumberType } from '../results/grid/value_text.ts';
import { formatCount } from '../ui/format.ts';
import { Select } from '../ui/overlays/select.tsx';
import { type ChartColors, chartOptions } from './chart_options.ts';
import styles from './chart_panel.module.css';
import { splitRows } from './chart_series.ts';
import { type ChartSettings, chartKindLabels, chartKinds, groupOf } from './chart_settings.ts';

use([
  AriaComponent,
  BarChart,
  CanvasRenderer,
  DataZoomComponent,
  GridComponent,
  HeatmapChart,
  LegendComponent,
  LineChart,
  PieChart,
  ScatterChart,
  TooltipComponent,
  VisualMapComponent,
]);

interface ChartPanelProps {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Value[])[];
  /** Of the whole result; more than `rows` where only the first are drawn. */
  readonly rowCount: number;
  readonly settings: ChartSettings;
  readonly onChange: (settings: ChartSettings) => void;
}

function colorsOfTheme(): ChartColors {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    text: color('text'),
    muted: color('text-muted'),
    border: color('border'),
    background: color('bg-raised'),
    series: ['chart-1', 'chart-2', 'chart-3', 'chart-4', 'chart-5', 'chart-6'].map(color),
  };
}

export function ChartPanel({ columns, rows, rowCount, settings, onChange }: ChartPanelProps) {
  const container = useRef<HTMLDivElement>(null);
  const isDark = useIsDark();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes the colours that are read from the page
  useEffect(() => {
    const element = container.current;
    if (!element) return;
    const chart = init(element);
    chart.setOption(chartOptions(settings, columns, rows, colorsOfTheme()));
    const observer = new ResizeObserver(() => chart.resize());
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.dispose();
    };
  }, [settings, columns, rows, isDark]);
  const hasAxes = settings.kind !== 'pie' && settings.kind !== 'heatmap';
  const { parts = [], count } = useMemo(() => splitRows(settings, columns, rows), [settings, columns, rows]);
  const split =
    hasAxes && parts.length > 0 ? `, by ${settings.group}: ${parts.map(({ name }) => name).join(', ')}` : '';
  return (
    <div className={styles.panel}>
      <ChartFields columns={columns} settings={settings} onChange={onChange} />
      {rows.length < rowCount && (
        <p
          className={styles.note}
        >{`The first ${formatCount(rows.length)} of ${formatCount(rowCount)} rows are drawn.`}</p>
      )}
      {hasAxes && count > parts.length && (
        <p
          className={styles.note}
        >{`The ${parts.length} largest of ${formatCount(count)} values of ${settings.group} are drawn.`}</p>
      )}
      <div
        ref={container}
        className={styles.chart}
        role="img"
        aria-label={`${chartKindLabels[settings.kind]} chart of the result${split}`}
      />
    </div>
  );
}

/** No name of a column. */
const noSplit = '';

type ChartFieldsProps = Pick<ChartPanelProps, 'columns' | 'settings' | 'onChange'>;

function ChartFields({ columns, settings, onChange }: ChartFieldsProps) {
  const { kind, x, y, group } = settings;
  const choices = columns.map(({ name }) => ({ value: name, label: name }));
  const numbers = columns.filter(({ type }) => isNumberType(type)).map(({ name }) => name);
  const hasOneValue = kind === 'pie' || kind === 'heatmap';
  const toggle = (name: string): void => {
    const next = y.includes(name) ? y.filter((known) => known !== name) : [...y, name];
    if (next.length > 0) onChange({ ...settings, y: next });
  };
  return (
    <div className={styles.fields}>
      <Select
        isQuiet
        label="Kind of chart"
        value={kind}
        choices={chartKinds.map((value) => ({ value, label: chartKindLabels[value] }))}
        onChange={(next) => onChange({ ...settings, kind: next })}
      />
      <Select
        isQuiet
        label="Horizontal axis"
        value={x}
        choices={choices}
        onChange={(next) => onChange({ ...settings, x: next, group: next === group ? null : group })}
      />
      {!hasOneValue && (
        <Select
          isQuiet
          label="Split by"
          value={group ?? noSplit}
          choices={[
            { value: noSplit, label: 'Not split' },
            ...choices.filter(({ value }) => value !== x).map(({ value, label }) => ({ value, label: `By ${label}` })),
          ]}
          onChange={(next) => onChange({ ...settings, group: next === noSplit ? null : next })}
        />
      )}
      {kind === 'heatmap' && (
        <Select
          isQuiet
          label="Vertical axis"
          value={groupOf(settings, columns)}
          choices={choices}
          onChange={(next) => onChange({ ...settings, group: next })}
        />
      )}
      {hasOneValue ? (
        <Select
          isQuiet
          label="Values"
          value={y[0] ?? ''}
          choices={numbers.map((name) => ({ value: name, label: name }))}
          onChange={(next) => onChange({ ...settings, y: [next] })}
        />
      ) : (
        <fieldset className={styles.values}>
          <legend className="visually-hidden">Values</legend>
          {numbers.map((name) => (
            <label key={name}>
              <input type="checkbox" checked={y.includes(name)} onChange={() => toggle(name)} />
              {name}
            </label>
          ))}
        </fieldset>
      )}
    </div>
  );
}
