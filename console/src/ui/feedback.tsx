// What a page shows while it waits, where there is nothing, and small signs of state.
import type { ReactNode } from 'react';
import { classNames } from './class_names.ts';
import styles from './feedback.module.css';

export function Spinner({ label = 'Loading' }: { readonly label?: string }) {
  return (
    <span role="status" className={styles.spinner}>
      <span className="visually-hidden">{label}</span>
    </span>
  );
}

/** For a room or a panel that is being fetched. */
export function Loading({ label = 'Loading…' }: { readonly label?: string }) {
  return (
    <div className={styles.loading}>
      <Spinner label={label} />
      <span aria-hidden>{label}</span>
    </div>
  );
}

interface ProgressProps {
  readonly label: string;
  /** From 0 to 1; null where it is not known. */
  readonly value: number | null;
}

export function Progress({ label, value }: ProgressProps) {
  const percent = value === null ? undefined : Math.round(value * 100);
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      className={classNames(styles.progress, percent === undefined && styles.unknown)}
    >
      <div className={styles.bar} style={percent === undefined ? undefined : { width: `${percent}%` }} />
    </div>
  );
}

interface EmptyStateProps {
  readonly icon?: ReactNode;
  readonly title: string;
  readonly children?: ReactNode;
  /** What one can do about it. */
  readonly actions?: ReactNode;
}

export function EmptyState({ icon, title, children, actions }: EmptyStateProps) {
  return (
    <div className={styles.empty}>
      {icon}
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {actions !== undefined && <div className={styles.actions}>{actions}</div>}
    </div>
  );
}

export type Tone = 'neutral' | 'accent' | 'success' | 'warning' | 'danger';

export function Badge({ tone = 'neutral', children }: { readonly tone?: Tone; readonly children: ReactNode }) {
  return <span className={classNames(styles.badge, styles[tone])}>{children}</span>;
}
