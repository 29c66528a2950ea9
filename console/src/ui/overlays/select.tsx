// A choice of one value from a short list.
import { Select as Base } from '@base-ui/react/select';
import { Check, ChevronsUpDown } from 'lucide-react';
import { classNames } from '../class_names.ts';
import fieldStyles from '../field.module.css';
import styles from './popup.module.css';

export interface Choice<V extends string> {
  readonly value: V;
  readonly label: string;
}

interface SelectProps<V extends string> {
  /** Read by screen readers where no visible label belongs to it. */
  readonly label?: string;
  readonly value: V;
  readonly choices: readonly Choice<V>[];
  readonly onChange: (value: V) => void;
  readonly isDisabled?: boolean;
  readonly isQuiet?: boolean;
}

export function Select<V extends string>(props: SelectProps<V>) {
  const { label, value, choices, onChange, isDisabled = false, isQuiet = false } = props;
  return (
    <Base.Root
      items={choices}
      value={value}
      disabled={isDisabled}
      onValueChange={(next) => next !== null && onChange(next)}
    >
      <Base.Trigger
        aria-label={label}
        className={classNames(fieldStyles.input, fieldStyles.select, isQuiet && fieldStyles.quiet)}
      >
        <Base.Value />
        <Base.Icon>
          <ChevronsUpDown aria-hidden />
        </Base.Icon>
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} alignItemWithTrigger={false} className={styles.positioner}>
          <Base.Popup className={styles.popup}>
            {choices.map((choice) => (
              <Base.Item key={choice.value} value={choice.value} className={styles.item}>
                <span className={styles.mark}>
                  <Base.ItemIndicator>
                    <Check aria-hidden />
                  </Base.ItemIndicator>
                </span>
                <Base.ItemText>{choice.label}</Base.ItemText>
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
