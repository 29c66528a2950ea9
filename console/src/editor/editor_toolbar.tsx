// The bar above the text of a tab: run or cancel, where it runs, format and save.
import { ListTree, PanelLeft, Play, Save, Square, WandSparkles } from 'lucide-react';
import { useState } from 'react';
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
  readonly onRun: () => void;
  readonly onCancel: () => void;
  readonly onFormat: () => void;
  readonly onSave: () => void;
  readonly onToggleSide: () => void;
}

export function EditorToolbar(props: EditorToolbarProps) {
  const { tab, isRunning, statement, onRun, onCancel, onFormat, onSave, onToggleSide } = props;
  const [isPressed, setIsPressed] = useState(false);
  const [explained, setExplained] = useState<Statement>();
  return (
    <div className={styles.toolbar}>
      <span className={styles.drawer}>
        <IconButton label="Show the catalog" onClick={onToggleSide}>
          <PanelLeft aria-hidden />
        </IconButton>
      </span>
      <span className={styles.run} onPointerLeave={() => setIsPressed(false)}>
        {isRunning ? (
          <Button look="danger" icon={<Square aria-hidden />} onClick={onCancel}>
            Cancel
          </Button>
        ) : (
          <PlanPreview statement={statement} isDisabled={isPressed}>
            <Button
              look="primary"
              icon={<Play aria-hidden />}
              onClick={() => {
                setIsPressed(true);
                onRun();
              }}
            >
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
      <IconButton label="Explain" onClick={() => setExplained(statement())}>
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
