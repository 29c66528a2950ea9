// The chart of a result: the rows that it draws, and the settings that suit them until the user chooses others.
import { useQuery } from '@tanstack/react-query';
import { ChartColumn } from 'lucide-react';
import { lazy, Suspense, useMemo } from 'react';
import { fittingChart, suggestChart } from '../charts/chart_settings.ts';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState, Loading } from '../ui/feedback.tsx';
import type { StoredChart } from './result_panel.tsx';
import type { BegunResult, View } from './run/messages.ts';
import type { StatementRun } from './run/statement_run.ts';

const ChartPanel = lazy(async () => ({ default: (await import('../charts/chart_panel.tsx')).ChartPanel }));

/** A canvas shows no more, and the page must not wait for more to be drawn. */
const drawnMax = 5000;

interface ResultChartProps {
  readonly run: StatementRun;
  readonly begun: BegunResult;
  readonly view: View;
  readonly rowCount: number;
  readonly chart: StoredChart;
}

export function ResultChart({ run, begun, view, rowCount, chart }: ResultChartProps) {
  const { columns, queryId } = begun;
  const { data, error, refetch } = useQuery({
    queryKey: ['queries', queryId, 'drawn', view, Math.min(rowCount, drawnMax)],
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    queryFn: () => run.ask({ kind: 'rows', view, from: 0, to: drawnMax }),
  });
  const settings = useMemo(
    () => data && (fittingChart(chart.settings, columns) ?? suggestChart(columns, rowCount, data)),
    [chart.settings, columns, rowCount, data],
  );
  if (error) return <ErrorPanel error={error} title="The rows could not be read" onRetry={refetch} />;
  if (!data) return <Loading />;
  if (!settings)
    return (
      <EmptyState icon={<ChartColumn aria-hidden />} title="Nothing to draw">
        A chart needs a column of numbers.
      </EmptyState>
    );
  return (
    <Suspense fallback={<Loading label="Loading the chart…" />}>
      <ChartPanel columns={columns} rows={data} rowCount={rowCount} settings={settings} onChange={chart.onChange} />
    </Suspense>
  );
}
