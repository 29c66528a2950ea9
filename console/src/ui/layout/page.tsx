// A page of a room: a heading with its actions, and content that scrolls.
import type { ReactNode } from 'react';
import styles from './page.module.css';

interface PageHeadProps {
  readonly icon?: ReactNode;
  readonly title: string;
  /** Above the title: where it is. */
  readonly path?: ReactNode;
  /** Beside the title: badges. */
  readonly marks?: ReactNode;
  readonly description?: ReactNode;
  readonly actions?: ReactNode;
}

export function PageHead({ icon, title, path, marks, description, actions }: PageHeadProps) {
  return (
    <header className={styles.head}>
      <div className={styles.heading}>
        {path !== undefined && (
          <nav className={styles.path} aria-label="Path">
            {path}
          </nav>
        )}
        <div className={styles.title}>
          {icon}
          <h2>{title}</h2>
          {marks}
        </div>
        {description !== undefined && <p className={styles.description}>{description}</p>}
      </div>
      {actions !== undefined && <div className={styles.actions}>{actions}</div>}
    </header>
  );
}

/** Content with a margin, which scrolls by itself. */
export function PageBody({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section className={styles.body} aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}

/** A row of fields and buttons above a table. */
export function Toolbar({ children }: { readonly children: ReactNode }) {
  return <div className={styles.toolbar}>{children}</div>;
}
