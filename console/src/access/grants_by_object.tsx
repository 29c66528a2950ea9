// Grants by object: the object is in the address.
import { ShieldCheck } from 'lucide-react';
import { useOpenRoom, useRoomSearch } from '../app/room_path.tsx';
import { EmptyState } from '../ui/feedback.tsx';
import { ObjectUriField } from './grant_dialogs.tsx';
import styles from './grants_by_object.module.css';
import { GrantsOn } from './grants_on.tsx';

const isUri = /^\/api\/v\d+(\/|$)/;

export function GrantsByObject() {
  const { on = '' } = useRoomSearch();
  const openRoom = useOpenRoom();
  return (
    <>
      <div className={styles.object}>
        <ObjectUriField
          value={on}
          onChange={(next) => openRoom('access', ['grants'], { on: next }, { replace: true })}
        />
      </div>
      {isUri.test(on) ? (
        <GrantsOn uri={on} />
      ) : (
        <EmptyState icon={<ShieldCheck aria-hidden />} title="Who was granted something on an object?">
          Write its URI. The page of an object in the catalog shows its grants too.
        </EmptyState>
      )}
    </>
  );
}
