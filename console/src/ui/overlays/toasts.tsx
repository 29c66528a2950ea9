// Short messages at the edge of the page: what was done, and failures that no part of the page shows.
import { Toast } from '@base-ui/react/toast';
import { X } from 'lucide-react';
import { IconButton } from '../button.tsx';
import { adviceOf, messageOf } from '../error_panel.tsx';
import styles from './toasts.module.css';

const manager = Toast.createToastManager();
const failureMs = 12_000;

export const showToast = (title: string, description?: string): void => {
  manager.add({ title, ...(description === undefined ? {} : { description }) });
};

export const showFailure = (title: string, error: unknown): void => {
  const description = [messageOf(error), adviceOf(error)].filter(Boolean).join(' ');
  manager.add({ title, description, type: 'failure', priority: 'high', timeout: failureMs });
};

export function Toasts() {
  return (
    <Toast.Provider toastManager={manager} limit={4}>
      <Toast.Portal>
        <Toast.Viewport className={styles.viewport}>
          <List />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function List() {
  const { toasts, close } = Toast.useToastManager();
  return toasts.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className={styles.toast} data-kind={toast.type}>
      <Toast.Content className={styles.content}>
        <div className={styles.text}>
          <Toast.Title className={styles.title} />
          <Toast.Description className={styles.description} />
        </div>
        <IconButton size="small" label="Dismiss" onClick={() => close(toast.id)}>
          <X aria-hidden />
        </IconButton>
      </Toast.Content>
    </Toast.Root>
  ));
}
