// A list with the details of one of its items at its side; on a narrow page the details cover the list.
import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { IconButton } from '../button.tsx';
import styles from './side_panel.module.css';

interface SidePanelProps {
  /** The name of what is shown. */
  readonly title: ReactNode;
  readonly onClose: () => void;
  /** Buttons beside the title. */
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

export function SidePanel({ title, onClose, actions, children }: SidePanelProps) {
  return (
    <section className={styles.panel} aria-label="Details">
      <header className={styles.header}>
        <h2>{title}</h2>
        {actions}
        <IconButton label="Close the details" onClick={onClose}>
          <X aria-hidden />
        </IconButton>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <div className={styles.content} tabIndex={0} role="group" aria-label="Content of the details">
        {children}
      </div>
    </section>
  );
}

export function WithSidePanel({ children, panel }: { readonly children: ReactNode; readonly panel: ReactNode }) {
  return (
    <div className={styles.both}>
      <div className={styles.list}>{children}</div>
      {panel}
    </div>
  );
}
