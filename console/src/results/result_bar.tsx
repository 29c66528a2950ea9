// The bar above the rows of a result: how many there are, a filter, and the ways to take them elsewhere.

import { Copy, Download, Filter as FilterIcon } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import type { Column } from '../../../src/client/index.ts';
import { Button } from '../ui/button.tsx';
import { copyText } from '../ui/clipboard.ts';
import { formatBytes, formatCount, formatDuration } from '../ui/format.ts';
import { Menu } from '../ui/overlays/menu.tsx';
import { Select } from '../ui/overlays/select.tsx';
import { showFailure, showToast } from '../ui/overlays/toasts.tsx';
import { downloadFormats, downloadResult } from './download.ts';
import styles from './result_panel.module.css';
import type { BegunResult, CopyFormat, Filter, View } from './run/messages.ts';
import type { RunState, StatementRun } from './run/statement_run.ts';

const copyFormats: readonly { readonly format: CopyFormat; readonly label: string }[] = [
  { format: 'tsv', label: 'For a spreadsheet' },
  { format: 'csv', label: 'As CSV' },
  { format: 'markdown', label: 'As Markdown' },
  { format: 'json', label: 'As JSON' },
  { format: 'insert', label: 'As INSERT' },
];
const copiedRowsMax = 100_000;
const filterPauseMs = 250;

interface ResultBarProps {
  readonly run: StatementRun;
  readonly state: RunState;
  readonly begun: BegunResult;
  readonly view: View;
  readonly rowCount: number;
  readonly onFilter: (filters: readonly Filter[]) => void;
  /** The choice of what is shown: rows, a chart. */
  readonly views: ReactNode;
}

export function ResultBar({ run, state, begun, view, rowCount, onFilter, views }: ResultBarProps) {
  const copy = async (format: CopyFormat): Promise<void> => {
    try {
      const text = await run.ask({ kind: 'export', view, format, rowsMax: copiedRowsMax });
      await copyText(text);
      const count = Math.min(rowCount, copiedRowsMax);
      const rest = count < rowCount ? 'These are the first rows; download the result to get all.' : undefined;
      showToast(`${formatCount(count)} rows copied`, rest);
    } catch (failure) {
      showFailure('The rows could not be copied', failure);
    }
  };
  return (
    <div className={styles.bar}>
      {views}
      <p role="status" className={styles.facts}>
        <strong>{formatCount(rowCount)}</strong> {rowCount === 1 ? 'row' : 'rows'}
        {rowCount !== begun.rowCount && ` of ${formatCount(begun.rowCount)}`}
        {state.kind !== 'succeeded' && ' so far'}
        {state.kind !== 'running' && <span className={styles.muted}>{factsOf(state)}</span>}
      </p>
      <span className={styles.space} />
      <FilterFields columns={begun.columns} onFilter={onFilter} />
      <Menu
        align="end"
        trigger={
          <Button size="small" look="quiet" icon={<Copy aria-hidden />}>
            Copy
          </Button>
        }
        items={copyFormats.map(({ format, label }) => ({ label, onSelect: () => void copy(format) }))}
      />
      <Menu
        align="end"
        trigger={
          <Button size="small" look="quiet" icon={<Download aria-hidden />}>
            Download
          </Button>
        }
        items={downloadFormats.map(({ format, label }) => ({
          label,
          onSelect: () => void downloadResult(run, format),
        }))}
      />
    </div>
  );
}

function factsOf(state: Exclude<RunState, { kind: 'running' }>): string {
  const facts = [formatDuration(state.tookMs)];
  if (state.kind === 'succeeded') {
    facts.push(formatBytes(state.summary.statistics.resultBytes));
    if (state.summary.truncated) facts.push('truncated');
  }
  return facts.map((fact) => ` · ${fact}`).join('');
}

const anyColumn = 'any';

interface FilterFieldsProps {
  readonly columns: readonly Column[];
  readonly onFilter: (filters: readonly Filter[]) => void;
}

function FilterFields({ columns, onFilter }: FilterFieldsProps) {
  const [column, setColumn] = useState(anyColumn);
  const [text, setText] = useState('');
  const [sent, setSent] = useState('');
  useEffect(() => {
    const key = text === '' ? '' : `${column} ${text}`;
    if (key === sent) return;
    const timer = setTimeout(() => {
      setSent(key);
      onFilter(text === '' ? [] : [{ column: column === anyColumn ? null : Number(column), text }]);
    }, filterPauseMs);
    return () => clearTimeout(timer);
  }, [column, text, sent, onFilter]);
  return (
    <div className={styles.filter}>
      <FilterIcon aria-hidden />
      <input
        type="search"
        aria-label="Filter rows"
        placeholder="Filter rows"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      {text !== '' && (
        <Select
          isQuiet
          label="Column of the filter"
          value={column}
          choices={[
            { value: anyColumn, label: 'Any column' },
            ...columns.map(({ name }, i) => ({ value: String(i), label: name })),
          ]}
          onChange={setColumn}
        />
      )}
    </div>
  );
}
