// The grid of a result: virtual in both directions, so that the cost depends on what is in view and not on the number of rows. Browsers
// limit the height of an element to some million pixels; beyond that, scrolling is scaled, which TanStack Virtual does not do.

import { ArrowDown, ArrowUp } from 'lucide-react';
import {
  type KeyboardEvent,
  memo,
  type PointerEvent,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import type { Column, Value } from '../../../../src/client/index.ts';
import { classNames } from '../../ui/class_names.ts';
import { copyText } from '../../ui/clipboard.ts';
import type { Sort } from '../run/messages.ts';
import styles from './result_grid.module.css';
import { isNumberType, textOf } from './value_text.ts';

const rowHeight = 26;
const headHeight = 44;
const heightMax = 8_000_000;
const overscan = 8;
const columnWidthMin = 60;
const columnWidthMax = 420;
const characterWidth = 7.4;
const cellTextMax = 300;

export interface CellPosition {
  readonly row: number;
  readonly column: number;
}

interface Rows {
  row(index: number): readonly Value[] | undefined;
  need(from: number, to: number, rowCount: number): void;
}

interface ResultGridProps {
  readonly columns: readonly Column[];
  readonly rowCount: number;
  readonly rows: Rows;
  readonly sort: Sort | undefined;
  /** Called for each click on the head of a column. */
  readonly onSort: (column: number) => void;
  readonly selected: CellPosition | undefined;
  readonly onSelect: (position: CellPosition) => void;
  /** Enter or a double click. */
  readonly onOpen: (position: CellPosition) => void;
}

/** What is in view, in pixels of the scroller and in rows. */
function useViewport(rowCount: number) {
  const scroller = useRef<HTMLDivElement>(null);
  const [viewport, setViewport] = useState({ top: 0, left: 0, width: 800, height: 400 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const measure = () => {
      const { scrollTop, scrollLeft, clientWidth, clientHeight } = element;
      setViewport({ top: scrollTop, left: scrollLeft, width: clientWidth, height: clientHeight });
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    measure();
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);
  const fullHeight = rowCount * rowHeight;
  const height = Math.min(fullHeight, heightMax);
  const bodyHeight = Math.max(1, viewport.height - headHeight);
  const scale = fullHeight > height ? (fullHeight - bodyHeight) / (height - bodyHeight) : 1;
  const scaleBefore = useRef(scale);
  // The rows in view stay where they are while later ones arrive.
  useLayoutEffect(() => {
    if (scroller.current && scaleBefore.current !== scale) scroller.current.scrollTop *= scaleBefore.current / scale;
    scaleBefore.current = scale;
  }, [scale]);
  const virtualTop = viewport.top * scale;
  const first = Math.max(0, Math.floor(virtualTop / rowHeight) - overscan);
  const last = Math.min(rowCount, Math.ceil((virtualTop + bodyHeight) / rowHeight) + overscan);
  /** Where the first rendered row is, in pixels of the scroller. */
  const offset = viewport.top + first * rowHeight - virtualTop;
  const reveal = (row: number) => {
    const top = row * rowHeight;
    const element = scroller.current;
    if (!element) return;
    if (top < virtualTop) element.scrollTop = top / scale;
    else if (top + rowHeight > virtualTop + bodyHeight) element.scrollTop = (top + rowHeight - bodyHeight) / scale;
  };
  return { scroller, viewport, height, first, last, offset, reveal, page: Math.floor(bodyHeight / rowHeight) };
}

/** Widths by the names and the first rows; the user may change them. */
function useWidths(columns: readonly Column[], rows: Rows, rowCount: number) {
  const [resized, setResized] = useState<Readonly<Record<number, number>>>({});
  const isLoaded = rowCount > 0 && rows.row(0) !== undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: measured once per result, when its first rows have arrived
  const measured = useMemo(
    () =>
      columns.map(({ name, type }, column) => {
        const sample = Array.from({ length: Math.min(40, rowCount) }, (_, row) => rows.row(row)?.[column] ?? null);
        const lengths = sample.map((value) => (value === null ? 4 : textOf(value).length));
        const longest = Math.max(name.length + 3, Math.min(type.length, 24), ...lengths);
        return Math.max(columnWidthMin, Math.min(columnWidthMax, Math.ceil(longest * characterWidth) + 22));
      }),
    [columns, isLoaded],
  );
  const widths = measured.map((width, i) => resized[i] ?? width);
  const starts = widths.map((_, i) => widths.slice(0, i).reduce((sum, width) => sum + width, 0));
  const total = widths.reduce((sum, width) => sum + width, 0);
  const resize = (column: number, width: number) =>
    setResized({ ...resized, [column]: Math.max(columnWidthMin, width) });
  return { widths, starts, total, resize };
}

export function ResultGrid(props: ResultGridProps) {
  const { columns, rowCount, rows, sort, onSort, selected, onSelect, onOpen } = props;
  const { scroller, viewport, height, first, last, offset, reveal, page } = useViewport(rowCount);
  const { widths, starts, total, resize } = useWidths(columns, rows, rowCount);
  useEffect(() => rows.need(first, last, rowCount), [rows, first, last, rowCount]);
  const gutter = String(rowCount).length * characterWidth + 22;
  const shown = columns.flatMap((_, i) => {
    const start = gutter + (starts[i] ?? 0);
    const isIn = start + (widths[i] ?? 0) > viewport.left - 200 && start < viewport.left + viewport.width + 200;
    return isIn ? [i] : [];
  });
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== scroller.current || rowCount === 0) return;
    const position = selected ?? { row: 0, column: 0 };
    if (event.key === 'Enter') onOpen(position);
    if (event.key === 'c' && (event.ctrlKey || event.metaKey) && getSelection()?.isCollapsed !== false) {
      event.preventDefault();
      void copyText(textOf(rows.row(position.row)?.[position.column] ?? null));
    }
    const next = movedBy(event, position, { rows: rowCount, columns: columns.length, page });
    if (!next) return;
    event.preventDefault();
    onSelect(next);
    reveal(next.row);
  };
  const indices = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  const activeId = selected && `cell-${selected.row}-${selected.column}`;
  return (
    <div
      ref={scroller}
      role="grid"
      aria-label="Result"
      aria-rowcount={rowCount + 1}
      aria-colcount={columns.length}
      aria-activedescendant={activeId}
      tabIndex={0}
      className={styles.grid}
      onKeyDown={onKeyDown}
    >
      <div className={styles.sheet} style={{ width: gutter + total, height: headHeight + height }}>
        <div role="row" tabIndex={-1} aria-rowindex={1} className={styles.head} style={{ height: headHeight }}>
          <div className={styles.gutterHead} style={{ width: gutter }} aria-hidden />
          {shown.map((i) => (
            <HeadCell
              key={i}
              column={columns[i] as Column}
              index={i}
              left={gutter + (starts[i] ?? 0)}
              width={widths[i] ?? 0}
              sort={sort?.column === i ? sort : undefined}
              onSort={onSort}
              onResize={(width) => resize(i, width)}
            />
          ))}
        </div>
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: the grid handles the keys of all its cells */}
        <div
          role="rowgroup"
          tabIndex={-1}
          className={styles.body}
          style={{ transform: `translateY(${offset}px)` }}
          onClick={(event) => {
            withPosition(event.target, onSelect);
            // The cell that was clicked has the focus now, and its element may be used for another one.
            scroller.current?.focus({ preventScroll: true });
          }}
          onDoubleClick={(event) => withPosition(event.target, onOpen)}
        >
          {indices.map((row) => (
            // The elements of rows that leave the view are used for those that enter it.
            <div
              key={row % indices.length}
              role="row"
              tabIndex={-1}
              aria-rowindex={row + 2}
              className={styles.row}
              style={{ top: (row - first) * rowHeight, height: rowHeight }}
            >
              <div className={styles.gutter} style={{ width: gutter }} aria-hidden>
                {row + 1}
              </div>
              {shown.map((column) => (
                <Cell
                  key={column}
                  row={row}
                  column={column}
                  value={rows.row(row)?.[column]}
                  isNumber={isNumberType(columns[column]?.type ?? '')}
                  isSelected={selected?.row === row && selected.column === column}
                  left={gutter + (starts[column] ?? 0)}
                  width={widths[column] ?? 0}
                />
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

/** Calls with the position of the cell that an element is in, if it is in one. */
function withPosition(target: EventTarget, call: (position: CellPosition) => void): void {
  const cell = target instanceof Element ? target.closest<HTMLElement>('[role=gridcell]') : null;
  if (cell) call({ row: Number(cell.dataset.row), column: Number(cell.dataset.column) });
}

interface Size {
  readonly rows: number;
  readonly columns: number;
  readonly page: number;
}

function movedBy({ key, ctrlKey, metaKey }: KeyboardEvent, { row, column }: CellPosition, size: Size) {
  const isFar = ctrlKey || metaKey;
  const target: Readonly<Record<string, CellPosition>> = {
    ArrowDown: { row: isFar ? size.rows - 1 : row + 1, column },
    ArrowUp: { row: isFar ? 0 : row - 1, column },
    ArrowRight: { row, column: isFar ? size.columns - 1 : column + 1 },
    ArrowLeft: { row, column: isFar ? 0 : column - 1 },
    PageDown: { row: row + size.page, column },
    PageUp: { row: row - size.page, column },
    Home: { row: isFar ? 0 : row, column: 0 },
    End: { row: isFar ? size.rows - 1 : row, column: size.columns - 1 },
  };
  const next = target[key];
  return (
    next && {
      row: Math.max(0, Math.min(size.rows - 1, next.row)),
      column: Math.max(0, Math.min(size.columns - 1, next.column)),
    }
  );
}

interface HeadCellProps {
  readonly column: Column;
  readonly index: number;
  readonly left: number;
  readonly width: number;
  readonly sort: Sort | undefined;
  readonly onSort: (column: number) => void;
  readonly onResize: (width: number) => void;
}

function HeadCell({ column: { name, type }, index, left, width, sort, onSort, onResize }: HeadCellProps) {
  const onPointerMove = (event: PointerEvent<HTMLElement>): void => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const { left: start = 0 } = event.currentTarget.parentElement?.getBoundingClientRect() ?? {};
    onResize(event.clientX - start);
  };
  return (
    <div
      role="columnheader"
      tabIndex={-1}
      aria-colindex={index + 1}
      aria-sort={sort ? (sort.isDescending ? 'descending' : 'ascending') : undefined}
      className={styles.headCell}
      style={{ left, width }}
    >
      <button
        type="button"
        title={`${name} ${type}`}
        className={classNames(isNumberType(type) && styles.number)}
        onClick={() => onSort(index)}
      >
        <span className={styles.name}>
          {name}
          {sort && (sort.isDescending ? <ArrowDown aria-hidden /> : <ArrowUp aria-hidden />)}
        </span>
        <span className={styles.type}>{type}</span>
      </button>
      <span
        aria-hidden
        className={styles.handle}
        onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
        onPointerMove={onPointerMove}
      />
    </div>
  );
}

interface CellProps {
  readonly row: number;
  readonly column: number;
  /** Undefined while its row is fetched. */
  readonly value: Value | undefined;
  readonly isNumber: boolean;
  readonly isSelected: boolean;
  readonly left: number;
  readonly width: number;
}

/** Rendered only when what it shows changes: scrolling renders the grid at each frame. */
const Cell = memo(function Cell({ row, column, value, isNumber, isSelected, left, width }: CellProps) {
  return (
    <div
      role="gridcell"
      tabIndex={-1}
      id={`cell-${row}-${column}`}
      data-row={row}
      data-column={column}
      aria-colindex={column + 1}
      aria-selected={isSelected}
      className={classNames(styles.cell, isNumber && styles.number)}
      style={{ left, width }}
    >
      {value === undefined ? (
        <span className={styles.waiting} />
      ) : value === null ? (
        <span className={styles.null}>NULL</span>
      ) : value === '' ? (
        <span className={styles.null}>empty</span>
      ) : (
        textOf(value).slice(0, cellTextMax)
      )}
    </div>
  );
});
