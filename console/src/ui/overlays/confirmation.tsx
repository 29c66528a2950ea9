// A question before what cannot be undone or takes something out of use: what happens, and the button that does it.
import type { ReactNode } from 'react';
import { Button } from '../button.tsx';
import { ErrorPanel } from '../error_panel.tsx';
import { Dialog } from './dialog.tsx';

interface ConfirmationProps {
  readonly title: string;
  /** What happens, in paragraphs. */
  readonly children: ReactNode;
  /** Of the button that does it. */
  readonly label: string;
  /** As in `The schedule was not deleted`. */
  readonly failedTitle: string;
  readonly isOpen: boolean;
  readonly isPending: boolean;
  readonly error: Error | null;
  readonly onClose: () => void;
  readonly onConfirm: () => void;
}

export function Confirmation(props: ConfirmationProps) {
  const { title, children, label, failedTitle, isOpen, isPending, error, onClose, onConfirm } = props;
  return (
    <Dialog
      title={title}
      isOpen={isOpen}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="danger" disabled={isPending} onClick={onConfirm}>
            {label}
          </Button>
        </>
      }
    >
      {children}
      {error && <ErrorPanel error={error} title={failedTitle} />}
    </Dialog>
  );
}
