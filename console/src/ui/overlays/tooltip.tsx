// A tooltip: the name of an icon button, and its keys. What one has to know stands on the page, not in a tooltip.
import { Tooltip as Base } from '@base-ui/react/tooltip';
import type { ReactElement } from 'react';
import styles from './popup.module.css';

interface TooltipProps {
  readonly text: string;
  readonly keys?: string;
  readonly side?: 'top' | 'right' | 'bottom' | 'left';
  readonly children: ReactElement;
}

export function Tooltip({ text, keys, side = 'bottom', children }: TooltipProps) {
  return (
    <Base.Root>
      <Base.Trigger render={children} />
      <Base.Portal>
        <Base.Positioner side={side} sideOffset={6} className={styles.positioner}>
          <Base.Popup className={styles.tooltip}>
            {text}
            {keys !== undefined && <kbd>{keys}</kbd>}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

export const TooltipProvider = Base.Provider;
