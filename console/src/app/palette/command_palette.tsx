// The command palette: leads to rooms, tables, views, databases and saved queries by name, and runs commands. It works by keyboard only,
// and no key is lost: the field has the focus before the key after Ctrl+K, and what is entered before it is found opens when it is.
import { Dialog } from '@base-ui/react/dialog';
import { useQuery } from '@tanstack/react-query';
import { BookOpen, Database, Eye, FileCode2, type LucideIcon, Monitor, Moon, Plus, Sun, Table2 } from 'lucide-react';
import { Fragment, type KeyboardEvent, useDeferredValue, useEffect, useId, useRef, useState } from 'react';
import { type ExplorerObject, searchObjects } from '../../explorer/objects_store.ts';
import { classNames } from '../../ui/class_names.ts';
import { Spinner } from '../../ui/feedback.tsx';
import { containsPattern } from '../like_pattern.ts';
import { useOpenRoom } from '../room_path.tsx';
import { rooms } from '../rooms.ts';
import { client } from '../session.ts';
import { chooseTheme } from '../theme_choice.ts';
import styles from './command_palette.module.css';
import { type Command, useRegisteredCommands } from './commands.ts';

const searchPauseMs = 200;
const foundMax = 30;
const savedMax = 20;

interface Entry extends Command {
  readonly group: 'Go to' | 'Commands' | 'Objects' | 'Saved queries';
  /** Shown after the label. */
  readonly detail?: string;
}

const objectIcons: Readonly<Partial<Record<ExplorerObject['kind'], LucideIcon>>> = {
  database: Database,
  table: Table2,
  view: Eye,
};

/** Whether each word of the text is in the label. */
const matches = (label: string, text: string): boolean =>
  text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => label.toLowerCase().includes(word));

function useFixedEntries(): readonly Entry[] {
  const openRoom = useOpenRoom();
  const registered = useRegisteredCommands();
  const inGroup = (group: Entry['group'], commands: readonly Command[]) => commands.map((one) => ({ ...one, group }));
  return [
    ...inGroup('Commands', [
      ...registered,
      { label: 'New query', icon: Plus, onSelect: () => void openRoom('sql', [], { sql: '' }) },
      { label: 'Theme: light', icon: Sun, onSelect: () => chooseTheme('light') },
      { label: 'Theme: dark', icon: Moon, onSelect: () => chooseTheme('dark') },
      { label: 'Theme: as the system', icon: Monitor, onSelect: () => chooseTheme('system') },
    ]),
    ...inGroup('Go to', [
      ...rooms.map(({ label, icon, path }) => ({ label, icon, onSelect: () => void openRoom(path) })),
      { label: 'Documentation', icon: BookOpen, onSelect: () => void open('/console/docs/', '_blank', 'noreferrer') },
    ]),
  ];
}

/** Objects and saved queries whose names contain the text. */
function useFoundEntries(text: string) {
  const openRoom = useOpenRoom();
  const { data, isFetching } = useQuery({
    queryKey: ['objects', 'palette', text],
    enabled: text !== '',
    queryFn: async ({ signal }) => {
      await new Promise((resolve) => setTimeout(resolve, searchPauseMs));
      signal.throwIfAborted();
      const [objects, saved] = await Promise.all([
        searchObjects(text, signal),
        client.savedQueries.search({ namePattern: containsPattern(text), pageSize: savedMax }, { signal }).page(),
      ]);
      return { objects: objects.slice(0, foundMax), saved: saved.items };
    },
    placeholderData: (previous) => previous,
  });
  const objects = (data?.objects ?? []).map(
    ({ kind, path, name }): Entry => ({
      group: 'Objects',
      label: name,
      detail: [kind, ...path.slice(0, -1)].join(' · '),
      icon: objectIcons[kind] ?? Table2,
      onSelect: () => void openRoom('catalog', path, kind === 'view' ? { kind } : {}),
    }),
  );
  const saved = (data?.saved ?? []).map(
    ({ name, folder }): Entry => ({
      group: 'Saved queries',
      label: name,
      icon: FileCode2,
      ...(folder == null ? {} : { detail: folder }),
      onSelect: () => void openRoom('sql', [], { query: name }),
    }),
  );
  return { found: text === '' ? [] : [...objects, ...saved], isSearching: text !== '' && isFetching };
}

