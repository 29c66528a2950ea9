// The columns of a whole table or view at a glance. Its statements run one after the other, can be cancelled, and show what they found so
// far.
import { Play, X } from 'lucide-react';
import { useCallback, useEffect, useRef, useState } from 'react';
import type { Column } from '../../../../src/client/index.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorPanel } from '../../ui/error_panel.tsx';
import { Progress } from '../../ui/feedback.tsx';
import { formatCount } from '../../ui/format.ts';
import { rowsOfStatement } from '../run/statement_rows.ts';
import { ColumnCards } from './column_explorer.tsx';
import type { ColumnProfile } from './column_profile.ts';
import styles from './table_columns.module.css';
import { groupColumns, type ProfiledTable, profileColumns, readTable } from './table_profile.ts';

interface TableColumnsProps {
  readonly path: readonly string[];
  readonly columns: readonly Column[];
}

interface Found {
  readonly table?: ProfiledTable;
  readonly profiles: readonly ColumnProfile[];
  readonly error?: unknown;
}

const nothing: Found = { profiles: [] };

/** Reads on from what was found. `stop` cancels the statement that runs. */
function useTableProfile([catalog = '', database = '', name = '']: readonly string[], columns: readonly Column[]) {
  const [found, setFound] = useState<Found>(nothing);
  const [isRunning, setIsRunning] = useState(false);
  const controller = useRef<AbortController>(undefined);
  const stop = useCallback(() => controller.current?.abort(), []);
  const read = useCallback(
    async (from: Found): Promise<void> => {
      const own = new AbortController();
      controller.current = own;
      const { signal } = own;
      const run = (sql: string) => rowsOfStatement({ sql, place: { catalog, database } }, signal);
      let { table, profiles } = from;
      setIsRunning(true);
      try {
        table ??= await readTable([database, name], run);
        while (profiles.length < columns.length) {
          setFound({ table, profiles });
          const group = columns.slice(profiles.length, profiles.length + groupColumns);
          profiles = [...profiles, ...(await profileColumns(table, group, run))];
        }
        setFound({ table, profiles });
      } catch (error) {
        if (!signal.aborted) setFound({ ...(table && { table }), profiles, error });
      }
      if (controller.current === own) setIsRunning(false);
    },
    [catalog, database, name, columns],
  );
  useEffect(() => {
    setFound(nothing);
    void read(nothing);
    return stop;
  }, [read, stop]);
  return { found, isRunning, stop, resume: () => void read({ ...found, error: undefined }) };
}

export function TableColumns({ path, columns }: TableColumnsProps) {
  const { found, isRunning, stop, resume } = useTableProfile(path, columns);
  const { table, profiles, error } = found;
  const isComplete = profiles.length === columns.length;
  return (
    <section className={styles.panel} aria-label="Column explorer">
      <div className={styles.bar}>
        <p role="status">
          {table ? <TableFacts table={table} /> : 'Counting the rows…'}
          {!isComplete && table && ` · ${profiles.length} of ${columns.length} columns`}
        </p>
        {isRunning && (
          <Button size="small" icon={<X aria-hidden />} onClick={stop}>
            Cancel
          </Button>
        )}
        {!isRunning && !isComplete && error === undefined && (
          <Button size="small" icon={<Play aria-hidden />} onClick={resume}>
            Continue
          </Button>
        )}
      </div>
      {isRunning && <Progress label="Columns read" value={profiles.length / columns.length} />}
      {error !== undefined && (
        <div className={styles.failure}>
          <ErrorPanel error={error} title="The columns could not be examined" onRetry={resume} />
        </div>
      )}
      {profiles.length > 0 && <ColumnCards profiles={profiles} />}
    </section>
  );
}

function TableFacts({ table: { rowCount, samplePercent } }: { readonly table: ProfiledTable }) {
  return (
    <>
      <strong>{formatCount(rowCount)}</strong> {rowCount === 1 ? 'row' : 'rows'}
      {samplePercent !== undefined && (
        <span className={styles.note}>
          {' '}
          · a sample of {samplePercent} %: counts and distinct values are those of the sample
        </span>
      )}
    </>
  );
}
