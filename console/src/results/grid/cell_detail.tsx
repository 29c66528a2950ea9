// A cell in full beside the grid: long text, and JSON with line breaks.
import { X } from 'lucide-react';
import type { Column, Value } from '../../../../src/client/index.ts';
import { IconButton } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/data/code_block.tsx';
import styles from './cell_detail.module.css';
import { jsonOf, textOf } from './value_text.ts';

interface CellDetailProps {
  readonly column: Column;
  readonly value: Value;
  readonly row: number;
  readonly onClose: () => void;
}

/** Nested values, and text that is JSON, with line breaks; other text as it is. */
function detailOf(value: Value): string {
  if (value === null) return 'NULL';
  if (typeof value === 'object') return jsonOf(value, '\n');
  const text = textOf(value);
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function CellDetail({ column: { name, type }, value, row, onClose }: CellDetailProps) {
  const text = detailOf(value);
  return (
    <aside className={styles.panel} aria-label="Cell">
      <header className={styles.header}>
        <div className={styles.title}>
          <h2>{name}</h2>
          <p>{`${type} · row ${row + 1}`}</p>
        </div>
        <CopyButton text={text} label="Copy the value" />
        <IconButton size="small" label="Close" onClick={onClose}>
          <X aria-hidden />
        </IconButton>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <pre className={styles.text} tabIndex={0}>
        {text}
      </pre>
    </aside>
  );
}
