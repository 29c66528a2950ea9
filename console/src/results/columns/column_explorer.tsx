// The columns of a result at a glance: nulls, distinct values, range and histogram of each.
import { useQuery } from '@tanstack/react-query';
import { ErrorPanel } from '../../ui/error_panel.tsx';
import { Loading } from '../../ui/feedback.tsx';
import { formatCount, formatShortCount } from '../../ui/format.ts';
import type { View } from '../run/messages.ts';
import type { StatementRun } from '../run/statement_run.ts';
import styles from './column_explorer.module.css';
import type { Bin, ColumnProfile } from './column_profile.ts';

interface ColumnExplorerProps {
  readonly run: StatementRun;
  readonly queryId: string;
  readonly view: View;
}

export function ColumnExplorer({ run, queryId, view }: ColumnExplorerProps) {
  const { data, error, refetch } = useQuery({
    queryKey: ['queries', queryId, 'columns', view],
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    queryFn: () => run.ask({ kind: 'profile', view }),
  });
  if (error) return <ErrorPanel error={error} title="The columns could not be examined" onRetry={refetch} />;
  if (!data) return <Loading label="Reading all rows…" />;
  return <ColumnCards profiles={data} />;
}

export function ColumnCards({ profiles }: { readonly profiles: readonly ColumnProfile[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <ul className={styles.columns} aria-label="Columns" tabIndex={0}>
      {profiles.map((profile, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: two columns may have the same name
        <ColumnCard key={i} profile={profile} />
      ))}
    </ul>
  );
}

function ColumnCard({ profile }: { readonly profile: ColumnProfile }) {
  const { name, type, count, nulls, distinct, distinctIs, min, max, mean, bins, areBinsRanges } = profile;
  const nullPercent = count === 0 ? 0 : (100 * nulls) / count;
  return (
    <li className={styles.card}>
      <header className={styles.header}>
        <h2>{name}</h2>
        <span>{type}</span>
      </header>
      {areBinsRanges ? <Histogram bins={bins} name={name} /> : <Frequent bins={bins} count={count - nulls} />}
      <dl className={styles.facts}>
        <Fact label="Nulls" value={nulls === 0 ? '0' : `${formatCount(nulls)} (${nullPercent.toFixed(1)} %)`} />
        <Fact label="Distinct" value={`${distinctIs === 'exact' ? '' : `${distinctIs} `}${formatCount(distinct)}`} />
        {min !== null && <Fact label="Min" value={min} />}
        {max !== null && <Fact label="Max" value={max} />}
        {mean !== null && <Fact label="Mean" value={String(Number(mean.toPrecision(6)))} />}
      </dl>
    </li>
  );
}

function Fact({ label, value }: { readonly label: string; readonly value: string }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd title={value}>{value}</dd>
    </div>
  );
}

function Histogram({ bins, name }: { readonly bins: readonly Bin[]; readonly name: string }) {
  const most = Math.max(1, ...bins.map(({ count }) => count));
  return (
    <div className={styles.histogram} role="img" aria-label={`Histogram of ${name}`}>
      {bins.map(({ label, count }) => (
        <span
          key={label}
          title={`${label}: ${formatCount(count)}`}
          style={{ height: `${count === 0 ? 0 : Math.max(4, (100 * count) / most)}%` }}
        />
      ))}
    </div>
  );
}

function Frequent({ bins, count }: { readonly bins: readonly Bin[]; readonly count: number }) {
  return (
    <ul className={styles.frequent}>
      {bins.map(({ label, count: own }) => (
        <li key={label} title={`${label}: ${formatCount(own)}`}>
          <span className={styles.share} style={{ width: `${(100 * own) / Math.max(1, count)}%` }} />
          <span className={styles.value}>{label === '' ? 'empty' : label}</span>
          <span className={styles.count}>{formatShortCount(own)}</span>
        </li>
      ))}
    </ul>
  );
}
