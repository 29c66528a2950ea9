// The bar above the text of a tab: run or cancel, where it runs, format and save.
import { ListTree, PanelLeft, Play, Save, Square, WandSparkles } from 'lucide-react';
import { useEffect, useState } from 'react';
import type { Statement } from '../results/run/messages.ts';
import { Button, IconButton } from '../ui/button.tsx';
import styles from './editor_room.module.css';
import { PlaceSelect } from './place_select.tsx';
import { PlanDialog, PlanPreview } from './plan_preview.tsx';
import type { Tab } from './tabs/tab.ts';
import { tabsStore } from './tabs/tabs_store.ts';

interface EditorToolbarProps {
  readonly tab: Tab;
  readonly isRunning: boolean;
  /** What Run would run. */
  readonly statement: () => Statement | undefined;
  /** The same; if there is none, a message says so. */
  readonly requireStatement: () => Statement | undefined;
  /** The statement whose error is shown. */
  readonly failed: Statement | undefined;
  readonly onRun: () => void;
  readonly onCancel: () => void;
  readonly onFormat: () => void;
  readonly onSave: () => void;
  readonly onToggleSide: () => void;
}

export function EditorToolbar(props: EditorToolbarProps) {
  const { tab, isRunning, statement, requireStatement, failed, onRun, onCancel, onFormat, onSave, onToggleSide } =
    props;
  // The pointer rests where a button was pressed, or where the button changed because of a key: it did not come to read the plan.
  const [isResting, setIsResting] = useState(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: at the beginning and at the end of each run
  useEffect(() => setIsResting(true), [isRunning]);
  const [explained, setExplained] = useState<Statement>();
  return (
    <div className={styles.toolbar}>
      <span className={styles.drawer}>
        <IconButton label="Show the catalog" onClick={onToggleSide}>
          <PanelLeft aria-hidden />
        </IconButton>
      </span>
      <span
        className={styles.run}
        onPointerEnter={() => setIsResting(false)}
        onPointerLeave={() => setIsResting(false)}
        onClickCapture={() => setIsResting(true)}
      >
        {isRunning ? (
          <Button look="danger" icon={<Square aria-hidden />} onClick={onCancel}>
            Cancel
          </Button>
        ) : (
          <PlanPreview statement={statement} failed={failed} isDisabled={isResting}>
            <Button look="primary" icon={<Play aria-hidden />} onClick={onRun}>
              Run
              <kbd className={styles.keys} aria-hidden>
                Ctrl ⏎
              </kbd>
            </Button>
          </PlanPreview>
        )}
      </span>
      <PlaceSelect place={tab.place} onChange={(place) => tabsStore.update(tab.id, { place })} />
      {explained && <PlanDialog statement={explained} onClose={() => setExplained(undefined)} />}
      <span className={styles.space} />
      <IconButton label="Explain" onClick={() => setExplained(requireStatement())}>
        <ListTree aria-hidden />
      </IconButton>
      <IconButton label="Format" keys="Shift+Alt+F" onClick={onFormat}>
        <WandSparkles aria-hidden />
      </IconButton>
      <IconButton label="Save the query" keys="Ctrl+S" onClick={onSave}>
        <Save aria-hidden />
      </IconButton>
    </div>
  );
}
