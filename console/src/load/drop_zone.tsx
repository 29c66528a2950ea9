// Where a file is dropped or chosen.
import { FileUp } from 'lucide-react';
import { type DragEvent, useRef, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { classNames } from '../ui/class_names.ts';
import styles from './load_room.module.css';
import type { Target } from './load_session.ts';

interface DropZoneProps {
  /** The table that is loaded, if it is known already. */
  readonly into: Target | undefined;
  readonly onFile: (file: File) => void;
}

export function DropZone({ into, onFile }: DropZoneProps) {
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setIsOver] = useState(false);
  const over = (event: DragEvent) => {
    event.preventDefault();
    setIsOver(true);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setIsOver(false);
    const [file] = event.dataTransfer.files;
    if (file) onFile(file);
  };
  return (
    <section
      aria-label="File"
      className={classNames(styles.zone, isOver && styles.over)}
      onDragOver={over}
      onDragLeave={() => setIsOver(false)}
      onDrop={drop}
    >
      <FileUp aria-hidden />
      <p>Drop a file here: CSV, JSON, NDJSON or Parquet, also compressed with gzip or zstd.</p>
      {into && (
        <p>
          Its rows are loaded into {into.database}.{into.table}.
        </p>
      )}
      <Button look="primary" onClick={() => input.current?.click()}>
        Choose a file
      </Button>
      <input
        ref={input}
        type="file"
        hidden
        aria-label="File to load"
        onChange={({ target }) => {
          const [file] = target.files ?? [];
          if (file) onFile(file);
        }}
      />
    </section>
  );
}
