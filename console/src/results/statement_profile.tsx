// The profile of a statement as a tree of operators: the time of each, how many rows it gave and read, and what it did. Profiling runs the
// statement again, so it runs only on request.
import { useQuery } from '@tanstack/react-query';
import { Gauge } from 'lucide-react';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState, Loading } from '../ui/feedback.tsx';
import { formatCount, formatDuration } from '../ui/format.ts';
import type { Statement } from './run/messages.ts';
import styles from './statement_profile.module.css';

/** As the engine reports it; times are in seconds. */
interface Operator {
  readonly operator_name?: string;
  readonly operator_type?: string;
  readonly operator_timing?: number;
  readonly operator_cardinality?: number;
  readonly operator_rows_scanned?: number;
  readonly extra_info?: Readonly<Record<string, unknown>>;
  readonly children?: readonly Operator[];
}

interface Profile extends Operator {
  readonly latency?: number;
  readonly cpu_time?: number;
}

interface Line {
  readonly key: string;
  readonly depth: number;
  readonly operator: Operator;
}

async function profileOf({ sql, place, parameters }: Statement, signal: AbortSignal): Promise<Profile> {
  const target = client.catalogs(place.catalog);
  const body = { sql, ...(parameters == null ? {} : { parameters: parameters as unknown[] }) };
  const options = { signal, idempotencyKey: false } as const;
  const answer =
    place.database === undefined
      ? target.profile(body, options)
      : target.databases(place.database).profile(body, options);
  const { profile } = await answer.done({ signal });
  return profile as Profile;
}

function linesOf(operators: readonly Operator[], depth: number, path: string): Line[] {
  return operators.flatMap((operator, i) => {
    // What profiles a statement is no part of it.
    if (operator.operator_name === 'EXPLAIN_ANALYZE') return linesOf(operator.children ?? [], depth, path);
    const key = `${path}.${i}`;
    return [{ key, depth, operator }, ...linesOf(operator.children ?? [], depth + 1, key)];
  });
}

export function StatementProfile({ statement, queryId }: { readonly statement: Statement; readonly queryId: string }) {
  const { data, error, refetch, isFetching } = useQuery({
    queryKey: ['queries', queryId, 'profile'],
    enabled: false,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => profileOf(statement, signal),
  });
  if (isFetching) return <Loading label="Profiling…" />;
  if (error)
    return (
      <div className={styles.failure}>
        <ErrorPanel error={error} title="The statement could not be profiled" onRetry={refetch} />
      </div>
    );
  if (!data)
    return (
      <EmptyState
        icon={<Gauge aria-hidden />}
        title="Which part takes how long?"
        actions={
          <Button look="primary" onClick={() => void refetch()}>
            Profile the statement
          </Button>
        }
      >
        This runs the statement again and drops its rows.
      </EmptyState>
    );
  return <ProfileTree profile={data} />;
}

function ProfileTree({ profile }: { readonly profile: Profile }) {
  const lines = linesOf(profile.children ?? [], 0, '');
  const total = lines.reduce((sum, { operator }) => sum + (operator.operator_timing ?? 0), 0);
  return (
    <section className={styles.scroller} aria-label="Profile">
      <p className={styles.summary}>
        {profile.latency !== undefined && `${formatDuration(profile.latency * 1000)} in all`}
        {profile.cpu_time !== undefined && ` · ${formatDuration(profile.cpu_time * 1000)} of processor time`}
      </p>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Operator</th>
            <th scope="col">Time</th>
            <th scope="col" className={styles.number}>
              Rows
            </th>
            <th scope="col" className={styles.number}>
              Read
            </th>
            <th scope="col">Details</th>
          </tr>
        </thead>
        <tbody>
          {lines.map(({ key, depth, operator }) => (
            <OperatorRow key={key} depth={depth} operator={operator} total={total} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface OperatorRowProps {
  readonly depth: number;
  readonly operator: Operator;
  readonly total: number;
}

const detailsMax = 300;

function OperatorRow({ depth, operator, total }: OperatorRowProps) {
  const { operator_name, operator_type, operator_timing = 0, operator_cardinality, operator_rows_scanned } = operator;
  const percent = total === 0 ? 0 : (100 * operator_timing) / total;
  const details = Object.entries(operator.extra_info ?? {})
    .filter(([, value]) => value !== '' && value !== null)
    .map(
      ([name, value]) => `${name}: ${typeof value === 'string' ? value.replaceAll('\n', ' ') : JSON.stringify(value)}`,
    )
    .join(' · ');
  return (
    <tr>
      <th scope="row" style={{ paddingLeft: 12 + depth * 18 }}>
        {(operator_name ?? operator_type ?? 'operator').trim().replaceAll('_', ' ').toLowerCase()}
      </th>
      <td className={styles.time}>
        <span className={styles.bar} style={{ width: `${percent}%` }} />
        <span>{`${formatDuration(operator_timing * 1000)} (${percent.toFixed(0)} %)`}</span>
      </td>
      <td className={styles.number}>{operator_cardinality === undefined ? '–' : formatCount(operator_cardinality)}</td>
      <td className={styles.number}>{operator_rows_scanned ? formatCount(operator_rows_scanned) : '–'}</td>
      <td className={styles.details} title={details}>
        {details.slice(0, detailsMax)}
      </td>
    </tr>
  );
}
