// The fields that say which table a file is loaded into, and how.
import { useDeferredValue } from 'react';
import { containsPattern } from '../app/like_pattern.ts';
import { usePages } from '../app/queries.ts';
import { Field, SuggestedInput, TextInput } from '../ui/field.tsx';
import { Select } from '../ui/overlays/select.tsx';
import type { LoadForm } from './load_form.ts';
import { databaseAt, type LoadMode, type Place } from './load_session.ts';

const keyOf = ({ catalog, database }: Place) => JSON.stringify([catalog, database]);

const modes: readonly { readonly value: LoadMode; readonly label: string }[] = [
  { value: 'append', label: 'Add the rows' },
  { value: 'replace', label: 'Replace all rows' },
  { value: 'upsert', label: 'Replace rows with the same key' },
];

export interface TargetFieldsProps {
  readonly form: LoadForm;
  readonly places: readonly Place[];
  /** Whether the existing table has a primary key. */
  readonly hasKey: boolean;
  readonly onKind: (kind: LoadForm['kind']) => void;
  readonly onChange: (part: Partial<LoadForm>) => void;
}

export function TargetFields({ form, places, hasKey, onKind, onChange }: TargetFieldsProps) {
  const { kind, mode, errorsMax, label } = form;
  const modeChoices = modes.filter(({ value }) => value !== 'upsert' || hasKey || mode === 'upsert');
  return (
    <>
      <TableFields form={form} places={places} onKind={onKind} onChange={onChange} />
      {kind === 'existing' && (
        <Field label="Rows of the table">
          <Select value={mode} choices={modeChoices} onChange={(next) => onChange({ mode: next })} />
        </Field>
      )}
      <Field label="Rows that may be rejected">
        <TextInput value={errorsMax} onChange={(next) => onChange({ errorsMax: next })} inputMode="numeric" />
      </Field>
      <Field label="Label" description="A load with the same label is not done twice. Optional.">
        <TextInput value={label} onChange={(next) => onChange({ label: next })} maxLength={255} />
      </Field>
    </>
  );
}

/** The table itself. */
export function TableFields({ form, places, onKind, onChange }: Omit<TargetFieldsProps, 'hasKey'>) {
  const { kind, place, newTable } = form;
  return (
    <>
      <Field label="Load into">
        <Select
          value={kind}
          choices={[
            { value: 'new', label: 'A new table' },
            { value: 'existing', label: 'An existing table' },
          ]}
          onChange={onKind}
        />
      </Field>
      <Field label="Database">
        <Select
          value={keyOf(place)}
          choices={places.map((one) => ({ value: keyOf(one), label: `${one.catalog}.${one.database}` }))}
          onChange={(key) => onChange({ place: places.find((one) => keyOf(one) === key) ?? place, sources: {} })}
        />
      </Field>
      {kind === 'new' ? (
        <Field label="New table">
          <TextInput value={newTable} onChange={(next) => onChange({ newTable: next })} />
        </Field>
      ) : (
        <ExistingTable form={form} onChange={onChange} />
      )}
    </>
  );
}

const suggestedMax = 50;

/** The name of a table, with suggestions from the server while it is written. */
function ExistingTable({ form: { place, existing }, onChange }: Pick<TargetFieldsProps, 'form' | 'onChange'>) {
  const searchText = useDeferredValue(existing);
  const { catalog, database } = place;
  const { items = [] } = usePages(['tables', 'suggested', catalog, database, searchText], (signal) =>
    databaseAt(place).tables.search({ namePattern: containsPattern(searchText), pageSize: suggestedMax }, { signal }),
  );
  return (
    <Field label="Table">
      <SuggestedInput
        value={existing}
        suggestions={items.map(({ name }) => name)}
        placeholder="Name of the table"
        onChange={(next) => onChange({ existing: next, sources: {} })}
      />
    </Field>
  );
}
