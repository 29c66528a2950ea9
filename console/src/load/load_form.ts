// What the user enters for a load: the table, its columns, and what happens to rows that cannot be loaded or were loaded before.
import type { ChosenSources } from './column_mapping.ts';
import type { FileColumn, LoadMode, Place, Target } from './load_session.ts';

export interface LoadForm {
  readonly kind: 'new' | 'existing';
  readonly place: Place;
  readonly newTable: string;
  readonly existing: string;
  readonly mode: LoadMode;
  readonly errorsMax: string;
  readonly label: string;
  /** Of a new table. */
  readonly columns: readonly FileColumn[];
  /** Of the columns of an existing table. */
  readonly sources: ChosenSources;
}

export function newLoadForm(file: File, places: readonly Place[], into: Target | undefined): LoadForm {
  const form: LoadForm = {
    kind: 'new',
    place: into ?? (places[0] as Place),
    newTable: tableNameOf(file.name),
    existing: into?.table ?? '',
    mode: 'append',
    errorsMax: '0',
    label: '',
    columns: [],
    sources: {},
  };
  return into ? withKind(form, 'existing', file) : form;
}

/**
 * A file is added to a table once, unless the user changes the label. A new table needs no label: another load into a table of that
 * name is refused.
 */
export const withKind = (form: LoadForm, kind: LoadForm['kind'], file: File): LoadForm => ({
  ...form,
  kind,
  label: kind === 'new' ? '' : `${file.name} ${new Date(file.lastModified).toISOString()}`.slice(-255),
});

export const targetOf = ({ kind, place, newTable, existing }: LoadForm): Target => ({
  catalog: place.catalog,
  database: place.database,
  table: kind === 'new' ? newTable : existing,
});

/** The name of a table for a file: `Flights 2026.csv.gz` → `flights_2026`. */
export function tableNameOf(fileName: string): string {
  const name = fileName
    .toLowerCase()
    .replace(/(\.(csv|tsv|txt|json|ndjson|jsonl|parquet|gz|zst))+$/, '')
    .replaceAll(/[^\p{L}\p{N}]+/gu, '_')
    .replaceAll(/^_+|_+$/g, '');
  return name === '' ? 'table' : name;
}
