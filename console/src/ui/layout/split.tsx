// Two panes with a bar between them that is dragged, or moved by the arrow keys; the size of the first is remembered by name.
import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from 'react';
import { classNames } from '../class_names.ts';
import styles from './split.module.css';

interface SplitProps {
  /** What the bar resizes, and the name under which the size is remembered. */
  readonly name: string;
  readonly direction: 'row' | 'column';
  /** In pixels. */
  readonly initial: number;
  readonly min?: number;
  readonly first: ReactNode;
  readonly second: ReactNode;
}

const keyStep = 24;
const storageKeyOf = (name: string) => `tabularium.size.${name}`;

function storedSize(name: string, initial: number): number {
  try {
    return Number(localStorage.getItem(storageKeyOf(name))) || initial;
  } catch {
    return initial;
  }
}

export function Split({ name, direction, initial, min = 120, first, second }: SplitProps) {
  const container = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState(() => storedSize(name, initial));
  const isRow = direction === 'row';
  const resize = (next: number): void => {
    const { width = 0, height = 0 } = container.current?.getBoundingClientRect() ?? {};
    const bounded = Math.round(Math.max(min, Math.min(next, (isRow ? width : height) - min)));
    setSize(bounded);
    try {
      localStorage.setItem(storageKeyOf(name), String(bounded));
    } catch {
      // Not remembered.
    }
  };
  const onPointerMove = (event: PointerEvent<HTMLElement>): void => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId) || !container.current) return;
    const { left, top } = container.current.getBoundingClientRect();
    resize(isRow ? event.clientX - left : event.clientY - top);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowLeft: -keyStep, ArrowUp: -keyStep, ArrowRight: keyStep, ArrowDown: keyStep }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    resize(size + step);
  };
  return (
    <div ref={container} className={classNames(styles.split, isRow ? styles.row : styles.column)}>
      <div className={styles.first} style={{ flexBasis: size }}>
        {first}
      </div>
      <div
        role="separator"
        aria-label={`Resize ${name}`}
        aria-orientation={isRow ? 'vertical' : 'horizontal'}
        aria-valuenow={size}
        tabIndex={0}
        className={styles.bar}
        onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
        onPointerMove={onPointerMove}
        onKeyDown={onKeyDown}
      />
      <div className={styles.second}>{second}</div>
    </div>
  );
}
