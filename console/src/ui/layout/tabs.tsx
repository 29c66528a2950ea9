// Tabs: the views of one object.
import { Tabs as Base } from '@base-ui/react/tabs';
import type { ReactNode } from 'react';
import styles from './tabs.module.css';

export interface Tab<V extends string> {
  readonly value: V;
  readonly label: ReactNode;
  /** Rendered only while it is selected. */
  readonly content: ReactNode;
}

interface TabsProps<V extends string> {
  readonly label: string;
  readonly tabs: readonly Tab<V>[];
  readonly value: V;
  readonly onChange: (value: V) => void;
  /** What stands at the end of the list of tabs. */
  readonly extra?: ReactNode;
}

export function Tabs<V extends string>({ label, tabs, value, onChange, extra }: TabsProps<V>) {
  return (
    <Base.Root className={styles.root} value={value} onValueChange={(next: V) => onChange(next)}>
      <div className={styles.bar}>
        <Base.List aria-label={label} className={styles.list}>
          {tabs.map((tab) => (
            <Base.Tab key={tab.value} value={tab.value} className={styles.tab}>
              {tab.label}
            </Base.Tab>
          ))}
          <Base.Indicator className={styles.indicator} />
        </Base.List>
        {extra}
      </div>
      {tabs.map((tab) => (
        <Base.Panel key={tab.value} value={tab.value} className={styles.panel}>
          {tab.content}
        </Base.Panel>
      ))}
    </Base.Root>
  );
}
