// A table of records: sortable columns, virtual rows, more of them fetched as one scrolls. For rows of queries, see results/.
import {
  createColumnHelper,
  createSortedRowModel,
  rowSortingFeature,
  type SortingState,
  sortFns,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown, ArrowUp } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { classNames } from '../class_names.ts';
import { Loading } from '../feedback.tsx';
import styles from './data_table.module.css';

export interface Column<R> {
  readonly id: string;
  readonly header: string;
  /** What the column is sorted by, and its text where there is no `render`. */
  readonly value: (record: R) => string | number | boolean | null;
  readonly render?: (record: R) => ReactNode;
  readonly isNumber?: boolean;
  /** A column of buttons: nothing to sort by, and its header is for screen readers. */
  readonly isAction?: boolean;
  /** A CSS width, such as `120px` or `30%`. */
  readonly width?: string;
}

interface DataTableProps<R> {
  readonly label: string;
  readonly columns: readonly Column<R>[];
  readonly records: readonly R[] | undefined;
  readonly keyOf: (record: R) => string;
  /** A click or Enter on a row. */
  readonly onOpen?: (record: R) => void;
  /** Called when the end comes into view. */
  readonly onEnd?: (() => unknown) | undefined;
  readonly isFetchingMore?: boolean;
  /** Shown instead of a table without rows. */
  readonly empty?: ReactNode;
}

const rowHeight = 36;
const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns,
});
const noRecords: never[] = [];

export function DataTable<R extends object>(props: DataTableProps<R>) {
  const { label, columns, records, keyOf, onOpen, onEnd, isFetchingMore = false, empty } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [sorting, setSorting] = useState<SortingState>([]);
  const definitions = useMemo(() => {
    const helper = createColumnHelper<typeof features, R>();
    return helper.columns(columns.map(({ id, value }) => helper.accessor(value, { id, sortFn: 'alphanumeric' })));
  }, [columns]);
  const data = (records ?? noRecords) as R[];
  const table = useTable({
    features,
    columns: definitions,
    data,
    state: { sorting },
    onSortingChange: setSorting,
    getRowId: keyOf,
  });
  const { rows } = table.getRowModel();
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
  });
  const items = virtualizer.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => {
    if (rows.length > 0 && last >= rows.length - 1) onEnd?.();
  }, [last, rows.length, onEnd]);

  if (records === undefined) return <Loading />;
  if (records.length === 0 && empty !== undefined) return empty;
  const before = items[0]?.start ?? 0;
  const after = virtualizer.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <section ref={scroller} className={styles.scroller} aria-label={label}>
      <table className={styles.table} aria-rowcount={rows.length + 1}>
        <Head columns={columns} sorting={sorting} onSort={setSorting} />
        <tbody>
          {before > 0 && <tr style={{ height: before }} aria-hidden />}
          {items.map(({ index }) => {
            const row = rows[index];
            return row && <Row key={row.id} record={row.original} columns={columns} index={index} onOpen={onOpen} />;
          })}
          {after > 0 && <tr style={{ height: after }} aria-hidden />}
        </tbody>
      </table>
      {isFetchingMore && <Loading label="Loading more…" />}
    </section>
  );
}

interface HeadProps<R> {
  readonly columns: readonly Column<R>[];
  readonly sorting: SortingState;
  readonly onSort: (sorting: SortingState) => void;
}

function Head<R>({ columns, sorting, onSort }: HeadProps<R>) {
  const [sorted] = sorting;
  return (
    <thead>
      <tr>
        {columns.map(({ id, header, isNumber = false, isAction = false, width }) => {
          const isSorted = sorted?.id === id;
          const next = isSorted && sorted.desc ? [] : [{ id, desc: isSorted }];
          return (
            <th
              key={id}
              scope="col"
              aria-sort={isSorted ? (sorted.desc ? 'descending' : 'ascending') : undefined}
              className={classNames(isNumber && styles.number)}
              style={width === undefined ? undefined : { width }}
            >
              {isAction ? (
                <span className="visually-hidden">{header}</span>
              ) : (
                <button type="button" onClick={() => onSort(next)}>
                  {header}
                  {isSorted && (sorted.desc ? <ArrowDown aria-hidden /> : <ArrowUp aria-hidden />)}
                </button>
              )}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

interface RowProps<R> {
  readonly record: R;
  readonly columns: readonly Column<R>[];
  readonly index: number;
  readonly onOpen: ((record: R) => void) | undefined;
}

function Row<R>({ record, columns, index, onOpen }: RowProps<R>) {
  const open = onOpen && {
    tabIndex: 0,
    onClick: () => onOpen(record),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key === 'Enter' && event.target === event.currentTarget) onOpen(record);
    },
  };
  return (
    <tr aria-rowindex={index + 2} className={classNames(styles.row, open && styles.open)} {...open}>
      {columns.map(({ id, value, render, isNumber = false }) => (
        <td key={id} className={classNames(isNumber && styles.number)}>
          {render ? render(record) : (value(record) ?? <span className={styles.none}>–</span>)}
        </td>
      ))}
    </tr>
  );
}
