// What a run shows below the editor: its progress while it runs, its rows or its error afterwards, and the bar with what to do with it.
import { CheckCheck, Copy, Play, X } from 'lucide-react';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState, Progress } from '../ui/feedback.tsx';
import { formatBytes, formatCount, formatDuration } from '../ui/format.ts';
import { Menu } from '../ui/menu.tsx';
import { showFailure, showToast } from '../ui/toasts.tsx';
import { CellDetail } from './cell_detail.tsx';
import type { CopyFormat, Sort, Summary, View } from './messages.ts';
import { type CellPosition, ResultGrid } from './result_grid.tsx';
import styles from './result_panel.module.css';
import { useRowWindow } from './row_window.ts';
import type { RunState, StatementRun } from './statement_run.ts';

interface ResultPanelProps {
  readonly run: StatementRun | undefined;
}

export function ResultPanel({ run }: ResultPanelProps) {
  if (!run)
    return (
      <EmptyState icon={<Play aria-hidden />} title="No result yet">
        Press <kbd>Ctrl</kbd> <kbd>Enter</kbd> to run the statement under the cursor, or what is selected.
      </EmptyState>
    );
  return <Outcome run={run} />;
}

function Outcome({ run }: { readonly run: StatementRun }) {
  const state = useSyncExternalStore(run.subscribe, run.state);
  switch (state.kind) {
    case 'running':
      return <Running run={run} state={state} />;
    case 'failed':
      return (
        <div className={styles.failure}>
          <ErrorPanel
            error={state.error}
            title={state.error.code === 'TASK_CANCELLED' ? 'Cancelled' : `Failed after ${formatDuration(state.tookMs)}`}
          />
        </div>
      );
    case 'succeeded':
      return state.summary.columns.length > 0 ? (
        <Rows key={state.summary.queryId} run={run} summary={state.summary} tookMs={state.tookMs} />
      ) : (
        <EmptyState icon={<CheckCheck aria-hidden />} title={`${formatCount(state.summary.rowCount)} rows changed`}>
          {`The statement took ${formatDuration(state.tookMs)}.`}
        </EmptyState>
      );
  }
}

interface RunningProps {
  readonly run: StatementRun;
  readonly state: Extract<RunState, { kind: 'running' }>;
}

const tickMs = 100;

function Running({ run, state: { task, isCancelling } }: RunningProps) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), tickMs);
    return () => clearInterval(timer);
  }, []);
  const leftMs = task?.expectedEndAt ? Date.parse(task.expectedEndAt) - Date.now() : undefined;
  const phase = isCancelling ? 'Cancelling' : task?.state === 'pending' ? 'Waiting in the queue' : 'Running';
  return (
    <div className={styles.running}>
      <Progress label={phase} value={task?.progress ?? null} />
      <p>
        <strong>{phase}</strong> <span className={styles.time}>{formatDuration(now - run.startedAt)}</span>
        {task?.progress != null && ` · ${Math.round(task.progress * 100)} %`}
        {leftMs !== undefined && leftMs > 0 && ` · about ${formatDuration(leftMs)} left`}
      </p>
      {task?.progressText && <p className={styles.muted}>{task.progressText}</p>}
      <Button icon={<X aria-hidden />} disabled={isCancelling} onClick={() => run.cancel()}>
        Cancel
      </Button>
    </div>
  );
}

interface RowsProps {
  readonly run: StatementRun;
  readonly summary: Summary;
  readonly tookMs: number;
}

const noFilters: View['filters'] = [];
const wholeView: View = { filters: noFilters };

function Rows({ run, summary, tookMs }: RowsProps) {
  const [view, setView] = useState<View>(wholeView);
  const [rowCount, setRowCount] = useState(summary.rowCount);
  const [selected, setSelected] = useState<CellPosition>();
  const [opened, setOpened] = useState<CellPosition>();
  const { rows, error } = useRowWindow(run, view);
  const changeView = async (next: View): Promise<void> => {
    try {
      // The rows are shown in the old order until those in the new one are known.
      setRowCount(await run.ask({ kind: 'viewSize', view: next }));
      setView(next);
      setSelected(undefined);
    } catch (failure) {
      showFailure('The rows could not be sorted', failure);
    }
  };
  const onSort = (sort: Sort | undefined) => void changeView({ ...view, sort });
  const openedColumn = opened && summary.columns[opened.column];
  return (
    <>
      <Bar run={run} summary={summary} tookMs={tookMs} view={view} rowCount={rowCount} />
      {error !== undefined && (
        <div className={styles.failure}>
          <ErrorPanel error={error} title="Rows could not be fetched" />
        </div>
      )}
      <div className={styles.content}>
        <ResultGrid
          columns={summary.columns}
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

const copyFormats: readonly { readonly format: CopyFormat; readonly label: string }[] = [
  { format: 'tsv', label: 'For a spreadsheet' },
  { format: 'csv', label: 'As CSV' },
  { format: 'markdown', label: 'As Markdown' },
  { format: 'json', label: 'As JSON' },
  { format: 'insert', label: 'As INSERT' },
];
const copiedRowsMax = 100_000;

interface BarProps extends RowsProps {
  readonly view: View;
  readonly rowCount: number;
}

function Bar({ run, summary, tookMs, view, rowCount }: BarProps) {
  const copy = async (format: CopyFormat): Promise<void> => {
    try {
      const text = await run.ask({ kind: 'export', view, format, rowsMax: copiedRowsMax });
      await navigator.clipboard.writeText(text);
      const count = Math.min(rowCount, copiedRowsMax);
      showToast(
        `${formatCount(count)} rows copied`,
        count < rowCount ? 'Only the first rows: download the rest.' : undefined,
      );
    } catch (failure) {
      showFailure('The rows could not be copied', failure);
    }
  };
  return (
    <div className={styles.bar}>
      <p role="status">
        <strong>{formatCount(rowCount)}</strong> {rowCount === 1 ? 'row' : 'rows'}
        {rowCount !== summary.rowCount && ` of ${formatCount(summary.rowCount)}`}
        <span className={styles.muted}>
          {` · ${formatDuration(tookMs)}`}
          {` · ${formatBytes(summary.statistics.resultBytes)}`}
          {summary.truncated && ' · truncated'}
        </span>
      </p>
      <Menu
        align="end"
        trigger={
          <Button size="small" look="quiet" icon={<Copy aria-hidden />}>
            Copy
          </Button>
        }
        items={copyFormats.map(({ format, label }) => ({ label, onSelect: () => void copy(format) }))}
      />
    </div>
  );
}
