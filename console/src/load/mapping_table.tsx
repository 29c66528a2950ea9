// The columns of an existing table, each with the column of the file that is its source, the first values, and whether they fit.
import { Badge, type Tone } from '../ui/feedback.tsx';
import { type Fit, fitText, type MappedColumn, unusedColumns } from './column_mapping.ts';
import { ColumnScroller, FirstValues } from './column_table.tsx';
import styles from './load_room.module.css';
import type { InferredFile } from './load_session.ts';

const marks: Readonly<Record<Fit, { readonly tone: Tone; readonly label: string }>> = {
  same: { tone: 'success', label: 'Fits' },
  converted: { tone: 'success', label: 'Fits' },
  mayFail: { tone: 'warning', label: 'Check' },
  mismatch: { tone: 'danger', label: 'Mismatch' },
  default: { tone: 'neutral', label: 'Default' },
  missing: { tone: 'danger', label: 'Missing' },
};

interface MappingTableProps {
  readonly file: InferredFile;
  readonly mapped: readonly MappedColumn[];
  /** `source` null: the column gets its default. */
  readonly onChange: (column: string, source: string | null) => void;
}

export function MappingTable({ file, mapped, onChange }: MappingTableProps) {
  const positions = new Map(file.columns.map(({ source }, i) => [source, i]));
  const unused = unusedColumns(mapped, file);
  return (
    <>
      <ColumnScroller label="Columns of the table">
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">Type</th>
            <th scope="col">From the file</th>
            <th scope="col">Fit</th>
            <th scope="col">First values</th>
          </tr>
        </thead>
        <tbody>
          {mapped.map((one) => {
            const { column, source, fit } = one;
            const position = source === null ? undefined : positions.get(source);
            return (
              <tr key={column.name}>
                <th scope="row">
                  {column.name} {column.isKey && <Badge>key</Badge>}
                </th>
                <td>
                  <code>{column.type}</code>
                </td>
                <td>
                  <select
                    className={styles.cell}
                    aria-label={`Source of ${column.name}`}
                    value={source ?? ''}
                    onChange={({ target }) => onChange(column.name, target.value === '' ? null : target.value)}
                  >
                    <option value="">No column</option>
                    {file.columns.map((option) => (
                      <option key={option.source} value={option.source}>
                        {option.source}
                      </option>
                    ))}
                  </select>
                </td>
                <td className={styles.fit}>
                  <Badge tone={marks[fit].tone}>{marks[fit].label}</Badge>{' '}
                  {fitText(one, position === undefined ? undefined : file.columns[position]?.type)}
                </td>
                <FirstValues file={file} position={position} />
              </tr>
            );
          })}
        </tbody>
      </ColumnScroller>
      {unused.length > 0 && <p className={styles.hint}>Not loaded from the file: {unused.join(', ')}</p>}
    </>
  );
}
