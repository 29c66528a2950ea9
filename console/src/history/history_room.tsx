// The history of statements: searched by text, state and user, newest first; one is shown beside the list, compared with another, and
// opened in the editor to run it again.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { GitCompareArrows, History, Search, SquareTerminal, X } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { usePages } from '../app/queries.ts';
import { useOpenRoom, useRoomPath } from '../app/room_path.tsx';
import { client, sessionUser } from '../app/session.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState, Loading } from '../ui/feedback.tsx';
import { formatAgo, formatBytes, formatCount, formatDuration, formatTime } from '../ui/format.ts';
import { Select } from '../ui/overlays/select.tsx';
import { showFailure } from '../ui/overlays/toasts.tsx';
import styles from './history_room.module.css';
import { type QueryRecord, type StatementState, stateLabels, stateTones } from './statement_states.ts';

type StateChoice = StatementState | 'any';

const stateChoices: readonly { readonly value: StateChoice; readonly label: string }[] = [
  { value: 'any', label: 'Any state' },
  ...(Object.keys(stateLabels) as StatementState[]).map((value) => ({ value, label: stateLabels[value] })),
];
const pageSize = 100;
const refreshMs = 5000;

const columns: readonly Column<QueryRecord>[] = [
  {
    id: 'state',
    header: 'State',
    value: ({ state }) => state,
    render: ({ state }) => <Badge tone={stateTones[state]}>{stateLabels[state]}</Badge>,
    width: '96px',
  },
  {
    id: 'sql',
    header: 'Statement',
    value: ({ sql }) => sql,
    render: ({ sql }) => <code>{sql.replaceAll(/\s+/g, ' ').slice(0, 160)}</code>,
  },
  {
    id: 'duration',
    header: 'Duration',
    value: ({ elapsedMs }) => elapsedMs,
    render: ({ elapsedMs }) => (elapsedMs === null ? '–' : formatDuration(elapsedMs)),
    isNumber: true,
    width: '96px',
  },
  {
    id: 'rows',
    header: 'Rows',
    value: ({ rowCount }) => rowCount,
    render: ({ rowCount }) => (rowCount === null ? '–' : formatCount(rowCount)),
    isNumber: true,
    width: '96px',
  },
  { id: 'user', header: 'User', value: ({ createdBy }) => createdBy, width: '110px' },
  {
    id: 'time',
    header: 'Submitted',
    value: ({ createdAt }) => createdAt,
    render: ({ createdAt }) => <time title={formatTime(createdAt)}>{formatAgo(createdAt)}</time>,
    width: '130px',
  },
  {
    id: 'open',
    header: 'Open in the editor',
    isAction: true,
    value: () => null,
    render: (record) => <OpenInEditor record={record} />,
    width: '48px',
  },
];

/** The search parameters that open a statement in the editor, where it ran. */
const inEditor = ({ sql, catalog, database }: QueryRecord) => ({ sql, catalog, database: database ?? undefined });

function OpenInEditor({ record }: { readonly record: QueryRecord }) {
  const openRoom = useOpenRoom();
  return (
    <IconButton
      size="small"
      label="Open in the editor"
      onClick={(event) => {
        // The row opens the statement beside the list.
        event.stopPropagation();
        void openRoom('sql', [], inEditor(record));
      }}
    >
      <SquareTerminal aria-hidden />
    </IconButton>
  );
}

