// The dialect of a CSV file: detected, unless the user chooses another; each change updates the preview.
import { Field } from '../ui/field.tsx';
import { Select } from '../ui/overlays/select.tsx';
import type { CsvOptions, Encoding } from './load_session.ts';

interface DialectProps {
  /** Undefined: the file could not be read. */
  readonly detected: CsvOptions | undefined;
  readonly chosen: CsvOptions | undefined;
  readonly onChange: (csv: CsvOptions) => void;
}

const delimiters = [',', ';', '\t', '|'] as const;
const encodings: readonly { readonly value: Encoding; readonly label: string }[] = [
  { value: 'utf-8', label: 'UTF-8' },
  { value: 'utf-16', label: 'UTF-16' },
  { value: 'latin-1', label: 'Latin-1' },
];
const asDetected = { value: '', label: 'Detected' };

export function CsvDialect({ detected, chosen, onChange }: DialectProps) {
  const { delimiter = '', header, encoding = 'utf-8' } = { ...detected, ...chosen };
  const known: readonly string[] = delimiters;
  const choices = (delimiter === '' || known.includes(delimiter) ? known : [...known, delimiter]).map((value) => ({
    value,
    label: value === '\t' ? 'Tab' : value,
  }));
  const headers = [
    { value: 'true', label: 'Column names' },
    { value: 'false', label: 'A row' },
  ];
  return (
    <>
      <Field label="Delimiter">
        <Select
          value={delimiter}
          choices={delimiter === '' ? [asDetected, ...choices] : choices}
          onChange={(value) => value !== '' && onChange({ ...chosen, delimiter: value })}
        />
      </Field>
      <Field label="First line">
        <Select
          value={header === undefined ? '' : String(header)}
          choices={header === undefined ? [asDetected, ...headers] : headers}
          onChange={(value) => value !== '' && onChange({ ...chosen, header: value === 'true' })}
        />
      </Field>
      <Field label="Encoding">
        <Select value={encoding} choices={encodings} onChange={(value) => onChange({ ...chosen, encoding: value })} />
      </Field>
    </>
  );
}
