// What a run shows below the editor: its progress while it runs, its rows or its error afterwards, and the bar with what to do with it.
import { ChartColumn, CheckCheck, Columns3, Gauge, Play, Table2 } from 'lucide-react';
import { type ReactNode, useCallback, useRef, useState, useSyncExternalStore } from 'react';
import type { ChartSettings } from '../charts/chart_settings.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState } from '../ui/feedback.tsx';
import { formatCount, formatDuration } from '../ui/format.ts';
import { showFailure } from '../ui/overlays/toasts.tsx';
import { ColumnExplorer } from './columns/column_explorer.tsx';
import { CellDetail } from './grid/cell_detail.tsx';
import { type CellPosition, ResultGrid } from './grid/result_grid.tsx';
import { useRowWindow } from './grid/row_window.ts';
import { ResultBar } from './result_bar.tsx';
import { ResultChart } from './result_chart.tsx';
import styles from './result_panel.module.css';
import type { BegunResult, Filter, View } from './run/messages.ts';
import { nextSort } from './run/row_order.ts';
import type { RunState, StatementRun } from './run/statement_run.ts';
import { ContinuingStatement, RunningStatement } from './running_statement.tsx';
import { StatementProfile } from './statement_profile.tsx';

interface ResultPanelProps {
  readonly run: StatementRun | undefined;
  /** How its rows are drawn, and what is called when the user changes that. */
  readonly chart: StoredChart;
}

export interface StoredChart {
  readonly settings: unknown;
  readonly onChange: (settings: ChartSettings) => void;
}

export function ResultPanel({ run, chart }: ResultPanelProps) {
  if (!run)
    return (
      <EmptyState icon={<Play aria-hidden />} title="No result yet">
        Press <kbd>Ctrl</kbd> <kbd>Enter</kbd> to run the statement under the cursor, or what is selected.
      </EmptyState>
    );
  return <Outcome run={run} chart={chart} />;
}

function Outcome({ run, chart }: { readonly run: StatementRun; readonly chart: StoredChart }) {
  const state = useSyncExternalStore(run.subscribe, run.state);
  const begun = state.kind === 'succeeded' ? state.summary : state.begun;
  if (state.kind === 'running' && !begun) return <RunningStatement run={run} state={state} />;
  if (state.kind === 'succeeded' && state.summary.columns.length === 0)
    return (
      <EmptyState icon={<CheckCheck aria-hidden />} title={`${formatCount(state.summary.rowCount)} rows changed`}>
        {`The statement took ${formatDuration(state.tookMs)}.`}
      </EmptyState>
    );
  return (
    <>
      {state.kind === 'failed' && <Failed state={state} />}
      {begun && <Rows key={begun.queryId} run={run} state={state} begun={begun} chart={chart} />}
    </>
  );
}

function Failed({ state: { error, tookMs } }: { readonly state: Extract<RunState, { kind: 'failed' }> }) {
  return (
    <div className={styles.failure}>
      <ErrorPanel
        error={error}
        advice={typeof error.result.line === 'number' ? 'Correct the statement where it is marked.' : undefined}
        title={error.code === 'TASK_CANCELLED' ? 'Cancelled' : `Failed after ${formatDuration(tookMs)}`}
      />
    </div>
  );
}

interface RowsProps {
  readonly chart: StoredChart;
  readonly run: StatementRun;
  readonly state: RunState;
  readonly begun: BegunResult;
}

const noFilters: View['filters'] = [];
const wholeView: View = { filters: noFilters };

type ResultView = 'rows' | 'chart' | 'columns' | 'profile';

const resultViews: readonly { readonly value: ResultView; readonly label: string; readonly icon: ReactNode }[] = [
  { value: 'rows', label: 'Rows', icon: <Table2 aria-hidden /> },
  { value: 'chart', label: 'Chart', icon: <ChartColumn aria-hidden /> },
  { value: 'columns', label: 'Columns', icon: <Columns3 aria-hidden /> },
  { value: 'profile', label: 'Profile', icon: <Gauge aria-hidden /> },
];

function Rows({ run, state, begun, chart }: RowsProps) {
  const { columns, queryId } = begun;
  const [shown, setShown] = useState<ResultView>('rows');
  const [view, setView] = useState<View>(wholeView);
  const [viewSize, setViewSize] = useState<number>();
  const rowCount = viewSize ?? begun.rowCount;
  const [selected, setSelected] = useState<CellPosition>();
  const [opened, setOpened] = useState<CellPosition>();
  const { rows, error } = useRowWindow(run, view);
  /** The view of the last click or key, which another may follow before the rows are in that order. */
  const asked = useRef(view);
  const latest = useRef(view);
  latest.current = view;
  const changeView = useCallback(
    async (change: Partial<View>): Promise<void> => {
      const next = { ...asked.current, ...change };
      asked.current = next;
      try {
        // The rows are shown in the old order until those in the new one are known.
        const size = await run.ask({ kind: 'viewSize', view: next });
        if (asked.current !== next) return;
        setViewSize(size);
        setView(next);
        setSelected(undefined);
      } catch (failure) {
        if (asked.current === next) asked.current = latest.current;
        showFailure('The rows could not be sorted or filtered', failure);
      }
    },
    [run],
  );
  const onSort = (column: number) => void changeView({ sort: nextSort(asked.current.sort, column) });
  const onFilter = useCallback((filters: readonly Filter[]) => void changeView({ filters }), [changeView]);
  const openedColumn = opened && columns[opened.column];
  return (
    <>
      <ResultBar
        run={run}
        state={state}
        begun={begun}
        view={view}
        rowCount={rowCount}
        onFilter={onFilter}
        views={
          <div role="group" aria-label="Show" className={styles.views}>
            {resultViews.map(({ value, label, icon }) => (
              <Button
                key={value}
                size="small"
                look="quiet"
                icon={icon}
                aria-pressed={shown === value}
                onClick={() => setShown(value)}
              >
                {label}
              </Button>
            ))}
          </div>
        }
      />
      {state.kind === 'running' && <ContinuingStatement run={run} state={state} />}
      {error !== undefined && (
        <div className={styles.failure}>
          <ErrorPanel error={error} title="Rows could not be fetched" />
        </div>
      )}
      {shown === 'chart' && <ResultChart run={run} begun={begun} view={view} rowCount={rowCount} chart={chart} />}
      {shown === 'profile' && <StatementProfile statement={run.statement} queryId={queryId} />}
      {shown === 'columns' && <ColumnExplorer run={run} queryId={queryId} view={view} />}
      <div className={styles.content} hidden={shown !== 'rows'}>
        <ResultGrid
          columns={columns}
          rowCount={rowCount}
          rows={rows}
          sort={view.sort}
          onSort={onSort}
          selected={selected}
          onSelect={(position) => {
            setSelected(position);
            if (opened) setOpened(position);
          }}
          onOpen={setOpened}
        />
        {opened && openedColumn && (
          <CellDetail
            column={openedColumn}
            value={rows.row(opened.row)?.[opened.column] ?? null}
            row={opened.row}
            onClose={() => setOpened(undefined)}
          />
        )}
      </div>
    </>
  );
}
