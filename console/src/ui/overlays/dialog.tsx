// A dialog: one question or one form over the page. Escape and the close button cancel it.
import { Dialog as Base } from '@base-ui/react/dialog';
import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { IconButton } from '../button.tsx';
import { classNames } from '../class_names.ts';
import styles from './dialog.module.css';

interface DialogProps {
  readonly title: string;
  readonly description?: ReactNode;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
  /** The buttons, the one that does it last. */
  readonly actions?: ReactNode;
  readonly size?: 'normal' | 'wide';
}

export function Dialog({ title, description, isOpen, onClose, children, actions, size = 'normal' }: DialogProps) {
  return (
    <Base.Root open={isOpen} onOpenChange={(open) => !open && onClose()}>
      <Base.Portal>
        <Base.Backdrop className={styles.backdrop} />
        <Base.Popup className={classNames(styles.popup, size === 'wide' && styles.wide)}>
          <header className={styles.header}>
            <Base.Title className={styles.title}>{title}</Base.Title>
            <IconButton label="Close" onClick={onClose}>
              <X aria-hidden />
            </IconButton>
          </header>
          {description !== undefined && (
            <Base.Description className={styles.description}>{description}</Base.Description>
          )}
          <div className={styles.content}>{children}</div>
          {actions !== undefined && <footer className={styles.actions}>{actions}</footer>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