interface CommandPaletteProps {
  /** Gets the focus when the palette closes. */
  readonly focusedBefore: Element | null;
  readonly onClose: () => void;
}

/** The dialog would focus its first element in a later frame. */
const focusAtOnce = (field: HTMLElement | null): void => field?.focus();

export function CommandPalette({ focusedBefore, onClose }: CommandPaletteProps) {
  const [text, setText] = useState('');
  const [active, setActive] = useState(0);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const searchText = useDeferredValue(text.trim());
  const fixed = useFixedEntries();
  const { found, isSearching } = useFoundEntries(searchText);
  // What was found for an earlier text is shown only as far as it fits this one.
  const entries = [...fixed, ...found].filter(({ label }) => matches(label, text.trim()));
  const index = Math.min(active, entries.length - 1);
  useEffect(() => {
    list.current?.querySelector(`[data-index="${index}"]`)?.scrollIntoView({ block: 'nearest' });
  }, [index]);
  const { select, forget } = useSelect(entries[0], onClose);
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (event.key === 'Enter') select(entries[index]);
    else if (step !== undefined) setActive(stepped(index, step, entries.length));
    else return;
    event.preventDefault();
  };
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={styles.backdrop} />
        <Dialog.Popup
          className={styles.popup}
          finalFocus={() => (focusedBefore instanceof HTMLElement && focusedBefore.isConnected ? focusedBefore : true)}
        >
          <Dialog.Title className="visually-hidden">Command palette</Dialog.Title>
          <div className={styles.field}>
            <input
              ref={focusAtOnce}
              role="combobox"
              aria-label="Go to or run"
              aria-expanded
              aria-controls={id}
              aria-autocomplete="list"
              aria-activedescendant={entries[index] && `${id}-${index}`}
              placeholder="Go to a page, a table, a saved query, or run a command"
              value={text}
              onChange={(event) => {
                setText(event.target.value);
                setActive(0);
                forget();
              }}
              onKeyDown={onKeyDown}
            />
            {isSearching && <Spinner label="Searching…" />}
          </div>
          <div ref={list} id={id} role="listbox" aria-label="Results" className={styles.list}>
            {entries.map((entry, i) => (
              <Fragment key={`${entry.group} ${entry.label} ${entry.detail}`}>
                {entry.group !== entries[i - 1]?.group && (
                  <div role="presentation" className={styles.group}>
                    {entry.group}
                  </div>
                )}
                <Option
                  entry={entry}
                  id={`${id}-${i}`}
                  index={i}
                  isActive={i === index}
                  onSelect={() => select(entry)}
                />
              </Fragment>
            ))}
          </div>
          {entries.length === 0 && <p className={styles.none}>{isSearching ? 'Searching…' : 'Nothing found'}</p>}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** `select(undefined)`, before anything was found, selects the first entry that is; `forget` takes that back. */
function useSelect(first: Entry | undefined, onClose: () => void) {
  const [isWaiting, setIsWaiting] = useState(false);
  const select = (entry: Entry | undefined): void => {
    if (!entry) {
      setIsWaiting(true);
      return;
    }
    onClose();
    entry.onSelect();
  };
  useEffect(() => {
    if (isWaiting && first) select(first);
  });
  return { select, forget: () => setIsWaiting(false) };
}

/** One step leads from the end to the beginning; more steps end there. */
function stepped(index: number, step: number, count: number): number {
  if (count === 0) return 0;
  if (Math.abs(step) === 1) return (index + step + count) % count;
  return Math.max(0, Math.min(count - 1, index + step));
}

interface OptionProps {
  readonly entry: Entry;
  readonly id: string;
  readonly index: number;
  readonly isActive: boolean;
  readonly onSelect: () => void;
}

function Option({ entry: { icon: Icon, label, detail, keys }, id, index, isActive, onSelect }: OptionProps) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
    <div
      id={id}
      data-index={index}
      role="option"
      tabIndex={-1}
      aria-selected={isActive}
      className={classNames(styles.option, isActive && styles.active)}
      onClick={onSelect}
    >
      <Icon aria-hidden />
      <span className={styles.label}>{label}</span>
      {detail !== undefined && <span className={styles.detail}>{detail}</span>}
      {keys !== undefined && <kbd>{keys}</kbd>}
    </div>
  );
}
