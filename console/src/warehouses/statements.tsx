// The statements that run or wait in a warehouse, by principal, each with a button that cancels it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Square } from 'lucide-react';
import { useMemo, useState } from 'react';
import { failureOf } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { type QueryRecord, stateLabels, stateTones } from '../history/statement_states.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge } from '../ui/feedback.tsx';
import { formatCount, formatDuration } from '../ui/format.ts';
import { showFailure } from '../ui/overlays/toasts.tsx';
import { useIsNarrow } from '../ui/use_media.ts';
import { useNow } from '../ui/use_now.ts';
import styles from './warehouses_room.module.css';

const refetchEveryMs = 2000;
/** Of each state; the counts above the list are of all. */
const shownMax = 500;

async function statementsOf(warehouse: string, signal: AbortSignal): Promise<readonly QueryRecord[]> {
  const pages = await Promise.all(
    (['running', 'queued'] as const).map((state) =>
      client.queries.search({ warehouse, state, pageSize: shownMax }, { signal }).page(),
    ),
  );
  return pages.flatMap(({ items }) => items);
}

export function Statements({ warehouse }: { readonly warehouse: string }) {
  const [principal, setPrincipal] = useState<string>();
  const now = useNow(1000);
  const isNarrow = useIsNarrow();
  const queryClient = useQueryClient();
  const statements = useQuery({
    queryKey: ['queries', 'active', warehouse],
    queryFn: ({ signal }) => statementsOf(warehouse, signal),
    refetchInterval: refetchEveryMs,
  });
  const failure = failureOf(statements);
  const cancel = useMutation({
    mutationFn: async (queryIds: readonly string[]) => {
      await Promise.all(queryIds.map((queryId) => client.queries(queryId).cancel()));
    },
    onError: (error) => showFailure('A statement could not be cancelled', error),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['queries', 'active'] }),
  });
  const columns = useMemo(() => columnsAt(now, isNarrow, (id) => cancel.mutate([id])), [now, isNarrow, cancel.mutate]);
  const counts = useMemo(() => countsOf(statements.data ?? []), [statements.data]);
  // Whoever has no statement any more is no longer a filter.
  const shown = counts.some(([name]) => name === principal) ? principal : undefined;
  const records = statements.data?.filter(({ createdBy }) => shown === undefined || createdBy === shown);
  return (
    <section className={styles.section}>
      <header className={styles.heading}>
        <h3>Statements</h3>
        {counts.map(([name, count]) => (
          <Button
            key={name}
            look="quiet"
            size="small"
            aria-pressed={name === shown}
            onClick={() => setPrincipal(name === shown ? undefined : name)}
          >
            {name} <Badge>{formatCount(count)}</Badge>
          </Button>
        ))}
        {shown !== undefined && records && (
          <Button
            look="danger"
            size="small"
            disabled={cancel.isPending}
            onClick={() => cancel.mutate(records.map(({ queryId }) => queryId))}
          >
            Cancel all of {shown}
          </Button>
        )}
      </header>
      {failure ? (
        <ErrorPanel error={failure} title="The statements could not be listed" onRetry={statements.refetch} />
      ) : records?.length === 0 ? (
        <p className={styles.muted}>No statement runs or waits here.</p>
      ) : (
        <div className={styles.rows}>
          <DataTable label="Statements" columns={columns} records={records} keyOf={({ queryId }) => queryId} />
        </div>
      )}
    </section>
  );
}

/** Principals with their number of statements, most first. */
function countsOf(statements: readonly QueryRecord[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const { createdBy } of statements) counts.set(createdBy, (counts.get(createdBy) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}

function columnsAt(
  now: number,
  isNarrow: boolean,
  onCancel: (queryId: string) => void,
): readonly Column<QueryRecord>[] {
  const sinceMs = ({ startedAt, createdAt }: QueryRecord) => now - Date.parse(startedAt ?? createdAt);
  const by: Column<QueryRecord> = { id: 'by', header: 'By', value: ({ createdBy }) => createdBy };
  const sql: Column<QueryRecord> = {
    id: 'sql',
    header: 'Statement',
    ...(isNarrow ? {} : { width: '60%' }),
    value: ({ sql }) => sql,
    render: ({ sql }) => (
      <code className={styles.sql} title={sql}>
        {sql.replace(/\s+/g, ' ')}
      </code>
    ),
  };
  const since: Column<QueryRecord> = {
    id: 'since',
    header: 'For',
    isNumber: true,
    value: sinceMs,
    render: (query) => formatDuration(sinceMs(query)),
  };
  const action: Column<QueryRecord> = {
    id: 'action',
    header: 'Actions',
    isAction: true,
    width: '56px',
    value: () => '',
    render: ({ queryId, createdBy }) => (
      <IconButton size="small" label={`Cancel the statement of ${createdBy}`} onClick={() => onCancel(queryId)}>
        <Square aria-hidden />
      </IconButton>
    ),
  };
  if (isNarrow) return [sql, since, action];
  return [
    by,
    {
      id: 'state',
      header: 'State',
      value: ({ state }) => state,
      render: ({ state, queuePosition }) => (
        <Badge tone={stateTones[state]}>
          {queuePosition === null ? stateLabels[state] : `${stateLabels[state]}, number ${queuePosition}`}
        </Badge>
      ),
    },
    sql,
    { id: 'catalog', header: 'In', value: ({ catalog, database }) => [catalog, database].filter(Boolean).join('.') },
    since,
    action,
  ];
}
