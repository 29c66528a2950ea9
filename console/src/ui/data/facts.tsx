// Facts about an object: labels and values, in as many columns as there is room for.
import type { ReactNode } from 'react';
import styles from './facts.module.css';

export interface Fact {
  readonly label: string;
  /** Undefined or null: the fact is left out. */
  readonly value: ReactNode;
}

export function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl className={styles.facts}>
      {facts.map(({ label, value }) =>
        value === undefined || value === null ? undefined : (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
