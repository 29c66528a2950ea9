// A labelled input with its description and its error, and the inputs themselves.
import { Field as Base } from '@base-ui/react/field';
import { type ComponentProps, type ReactNode, useId } from 'react';
import { classNames } from './class_names.ts';
import styles from './field.module.css';

interface FieldProps {
  readonly label: string;
  readonly description?: ReactNode;
  readonly error?: string | undefined;
  /** A `TextInput`, `SuggestedInput`, `TextArea` or `Select`. */
  readonly children: ReactNode;
}

export function Field({ label, description, error, children }: FieldProps) {
  return (
    <Base.Root className={styles.field} invalid={error !== undefined}>
      <Base.Label className={styles.label}>{label}</Base.Label>
      {children}
      {description !== undefined && <Base.Description className={styles.description}>{description}</Base.Description>}
      {error !== undefined && (
        <Base.Error match className={styles.error}>
          {error}
        </Base.Error>
      )}
    </Base.Root>
  );
}

interface TextInputProps extends Omit<ComponentProps<'input'>, 'className' | 'onChange' | 'value' | 'defaultValue'> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly isMonospace?: boolean;
}

export function TextInput({ value, onChange, isMonospace = false, ...rest }: TextInputProps) {
  return (
    <Base.Control
      {...rest}
      value={value}
      onValueChange={onChange}
      autoComplete={rest.autoComplete ?? 'off'}
      spellCheck={rest.spellCheck ?? false}
      className={classNames(styles.input, isMonospace && styles.monospace)}
    />
  );
}

interface SuggestedInputProps extends Omit<TextInputProps, 'list'> {
  readonly suggestions: readonly string[];
}

/** Any text may be written; the browser offers the suggestions that match it. */
export function SuggestedInput({ suggestions, ...input }: SuggestedInputProps) {
  const list = useId();
  return (
    <>
      <TextInput {...input} list={list} />
      <datalist id={list}>
        {suggestions.map((suggestion) => (
          <option key={suggestion} value={suggestion} />
        ))}
      </datalist>
    </>
  );
}

interface TextAreaProps extends Omit<TextInputProps, 'type'> {
  readonly rows?: number;
}

export function TextArea({ value, onChange, isMonospace = false, rows = 4, ...rest }: TextAreaProps) {
  return (
    <Base.Control
      {...rest}
      value={value}
      onValueChange={onChange}
      render={<textarea rows={rows} spellCheck={false} />}
      className={classNames(styles.input, styles.area, isMonospace && styles.monospace)}
    />
  );
}

interface CheckboxProps {
  readonly label: string;
  readonly isChecked: boolean;
  readonly onChange: (isChecked: boolean) => void;
}

export function Checkbox({ label, isChecked, onChange }: CheckboxProps) {
  return (
    <label className={styles.checkbox}>
      <input type="checkbox" checked={isChecked} onChange={(event) => onChange(event.target.checked)} />
      {label}
    </label>
  );
}