export function Room() {
  const [text, setText] = useState('');
  const [state, setState] = useState<StateChoice>('any');
  const [isOwn, setIsOwn] = useState(false);
  const searchText = useDeferredValue(text.trim());
  const [selectedId] = useRoomPath();
  const openRoom = useOpenRoom();
  const submittedBy = isOwn ? sessionUser() : undefined;
  const body = {
    pageSize,
    ...(searchText === '' ? {} : { text: searchText }),
    ...(state === 'any' ? {} : { state }),
    ...(submittedBy === undefined ? {} : { submittedBy }),
  };
  const { items, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = usePages(
    ['queries', 'search', body],
    (signal) => client.queries.search(body, { signal }),
  );
  return (
    <div className={styles.room}>
      <div className={styles.bar}>
        <h2>Query history</h2>
        <label className={styles.search}>
          <Search aria-hidden />
          <span className="visually-hidden">Search statements</span>
          <input
            type="search"
            placeholder="Search statements"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        <Select isQuiet label="State" value={state} choices={stateChoices} onChange={setState} />
        <Button look="quiet" aria-pressed={isOwn} onClick={() => setIsOwn(!isOwn)}>
          Only mine
        </Button>
      </div>
      <div className={styles.content}>
        {error ? (
          <div className={styles.failure}>
            <ErrorPanel error={error} title="The history could not be read" onRetry={refetch} />
          </div>
        ) : (
          <DataTable
            label="Statements"
            columns={columns}
            records={items}
            keyOf={({ queryId }) => queryId}
            onOpen={({ queryId }) => openRoom('history', [queryId])}
            onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
            isFetchingMore={isFetchingNextPage}
            empty={<EmptyState icon={<History aria-hidden />} title="No statements found" />}
          />
        )}
        {selectedId !== undefined && <Detail key={selectedId} queryId={selectedId} others={items ?? []} />}
      </div>
    </div>
  );
}

const isActive = (state: StatementState | undefined): boolean => state === 'queued' || state === 'running';

const useStatement = (queryId: string | undefined) =>
  useQuery({
    queryKey: ['queries', queryId],
    enabled: queryId !== undefined,
    queryFn: ({ signal }) => client.queries(queryId ?? '').get({ signal }),
    refetchInterval: ({ state: { data } }) => (isActive(data?.state) ? refreshMs : false),
  });

interface DetailProps {
  readonly queryId: string;
  readonly others: readonly QueryRecord[];
}

function Detail({ queryId, others }: DetailProps) {
  const openRoom = useOpenRoom();
  const queries = useQueryClient();
  const [otherId, setOtherId] = useState<string>();
  const { data, error, refetch } = useStatement(queryId);
  const { data: other } = useStatement(otherId);
  const cancel = () =>
    client
      .queries(queryId)
      .cancel()
      .then(
        () => queries.invalidateQueries({ queryKey: ['queries'] }),
        (failure: unknown) => showFailure('The statement could not be cancelled', failure),
      );
  return (
    <aside className={styles.detail} aria-label="Statement">
      <header className={styles.detailBar}>
        <h2>Statement</h2>
        <IconButton label="Close" onClick={() => openRoom('history')}>
          <X aria-hidden />
        </IconButton>
      </header>
      {error && <ErrorPanel error={error} title="The statement could not be read" onRetry={refetch} />}
      {!data && !error && <Loading />}
      {data && (
        <>
          <div className={styles.actions}>
            <Button
              look="primary"
              icon={<SquareTerminal aria-hidden />}
              onClick={() => openRoom('sql', [], inEditor(data))}
            >
              Open in the editor
            </Button>
            {isActive(data.state) && (
              <Button look="danger" onClick={() => void cancel()}>
                Cancel
              </Button>
            )}
          </div>
          <CodeBlock label="statement" code={data.sql} />
          {data.error && <ErrorText error={data.error} />}
          <Facts record={data} other={other} />
          <Compare queryId={queryId} others={others} otherId={otherId} onChange={setOtherId} />
          {other && <CodeBlock label="other statement" code={other.sql} />}
          {data.plan != null && <CodeBlock label="plan" code={data.plan} />}
        </>
      )}
    </aside>
  );
}

function ErrorText({
  error: { code, message },
}: {
  readonly error: { readonly code: string; readonly message: string };
}) {
  return (
    <p className={styles.error}>
      {message} <code>{code}</code>
    </p>
  );
}

const facts: readonly (readonly [string, (record: QueryRecord) => string])[] = [
  ['State', ({ state }) => state],
  ['User', ({ createdBy }) => createdBy],
  ['Submitted', ({ createdAt }) => formatTime(createdAt)],
  ['Where', ({ catalog, database }) => (database === null ? catalog : `${catalog}.${database}`)],
  ['Warehouse', ({ warehouse }) => warehouse],
  ['In the engine', ({ elapsedMs }) => (elapsedMs === null ? '–' : formatDuration(elapsedMs))],
  ['In the queue', ({ queuedMs }) => (queuedMs === null ? '–' : formatDuration(queuedMs))],
  ['Rows', ({ rowCount }) => (rowCount === null ? '–' : formatCount(rowCount))],
  ['Size of the result', ({ resultBytes }) => (resultBytes === null ? '–' : formatBytes(resultBytes))],
  ['Query id', ({ queryId }) => queryId],
];

function Facts({ record, other }: { readonly record: QueryRecord; readonly other: QueryRecord | undefined }) {
  return (
    <table className={styles.facts}>
      <caption className="visually-hidden">Facts about the statement</caption>
      <tbody>
        {facts.map(([label, textOf]) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            <td>{textOf(record)}</td>
            {other && <td>{textOf(other)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface CompareProps {
  readonly queryId: string;
  readonly others: readonly QueryRecord[];
  readonly otherId: string | undefined;
  readonly onChange: (queryId: string | undefined) => void;
}

const none = '';

function Compare({ queryId, others, otherId = none, onChange }: CompareProps) {
  const choices = others
    .filter((other) => other.queryId !== queryId)
    .slice(0, 50)
    .map((other) => ({
      value: other.queryId,
      label: `${formatAgo(other.createdAt)}: ${other.sql.replaceAll(/\s+/g, ' ').slice(0, 60)}`,
    }));
  return (
    <div className={styles.compare}>
      <GitCompareArrows aria-hidden />
      <Select
        label="Compare with"
        value={otherId}
        choices={[{ value: none, label: 'Compare with…' }, ...choices]}
        onChange={(next) => onChange(next === none ? undefined : next)}
      />
    </div>
  );
}
