// A running load, and how it ended: the rows in the table, and those that were rejected with the reason for each.
import type { TaskRecord } from '../../../src/client/index.ts';
import { RoomLink } from '../app/room_path.tsx';
import { Button } from '../ui/button.tsx';
import { Progress } from '../ui/feedback.tsx';
import { formatCount } from '../ui/format.ts';
import { ColumnScroller } from './column_table.tsx';
import styles from './load_room.module.css';
import type { LoadResult, Target } from './load_session.ts';

export function LoadProgress({ record, onCancel }: { readonly record: TaskRecord; readonly onCancel: () => void }) {
  const { progress, progressText, state } = record;
  return (
    <section className={styles.panel} aria-label="Load">
      <h2>Loading</h2>
      <Progress label="Loading" value={progress} />
      <p className={styles.hint}>
        {progressText ?? (state === 'pending' ? 'Waiting in the queue' : 'Reading the file')}
      </p>
      <div>
        <Button look="danger" onClick={onCancel}>
          Cancel
        </Button>
      </div>
    </section>
  );
}

interface LoadedProps {
  readonly result: LoadResult;
  readonly target: Target;
  /** Whether the table was to be created. */
  readonly isNew: boolean;
  readonly onAgain: () => void;
}

const rowsText = (count: number): string => `${formatCount(count)} ${count === 1 ? 'row' : 'rows'}`;

export function Loaded({ result, target, isNew, onAgain }: LoadedProps) {
  const { rowsLoaded, rowsRejected, repeated } = result;
  const { catalog, database, table } = target;
  return (
    <section className={styles.panel} aria-label="Result of the load">
      <h2>
        {repeated ? 'Not loaded again' : rowsLoaded === null ? 'Loaded' : `${rowsText(rowsLoaded)} loaded`} into{' '}
        {database}.{table}
      </h2>
      {repeated && (
        <p>
          A load with this label has already succeeded{rowsLoaded !== null && `, of ${rowsText(rowsLoaded)}`}.{' '}
          {isNew
            ? 'It created the table. To load the file again, give the table another name, or load it into the existing table.'
            : 'To load the file again, change the label or leave it empty.'}
        </p>
      )}
      {rowsRejected !== null && rowsRejected > 0 && <Rejected result={result} count={rowsRejected} />}
      <div className={styles.actions}>
        <RoomLink room="catalog" names={[catalog, database, table]}>
          Show the table
        </RoomLink>
        <RoomLink room="sql">Open the SQL editor</RoomLink>
        <Button onClick={onAgain}>Load another file</Button>
      </div>
    </section>
  );
}

interface RejectedProps {
  readonly result: LoadResult;
  readonly count: number;
}

function Rejected({ result: { rejectedRows, rejectsLink }, count }: RejectedProps) {
  const isPart = rejectedRows.length < count;
  return (
    <>
      <h3>{`${rowsText(count)} ${count === 1 ? 'was' : 'were'} rejected`}</h3>
      {rejectsLink !== undefined && (
        <p>
          <a href={rejectsLink} download>
            Download all rejected rows (NDJSON)
          </a>
        </p>
      )}
      {isPart && <p className={styles.hint}>The first {formatCount(rejectedRows.length)}:</p>}
      <ColumnScroller label="Rejected rows">
        <thead>
          <tr>
            <th scope="col">Row</th>
            <th scope="col">Column</th>
            <th scope="col">Reason</th>
            <th scope="col">Text</th>
          </tr>
        </thead>
        <tbody>
          {rejectedRows.map(({ row, column, reason, text }) => (
            <tr key={`${row} ${column}`}>
              <td>{row === null ? '' : formatCount(row)}</td>
              <td>{column}</td>
              <td>{reason}</td>
              <td>
                <code>{text}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </ColumnScroller>
    </>
  );
}
