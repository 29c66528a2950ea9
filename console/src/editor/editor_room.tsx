// The SQL room: the explorer, the editor and the result of what was run.
import { PanelLeft, Play, Square, WandSparkles } from 'lucide-react';
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { Explorer } from '../explorer/explorer.tsx';
import type { ExplorerObject } from '../explorer/objects_store.ts';
import type { Place } from '../results/messages.ts';
import { ResultPanel } from '../results/result_panel.tsx';
import { prepareResults, StatementRun } from '../results/statement_run.ts';
import { quoteName } from '../results/value_text.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { Split } from '../ui/split.tsx';
import { showFailure } from '../ui/toasts.tsx';
import { namesFrom } from './catalog_names.ts';
import styles from './editor_room.module.css';
import { PlaceSelect } from './place_select.tsx';
import { runnableSpan } from './runnable_statement.ts';
import { type EditorHandle, SqlEditor, type TextError } from './sql_editor.tsx';

interface CurrentRun {
  readonly run: StatementRun;
  /** Where its statement begins in the text. */
  readonly start: number;
}

const noRun = { subscribe: () => () => undefined, state: () => undefined };

/** The run of the room, and its error at its place in the text. */
function useRun(place: Place) {
  const [current, setCurrent] = useState<CurrentRun>();
  const { subscribe, state: read } = current?.run ?? noRun;
  const state = useSyncExternalStore(subscribe, read);
  const start = (sql: string, from: number): void => {
    current?.run.close();
    setCurrent({ run: new StatementRun({ sql, place }), start: from });
  };
  const error = useMemo((): TextError | undefined => {
    if (state?.kind !== 'failed' || !current) return undefined;
    const { message, result } = state.error;
    if (typeof result.line !== 'number') return undefined;
    return { start: current.start, line: result.line, column: numberOf(result.column), message };
  }, [state, current]);
  return { run: current?.run, isRunning: state?.kind === 'running', error, start };
}

const numberOf = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);

const textKey = 'tabularium.sql';

export function Room() {
  const [place, setPlace] = useState<Place>({ catalog: 'default' });
  const [isExplorerOpen, setIsExplorerOpen] = useState(false);
  const editor = useRef<EditorHandle>(undefined);
  const { run, isRunning, error, start } = useRun(place);
  const names = useMemo(() => namesFrom(place), [place]);
  useEffect(prepareResults, []);

  const onRun = (): void => {
    const state = editor.current?.view.state;
    const span = state && runnableSpan(state);
    if (span) start(state.sliceDoc(span.from, span.to), span.from);
  };
  const onInsert = useCallback(({ kind, path, name }: ExplorerObject): void => {
    const [, ...inCatalog] = path;
    editor.current?.insert(kind === 'column' ? quoteName(name) : inCatalog.map(quoteName).join('.'));
    setIsExplorerOpen(false);
  }, []);
  const onFormat = (): void => void format(editor.current);
  return (
    <div className={styles.room} data-explorer={isExplorerOpen ? 'open' : undefined}>
      <Split
        name="explorer"
        direction="row"
        initial={270}
        min={160}
        first={<Explorer onInsert={onInsert} />}
        second={
          <>
            <div className={styles.toolbar}>
              <span className={styles.drawer}>
                <IconButton label="Show the explorer" onClick={() => setIsExplorerOpen(!isExplorerOpen)}>
                  <PanelLeft aria-hidden />
                </IconButton>
              </span>
              {isRunning ? (
                <Button look="danger" icon={<Square aria-hidden />} onClick={() => run?.cancel()}>
                  Cancel
                </Button>
              ) : (
                <Button look="primary" icon={<Play aria-hidden />} onClick={onRun}>
                  Run
                </Button>
              )}
              <PlaceSelect place={place} onChange={setPlace} />
              <span className={styles.space} />
              <IconButton label="Format" keys="Shift+Alt+F" onClick={onFormat}>
                <WandSparkles aria-hidden />
              </IconButton>
            </div>
            <Split
              name="editor"
              direction="column"
              initial={300}
              min={80}
              first={
                <SqlEditor
                  initialText={sessionStorage.getItem(textKey) ?? ''}
                  names={names}
                  error={error}
                  onChange={(text) => sessionStorage.setItem(textKey, text)}
                  onRun={onRun}
                  onCancel={() => run?.cancel()}
                  onFormat={onFormat}
                  onReady={(handle) => {
                    editor.current = handle;
                  }}
                />
              }
              second={<ResultPanel run={run} />}
            />
          </>
        }
      />
    </div>
  );
}

/** Formats the whole text; the formatter is loaded when it is first used. */
async function format(handle: EditorHandle | undefined): Promise<void> {
  if (!handle) return;
  try {
    const { formatSql } = await import('./format_sql.ts');
    handle.replaceAll(formatSql(handle.view.state.doc.toString()));
  } catch (error) {
    showFailure('The text could not be formatted', error);
  }
}
