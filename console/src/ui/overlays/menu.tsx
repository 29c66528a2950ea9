// A menu that a button opens.
import { Menu as Base } from '@base-ui/react/menu';
import { Check } from 'lucide-react';
import type { ReactElement, ReactNode } from 'react';
import { classNames } from '../class_names.ts';
import styles from './popup.module.css';

export interface MenuItem {
  readonly label: string;
  readonly icon?: ReactNode;
  readonly keys?: string;
  readonly isDangerous?: boolean;
  readonly isDisabled?: boolean;
  /** One of a choice: whether it is chosen. */
  readonly isChecked?: boolean;
  readonly onSelect: () => void;
}

interface MenuProps {
  /** The button; it needs a label. */
  readonly trigger: ReactElement;
  readonly items: readonly (MenuItem | 'separator')[];
  readonly side?: 'top' | 'right' | 'bottom' | 'left';
  readonly align?: 'start' | 'center' | 'end';
}

export function Menu({ trigger, items, side = 'bottom', align = 'start' }: MenuProps) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner side={side} align={align} sideOffset={4} className={styles.positioner}>
          <Base.Popup className={styles.popup}>
            {items.map((item, i) =>
              item === 'separator' ? (
                // biome-ignore lint/suspicious/noArrayIndexKey: a separator has no name
                <Base.Separator key={`separator ${i}`} className={styles.separator} />
              ) : (
                <Item key={item.label} {...item} />
              ),
            )}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

function Item({ label, icon, keys, isDangerous = false, isDisabled = false, isChecked, onSelect }: MenuItem) {
  const content = (
    <>
      {icon}
      {label}
      {keys !== undefined && <kbd className={styles.keys}>{keys}</kbd>}
    </>
  );
  const className = classNames(styles.item, isDangerous && styles.danger);
  if (isChecked !== undefined)
    return (
      <Base.CheckboxItem
        className={className}
        checked={isChecked}
        onCheckedChange={onSelect}
        disabled={isDisabled}
        closeOnClick
      >
        <span className={styles.mark}>{isChecked && <Check aria-hidden />}</span>
        {content}
      </Base.CheckboxItem>
    );
  return (
    <Base.Item className={className} disabled={isDisabled} onClick={onSelect}>
      {content}
    </Base.Item>
  );
}
