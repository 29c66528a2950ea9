// What an import did, or would do, for a person.
import stringWidth from 'string-width';
import type { NotCarried, SourceDatabase } from '../../../model/import_source.ts';
import { formatType } from '../../../model/types.ts';
import type { TableOutcome } from './import_table.ts';
import type { ViewOutcome } from './import_views.ts';

export interface ImportReport {
  /** Without a password. */
  readonly source: string;
  readonly catalog: string;
  readonly database: string;
  readonly tables: readonly TableOutcome[];
  readonly views: readonly ViewOutcome[];
  readonly notCarried: readonly NotCarried[];
}

const table = (rows: readonly (readonly string[])[]): string => {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => stringWidth(row[i] ?? ''))));
  const lines = rows.map((row) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell + ' '.repeat((widths[i] ?? 0) - stringWidth(cell))))
      .join('  '),
  );
  return lines.map((line) => `  ${line.trimEnd()}\n`).join('');
};

const section = (title: string, rows: readonly (readonly string[])[]): string =>
  rows.length === 0 ? '' : `${title}\n${table(rows)}`;

const notCarriedText = (notCarried: readonly NotCarried[]): string =>
  section(
    'not carried over:',
    notCarried.map(({ object, kind, text }) => [object, kind, text]),
  );

/** Of a dry run. */
export function planText({ tables, views, notCarried }: SourceDatabase): string {
  const columns = tables.flatMap(({ name, columns: of, primaryKey, rowCount }) => [
    [name, `${rowCount ?? 'unknown'} rows`, primaryKey.length > 0 ? `primary key (${primaryKey.join(', ')})` : ''],
    ...of.map((column) => [`  ${column.name}`, formatType(column.type), column.nullable ? '' : 'not null']),
  ]);
  const viewRows = views.map(({ name }) => [name, 'created if its SQL is accepted']);
  return section('tables:', columns) + section('views:', viewRows) + notCarriedText(notCarried);
}

const states: Readonly<Record<TableOutcome['state'] | ViewOutcome['state'], string>> = {
  loaded: 'loaded, rows and checksums are equal',
  present: 'existed before, rows and checksums are equal',
  different: 'DIFFERENT',
  failed: 'FAILED',
  created: 'created',
  refused: 'not created',
};

const stateText = ({ state, reason }: TableOutcome | ViewOutcome): string =>
  states[state] + (reason === undefined ? '' : `: ${reason}`);

export function reportText({ tables, views, notCarried }: ImportReport): string {
  const tableRows = tables.map((outcome) => [outcome.name, `${outcome.rows} rows`, stateText(outcome)]);
  const viewRows = views.map((outcome) => [
    outcome.name,
    outcome.state === 'present' ? 'existed before' : stateText(outcome),
  ]);
  return section('tables:', tableRows) + section('views:', viewRows) + notCarriedText(notCarried);
}
