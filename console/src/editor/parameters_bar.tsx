// The values of the parameters of the statement: a field for each `?`, `$1` or `$name`. A value is read as JSON where it is a number,
// true, false or null, and is text otherwise; text in double quotes is always text.

import { parametersOf } from '../../../src/client/statements.ts';
import styles from './parameters_bar.module.css';
import type { SavedParameters } from './tabs/tab.ts';

interface ParametersBarProps {
  readonly sql: string;
  readonly values: SavedParameters;
  readonly onChange: (values: SavedParameters) => void;
}

/** The names of the fields: those that are given, or the places from 1. */
export function fieldsOf(sql: string): readonly string[] {
  const { count, names } = parametersOf(sql);
  return names.length > 0 ? names : Array.from({ length: count }, (_, i) => String(i + 1));
}

const isPlace = (field: string): boolean => /^\d+$/.test(field);

function valueIn(values: SavedParameters, field: string): unknown {
  if (values === null) return undefined;
  return Array.isArray(values) ? values[Number(field) - 1] : (values as Readonly<Record<string, unknown>>)[field];
}

/** What is sent with a statement: nothing, an array or an object. */
export function parametersFor(sql: string, values: SavedParameters): SavedParameters | undefined {
  const fields = fieldsOf(sql);
  if (fields.length === 0) return undefined;
  const read = fields.map((field) => valueIn(values, field) ?? null);
  return fields.every(isPlace) ? read : Object.fromEntries(fields.map((field, i) => [field, read[i]]));
}

function parseValue(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? text : value;
  } catch {
    return text;
  }
}

function textOfValue(value: unknown): string {
  if (value === undefined) return '';
  // Text that would be read as something else has quotes.
  return typeof value === 'string' && parseValue(value) === value ? value : JSON.stringify(value);
}

export function ParametersBar({ sql, values, onChange }: ParametersBarProps) {
  const fields = fieldsOf(sql);
  if (fields.length === 0) return null;
  const change = (field: string, text: string): void => {
    const next = fields.map((known) => (known === field ? parseValue(text) : (valueIn(values, known) ?? null)));
    onChange(fields.every(isPlace) ? next : Object.fromEntries(fields.map((known, i) => [known, next[i]])));
  };
  return (
    <fieldset className={styles.bar}>
      <legend className="visually-hidden">Parameters</legend>
      {fields.map((field) => (
        <ParameterField
          key={field}
          field={field}
          value={valueIn(values, field)}
          onChange={(text) => change(field, text)}
        />
      ))}
    </fieldset>
  );
}

interface ParameterFieldProps {
  readonly field: string;
  readonly value: unknown;
  readonly onChange: (text: string) => void;
}

function ParameterField({ field, value, onChange }: ParameterFieldProps) {
  return (
    <label className={styles.field}>
      <code>${field}</code>
      <input
        defaultValue={textOfValue(value)}
        placeholder="null"
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}
