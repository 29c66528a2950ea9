// Buttons: with a label, and with an icon only, whose label is its tooltip.
import { Button as BaseButton } from '@base-ui/react/button';
import type { ComponentProps, ReactNode } from 'react';
import styles from './button.module.css';
import { classNames } from './class_names.ts';
import { Tooltip } from './overlays/tooltip.tsx';

type Look = 'primary' | 'secondary' | 'quiet' | 'danger';

export interface ButtonProps extends Omit<ComponentProps<'button'>, 'className'> {
  readonly look?: Look;
  readonly size?: 'normal' | 'small' | 'large';
  readonly icon?: ReactNode;
}

export function Button({ look = 'secondary', size = 'normal', icon, children, type = 'button', ...rest }: ButtonProps) {
  return (
    <BaseButton {...rest} type={type} className={classNames(styles.button, styles[look], styles[size])}>
      {icon}
      {children}
    </BaseButton>
  );
}

interface IconButtonProps extends Omit<ButtonProps, 'children' | 'icon'> {
  readonly label: string;
  readonly children: ReactNode;
  /** Shown beside the label, as in `Ctrl+Enter`. */
  readonly keys?: string;
}

export function IconButton({ label, keys, look = 'quiet', size = 'normal', children, ...rest }: IconButtonProps) {
  return (
    <Tooltip text={label} {...(keys === undefined ? {} : { keys })}>
      <BaseButton
        {...rest}
        type="button"
        aria-label={label}
        className={classNames(styles.button, styles.icon, styles[look], styles[size])}
      >
        {children}
      </BaseButton>
    </Tooltip>
  );
}
