// The SQL room: the explorer and the saved queries at the side, the tabs, the editor, and the result of what was run.
import { Play, Save, WandSparkles } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { usePageTitle } from '../app/page_title.ts';
import { useCommands } from '../app/palette/commands.ts';
import { useOpenRoom, useRoomSearch } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Explorer } from '../explorer/explorer.tsx';
import type { ExplorerObject } from '../explorer/objects_store.ts';
import { quoteName } from '../results/grid/value_text.ts';
import { ResultPanel } from '../results/result_panel.tsx';
import { prepareResults } from '../results/run/statement_run.ts';
import { Split } from '../ui/layout/split.tsx';
import { Tabs } from '../ui/layout/tabs.tsx';
import { showFailure, showToast } from '../ui/overlays/toasts.tsx';
import styles from './editor_room.module.css';
import { EditorToolbar } from './editor_toolbar.tsx';
import { ParametersBar, parametersFor } from './parameters_bar.tsx';
import { contentOfSaved, SaveDialog, SavedQueries } from './saved_queries/saved_queries.tsx';
import type { Tab } from './tabs/tab.ts';
import { TabBar } from './tabs/tab_bar.tsx';
import { closeRunsExcept, startRun, useTabRun } from './tabs/tab_runs.ts';
import { tabsStore, useTabs } from './tabs/tabs_store.ts';
import { namesFrom } from './text/catalog_names.ts';
import { reasonNothingRuns, runnableSpan } from './text/runnable_statement.ts';
import { type EditorHandle, SqlEditor } from './text/sql_editor.tsx';

export function Room() {
  const { tabs, activeId } = useTabs();
  const [isSideOpen, setIsSideOpen] = useState(false);
  const editor = useRef<EditorHandle>(undefined);
  useEffect(() => {
    prepareResults();
    tabsStore.load().catch((error: unknown) => showFailure('The drafts could not be read', error));
  }, []);
  useOpenedByAddress();
  useEffect(() => closeRunsExcept(new Set(tabs.map(({ id }) => id))), [tabs]);
  const onInsert = ({ kind, path, name }: ExplorerObject): void => {
    const [catalog = '', ...inCatalog] = path;
    const place = tabs.find(({ id }) => id === activeId)?.place;
    const names = kind === 'column' ? [name] : place?.catalog === catalog ? inCatalog : path;
    // In its own database a table needs no other name.
    const shortest = names.length === 2 && names[0] === place?.database ? names.slice(1) : names;
    editor.current?.insert(shortest.map(quoteName).join('.'));
    setIsSideOpen(false);
  };
  const active = tabs.find(({ id }) => id === activeId);
  usePageTitle(active?.name);
  return (
    <div className={styles.room} data-side={isSideOpen ? 'open' : undefined}>
      <Split
        name="explorer"
        direction="row"
        initial={270}
        min={160}
        first={<Side onInsert={onInsert} onOpened={() => setIsSideOpen(false)} />}
        second={
          <>
            <TabBar />
            {active && (
              <ActiveTab key={active.id} tab={active} editor={editor} onToggleSide={() => setIsSideOpen(!isSideOpen)} />
            )}
          </>
        }
      />
    </div>
  );
}

/** `?sql=`, with `catalog` and `database`, opens a tab with a text; `?query=` one with a saved query. Nothing is run by an address. */
function useOpenedByAddress(): void {
  const { sql, catalog, database, query } = useRoomSearch();
  const openRoom = useOpenRoom();
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each address
  useEffect(() => {
    // At once, not when the drafts are read: the user may already write.
    if (sql !== undefined) tabsStore.open({ sql, place: { catalog: catalog ?? 'default', database } });
    if (query !== undefined)
      client
        .savedQueries(query)
        .get()
        .then(
          (saved) => tabsStore.open(contentOfSaved(saved)),
          (error: unknown) => showFailure(`The saved query ${query} could not be opened`, error),
        );
    if (sql !== undefined || query !== undefined) openRoom('sql', [], {}, { replace: true });
  }, [sql, query]);
}

