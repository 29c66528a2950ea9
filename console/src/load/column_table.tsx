// The inferred columns with the first values, to be corrected before the load; parts of it show the columns of an existing table.
import type { ReactNode } from 'react';
import styles from './load_room.module.css';
import type { FileColumn, InferredFile } from './load_session.ts';

/** The usual types; others can be written. */
const types = [
  'BOOLEAN',
  'INT',
  'BIGINT',
  'DOUBLE',
  'DECIMAL(18,2)',
  'DATE',
  'DATETIME',
  'TIMESTAMPTZ',
  'STRING',
  'JSON',
] as const;
const shownRows = 5;

interface ColumnTableProps {
  readonly file: InferredFile;
  readonly columns: readonly FileColumn[];
  readonly onChange: (columns: readonly FileColumn[]) => void;
}

export function ColumnTable({ file, columns, onChange }: ColumnTableProps) {
  const change = (index: number, part: Partial<FileColumn>) =>
    onChange(columns.map((column, i) => (i === index ? { ...column, ...part } : column)));
  return (
    <>
      <ColumnScroller label="Columns of the file">
        <thead>
          <tr>
            <th scope="col">Load</th>
            <th scope="col">Column</th>
            <th scope="col">Type</th>
            <th scope="col">First values</th>
          </tr>
        </thead>
        <tbody>
          {columns.map((column, i) => (
            <tr key={column.source}>
              <td>
                <input
                  type="checkbox"
                  aria-label={`Load ${column.source}`}
                  checked={column.isLoaded}
                  onChange={({ target }) => change(i, { isLoaded: target.checked })}
                />
              </td>
              <td>
                <input
                  className={styles.cell}
                  aria-label={`Name of ${column.source}`}
                  value={column.name}
                  onChange={({ target }) => change(i, { name: target.value })}
                />
              </td>
              <td>
                <input
                  className={styles.cell}
                  aria-label={`Type of ${column.source}`}
                  list="column-types"
                  value={column.type}
                  onChange={({ target }) => change(i, { type: target.value })}
                />
              </td>
              <FirstValues file={file} position={i} />
            </tr>
          ))}
        </tbody>
      </ColumnScroller>
      <datalist id="column-types">
        {types.map((type) => (
          <option key={type} value={type} />
        ))}
      </datalist>
    </>
  );
}

interface ColumnScrollerProps {
  readonly label: string;
  /** Head and body of a table. */
  readonly children: ReactNode;
}

export function ColumnScroller({ label, children }: ColumnScrollerProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section className={styles.scroller} aria-label={label} tabIndex={0}>
      <table className={styles.columns}>{children}</table>
    </section>
  );
}

interface FirstValuesProps {
  readonly file: InferredFile;
  /** Of the column in the file; undefined: none. */
  readonly position: number | undefined;
}

/** The cell with the first values of a column. */
export function FirstValues({ file, position }: FirstValuesProps) {
  const rows = position === undefined ? [] : file.rows.slice(0, shownRows);
  return (
    <td className={styles.values}>
      {rows.map((row, n) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no key, and do not move
        <span key={n}>{shown(row[position ?? 0])}</span>
      ))}
    </td>
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
