// The form of a new record, or of one that is changed: its fields, and the call that saves it. The parent renders it while it is open.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useId } from 'react';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Dialog } from '../ui/overlays/dialog.tsx';
import styles from './call_dialog.module.css';

interface RecordDialogProps<T> {
  readonly title: string;
  readonly description?: ReactNode;
  readonly isNew: boolean;
  /** Whether the fields are filled in. */
  readonly isComplete: boolean;
  readonly save: () => PromiseLike<T>;
  /** Whose lists and records are read again, as in `schedules`. */
  readonly category: string;
  /** As in `The schedule was not saved`. */
  readonly failedTitle: string;
  readonly onClose: () => void;
  readonly onSaved: ((saved: T) => void) | undefined;
  readonly children: ReactNode;
}

export function RecordDialog<T>(props: RecordDialogProps<T>) {
  const { title, description, isNew, isComplete, save, category, failedTitle, onClose, onSaved, children } = props;
  const formId = useId();
  const queryClient = useQueryClient();
  const saving = useMutation({
    mutationFn: async () => save(),
    onSuccess: (saved) => {
      void queryClient.invalidateQueries({ queryKey: [category] });
      onClose();
      onSaved?.(saved);
    },
  });
  return (
    <Dialog
      title={title}
      description={description}
      isOpen
      onClose={onClose}
      size="wide"
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" form={formId} disabled={!isComplete || saving.isPending}>
            {isNew ? 'Create' : 'Save'}
          </Button>
        </>
      }
    >
      <form
        id={formId}
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          // Enter submits also while the button is disabled by a save under way.
          if (isComplete && !saving.isPending) saving.mutate();
        }}
      >
        {children}
        {saving.error && <ErrorPanel error={saving.error} title={failedTitle} />}
      </form>
    </Dialog>
  );
}
