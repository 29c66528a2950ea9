// The tabs of the editor: their names, whether they are saved, and those that were closed.
import { CloudAlert, History, Pencil, Plus, X } from 'lucide-react';
import { useState } from 'react';
import { Button, IconButton } from '../../ui/button.tsx';
import { classNames } from '../../ui/class_names.ts';
import { messageOf } from '../../ui/error_panel.tsx';
import { Field, TextInput } from '../../ui/field.tsx';
import { formatAgo } from '../../ui/format.ts';
import { Dialog } from '../../ui/overlays/dialog.tsx';
import { Menu } from '../../ui/overlays/menu.tsx';
import { showFailure } from '../../ui/overlays/toasts.tsx';
import { closedAtOf, type Tab } from './tab.ts';
import styles from './tab_bar.module.css';
import { tabsStore, useTabs } from './tabs_store.ts';

const nameMax = 128;

export function TabBar() {
  const { tabs, activeId, closed } = useTabs();
  const [renamed, setRenamed] = useState<Tab>();
  const close = (id: string) =>
    void tabsStore.close(id).catch((error: unknown) => showFailure('The closed tab could not be saved', error));
  return (
    <div className={styles.bar}>
      <ul aria-label="Open queries" className={styles.tabs}>
        {tabs.map((tab) => (
          <TabItem
            key={tab.id}
            tab={tab}
            isActive={tab.id === activeId}
            onClose={() => close(tab.id)}
            onRename={() => setRenamed(tab)}
          />
        ))}
      </ul>
      <IconButton size="small" label="New query" onClick={() => tabsStore.open()}>
        <Plus aria-hidden />
      </IconButton>
      {closed.length > 0 && (
        <Menu
          align="end"
          trigger={
            <IconButton size="small" label="Closed queries">
              <History aria-hidden />
            </IconButton>
          }
          items={closed.map((record) => ({
            label: `${record.name}: ${record.sql.trim().slice(0, 40)} (${formatAgo(closedAtOf(record) ?? record.updatedAt)})`,
            onSelect: () => void tabsStore.reopen(record),
          }))}
        />
      )}
      {renamed && <RenameDialog tab={renamed} onClose={() => setRenamed(undefined)} />}
    </div>
  );
}

interface TabItemProps {
  readonly tab: Tab;
  readonly isActive: boolean;
  readonly onClose: () => void;
  readonly onRename: () => void;
}

const saveLabels: Readonly<Record<Tab['save'], string>> = {
  saved: 'Saved',
  unsaved: 'Not saved yet',
  saving: 'Saving',
  failed: 'Not saved',
};

function TabItem({ tab: { id, name, save, error }, isActive, onClose, onRename }: TabItemProps) {
  return (
    <li className={classNames(styles.tab, isActive && styles.active)}>
      <button
        type="button"
        aria-current={isActive}
        title={save === 'failed' ? `Not saved: ${messageOf(error)}` : `${name}: ${saveLabels[save]}`}
        className={styles.name}
        onClick={() => tabsStore.activate(id)}
        onDoubleClick={onRename}
        onAuxClick={({ button }) => button === 1 && onClose()}
      >
        {name}
      </button>
      {save === 'failed' ? (
        <CloudAlert className={styles.failed} aria-label="Not saved" />
      ) : (
        <span className={styles.dot} data-save={save} />
      )}
      {isActive && (
        <IconButton size="small" label={`Rename ${name}`} onClick={onRename}>
          <Pencil aria-hidden />
        </IconButton>
      )}
      <IconButton size="small" label={`Close ${name}`} onClick={onClose}>
        <X aria-hidden />
      </IconButton>
    </li>
  );
}

function RenameDialog({ tab: { id, name: old }, onClose }: { readonly tab: Tab; readonly onClose: () => void }) {
  const [name, setName] = useState(old);
  const rename = () => {
    tabsStore.update(id, { name: name.trim() || old });
    onClose();
  };
  return (
    <Dialog
      isOpen
      title="Rename the query"
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" onClick={rename}>
            Rename
          </Button>
        </>
      }
    >
      <Field label="Name">
        <TextInput
          value={name}
          maxLength={nameMax}
          onChange={setName}
          onKeyDown={(event) => event.key === 'Enter' && rename()}
          autoFocus
        />
      </Field>
    </Dialog>
  );
}
