// The page for a room that failed to load or to render, and for an unknown address.
import type { ErrorComponentProps } from '@tanstack/react-router';
import { Compass } from 'lucide-react';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState } from '../ui/feedback.tsx';
import styles from './layout.module.css';
import { useOpenRoom } from './room_path.tsx';
import { rooms } from './rooms.ts';

export function RoomFailure({ error, reset }: ErrorComponentProps) {
  return (
    <div className={styles.failure}>
      <ErrorPanel error={error} title="This page failed" onRetry={reset}>
        <p>If it fails again, reload the page. A newer version of the console may have been installed.</p>
      </ErrorPanel>
    </div>
  );
}

export function NotFound() {
  const openRoom = useOpenRoom();
  return (
    <EmptyState
      icon={<Compass aria-hidden />}
      title="There is no page at this address"
      actions={<Button onClick={() => openRoom(rooms[0]?.path ?? '')}>Go to the first page</Button>}
    />
  );
}
