// A running load, and how it ended: the rows in the table, and those that were rejected with the reason for each.
import type { TaskRecord } from '../../../src/client/index.ts';
import { RoomLink } from '../app/room_path.tsx';
import { Button } from '../ui/button.tsx';
import { Progress } from '../ui/feedback.tsx';
import { formatCount } from '../ui/format.ts';
import styles from './load_room.module.css';
import type { LoadResult, RejectedRow, Target } from './load_session.ts';

export function LoadProgress({ record, onCancel }: { readonly record: TaskRecord; readonly onCancel: () => void }) {
  const { progress, progressText, state } = record;
  return (
    <section className={styles.panel} aria-label="Load">
      <h2>Loading</h2>
      <Progress label="Loading" value={progress} />
      <p className={styles.hint}>
        {progressText ?? (state === 'pending' ? 'Waiting for its turn' : 'Reading the file')}
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
  readonly onAgain: () => void;
}

export function Loaded({ result, target, onAgain }: LoadedProps) {
  const { rowsLoaded, rowsRejected, rejectedRows } = result;
  return (
    <section className={styles.panel} aria-label="Result of the load">
      <h2>
        {rowsLoaded === null ? 'Loaded' : `${formatCount(rowsLoaded)} rows loaded`} into {target.database}.
        {target.table}
      </h2>
      {rowsRejected !== null && rowsRejected > 0 && <Rejected count={rowsRejected} rows={rejectedRows} />}
      <div className={styles.actions}>
        <RoomLink room="sql">Open the SQL editor</RoomLink>
        <Button onClick={onAgain}>Load another file</Button>
      </div>
    </section>
  );
}

function Rejected({ count, rows }: { readonly count: number; readonly rows: readonly RejectedRow[] }) {
  return (
    <>
      <h3>{count === 1 ? '1 row was rejected' : `${formatCount(count)} rows were rejected`}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <section className={styles.scroller} aria-label="Rejected rows" tabIndex={0}>
        <table className={styles.columns}>
          <thead>
            <tr>
              <th scope="col">Row</th>
              <th scope="col">Column</th>
              <th scope="col">Reason</th>
              <th scope="col">Text</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ row, column, reason, text }) => (
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
        </table>
      </section>
    </>
  );
}
