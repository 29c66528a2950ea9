// The Star Schema Benchmark as demo data: loads it into the database `ssb`, and offers its queries.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { queryClient } from '../app/queries.ts';
import { RoomLink } from '../app/room_path.tsx';
import { objectsStore } from '../explorer/objects_store.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Progress } from '../ui/feedback.tsx';
import { formatCount } from '../ui/format.ts';
import { refreshWork } from './server_state.tsx';
import {
  database,
  lineCount,
  loadSsb,
  rowsTotal,
  type SsbProgress,
  type SsbState,
  ssbQueries,
  ssbState,
} from './ssb_load.ts';
import styles from './start_room.module.css';

export function StarSchemaBenchmark() {
  const { data: state, error: failedRead } = useQuery({
    queryKey: ['databases', 'default', database, 'ssb'],
    queryFn: ({ signal }) => ssbState(signal),
  });
  const { progress, error, isCancelling, start, cancel } = useSsbLoad();
  return (
    <section className={styles.panel} aria-labelledby="ssb">
      <h2 id="ssb">Star Schema Benchmark</h2>
      {state === 'complete' && !progress && <Queries />}
      {state !== undefined && state !== 'complete' && !progress && <Offer state={state} onStart={start} />}
      {progress && (
        <>
          <Progress label="Loading the Star Schema Benchmark" value={progress.rows / rowsTotal} />
          <p className={styles.hint}>
            {formatCount(progress.rows)} of {formatCount(rowsTotal)} rows
            {progress.table !== '' && `, loading ${progress.table}`}
          </p>
          <div>
            <Button look="danger" disabled={isCancelling} onClick={cancel}>
              Cancel
            </Button>
          </div>
        </>
      )}
      {(error ?? failedRead) != null && (
        <ErrorPanel title="The benchmark could not be loaded" error={error ?? failedRead} />
      )}
    </section>
  );
}

/** A load while the page is open; one that is cancelled, or left, can be continued. */
function useSsbLoad() {
  const [progress, setProgress] = useState<SsbProgress>();
  const [error, setError] = useState<unknown>();
  const [isCancelling, setIsCancelling] = useState(false);
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const start = async () => {
    const controller = new AbortController();
    running.current = controller;
    setError(undefined);
    setIsCancelling(false);
    setProgress({ table: '', rows: 0 });
    try {
      await loadSsb(setProgress, controller.signal);
    } catch (failure) {
      if (!controller.signal.aborted) setError(failure);
    }
    objectsStore.refresh();
    await Promise.all([queryClient.invalidateQueries({ queryKey: ['databases'] }), refreshWork()]);
    setProgress(undefined);
  };
  const cancel = () => {
    setIsCancelling(true);
    running.current?.abort();
  };
  return { progress, error, isCancelling, start: () => void start(), cancel };
}

interface OfferProps {
  readonly state: Exclude<SsbState, 'complete'>;
  readonly onStart: () => void;
}

function Offer({ state, onStart }: OfferProps) {
  if (state === 'other')
    return (
      <p className={styles.hint}>
        A database <code>{database}</code> exists, and is not that of the benchmark. Rename it to load the benchmark.
      </p>
    );
  return (
    <>
      <p className={styles.hint}>
        {state === 'missing' ? 'Creates' : 'A load was not completed. It continues, and fills'} the database{' '}
        <code>{database}</code> with five tables, of which <code>lineorder</code> has {formatCount(lineCount)} rows, and
        offers the {ssbQueries.length} queries of the benchmark.
      </p>
      <div>
        <Button onClick={onStart}>{state === 'missing' ? 'Load the benchmark' : 'Continue the load'}</Button>
      </div>
    </>
  );
}

function Queries() {
  return (
    <>
      <p className={styles.hint}>
        The database <code>{database}</code> has the tables of the benchmark. Its queries open in the editor:
      </p>
      <ul className={styles.queries} aria-label="Queries of the benchmark">
        {ssbQueries.map(({ name, sql }) => (
          <li key={name}>
            <RoomLink room="sql" search={{ sql, catalog: 'default', database }} title={sql}>
              {name}
            </RoomLink>
          </li>
        ))}
      </ul>
    </>
  );
}
