// How a CSV file is read; a change reads its beginning again.
import { Field } from '../ui/field.tsx';
import { Select } from '../ui/overlays/select.tsx';
import type { CsvOptions } from './load_session.ts';

interface DialectProps {
  readonly read: CsvOptions;
  readonly asked: CsvOptions | undefined;
  readonly onChange: (csv: CsvOptions) => void;
}

const delimiters = [',', ';', '\t', '|'] as const;

export function CsvDialect({ read, asked, onChange }: DialectProps) {
  const current = { ...read, ...asked };
  const delimiter = current.delimiter ?? ',';
  const known: readonly string[] = delimiters;
  const choices = (known.includes(delimiter) ? known : [...known, delimiter]).map((value) => ({
    value,
    label: value === '\t' ? 'Tab' : value,
  }));
  return (
    <>
      <Field label="Delimiter">
        <Select value={delimiter} choices={choices} onChange={(value) => onChange({ ...asked, delimiter: value })} />
      </Field>
      <Field label="First line">
        <Select
          value={String(current.header ?? true)}
          choices={[
            { value: 'true', label: 'Column names' },
            { value: 'false', label: 'A row' },
          ]}
          onChange={(value) => onChange({ ...asked, header: value === 'true' })}
        />
      </Field>
    </>
  );
}
