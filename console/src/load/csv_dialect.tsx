// The dialect of a CSV file: detected, unless the user chooses another; each change updates the preview.
import { Field } from '../ui/field.tsx';
import { Select } from '../ui/overlays/select.tsx';
import type { CsvOptions } from './load_session.ts';

interface DialectProps {
  readonly detected: CsvOptions;
  readonly chosen: CsvOptions | undefined;
  readonly onChange: (csv: CsvOptions) => void;
}

const delimiters = [',', ';', '\t', '|'] as const;

export function CsvDialect({ detected, chosen, onChange }: DialectProps) {
  const current = { ...detected, ...chosen };
  const delimiter = current.delimiter ?? ',';
  const known: readonly string[] = delimiters;
  const choices = (known.includes(delimiter) ? known : [...known, delimiter]).map((value) => ({
    value,
    label: value === '\t' ? 'Tab' : value,
  }));
  return (
    <>
      <Field label="Delimiter">
        <Select value={delimiter} choices={choices} onChange={(value) => onChange({ ...chosen, delimiter: value })} />
      </Field>
      <Field label="First line">
        <Select
          value={String(current.header ?? true)}
          choices={[
            { value: 'true', label: 'Column names' },
            { value: 'false', label: 'A row' },
          ]}
          onChange={(value) => onChange({ ...chosen, header: value === 'true' })}
        />
      </Field>
    </>
  );
}