type SideView = 'catalog' | 'saved';

interface SideProps {
  readonly onInsert: (object: ExplorerObject) => void;
  readonly onOpened: () => void;
}

function Side({ onInsert, onOpened }: SideProps) {
  const [view, setView] = useState<SideView>('catalog');
  return (
    <Tabs
      label="Side panel"
      value={view}
      onChange={setView}
      tabs={[
        { value: 'catalog', label: 'Catalog', content: <Explorer onInsert={onInsert} /> },
        { value: 'saved', label: 'Saved queries', content: <SavedQueries onOpened={onOpened} /> },
      ]}
    />
  );
}

interface ActiveTabProps {
  readonly tab: Tab;
  readonly editor: React.RefObject<EditorHandle | undefined>;
  readonly onToggleSide: () => void;
}

function ActiveTab({ tab, editor, onToggleSide }: ActiveTabProps) {
  const { id, sql, place, parameters } = tab;
  const [isSaving, setIsSaving] = useState(false);
  const { run, isRunning, failed, error } = useTabRun(id);
  const names = useMemo(() => namesFrom(place), [place]);
  const statement = () => {
    const state = editor.current?.view.state;
    const span = state && runnableSpan(state);
    if (!span) return undefined;
    const text = state.sliceDoc(span.from, span.to);
    return { sql: text, place, parameters: parametersFor(text, parameters) ?? undefined, start: span.from };
  };
  const requireStatement = () => {
    const found = statement();
    const state = editor.current?.view.state;
    if (!found && state) showToast('There is nothing to run', reasonNothingRuns(state));
    return found;
  };
  const onRun = (): void => {
    const found = requireStatement();
    if (found) startRun(id, found, found.start);
  };
  const onFormat = (): void => void format(id);
  useCommands([
    { label: 'Run the statement', icon: Play, keys: 'Ctrl+Enter', onSelect: onRun },
    { label: 'Format the text', icon: WandSparkles, keys: 'Shift+Alt+F', onSelect: onFormat },
    { label: 'Save the query', icon: Save, keys: 'Ctrl+S', onSelect: () => setIsSaving(true) },
  ]);
  return (
    <>
      <EditorToolbar
        tab={tab}
        isRunning={isRunning}
        statement={statement}
        requireStatement={requireStatement}
        failed={failed}
        onRun={onRun}
        onCancel={() => run?.cancel()}
        onFormat={onFormat}
        onSave={() => setIsSaving(true)}
        onToggleSide={onToggleSide}
      />
      <ParametersBar
        sql={sql}
        values={parameters}
        onChange={(values) => tabsStore.update(id, { parameters: values })}
      />
      <Split
        name="editor"
        direction="column"
        initial={260}
        min={80}
        first={
          <SqlEditor
            text={sql}
            names={names}
            error={error}
            onChange={(text) => tabsStore.update(id, { sql: text })}
            onRun={onRun}
            onCancel={() => run?.cancel()}
            onFormat={onFormat}
            onSave={() => setIsSaving(true)}
            onReady={(handle) => {
              editor.current = handle;
            }}
          />
        }
        second={
          <ResultPanel run={run} chart={{ settings: tab.chart, onChange: (chart) => tabsStore.keepChart(id, chart) }} />
        }
      />
      {isSaving && <SaveDialog tab={tab} onClose={() => setIsSaving(false)} />}
    </>
  );
}

/** Formats the whole text, also of a tab that is left meanwhile: the formatter is loaded when it is first used. */
async function format(tabId: string): Promise<void> {
  try {
    const { formatSql } = await import('./text/format_sql.ts');
    tabsStore.updateText(tabId, formatSql);
  } catch (error) {
    showFailure('The text could not be formatted', error);
  }
}
